"""Any rows over pipelined edges of several agents: those of the producers, in order, or an error.

The oracle is what each producer put, as text. Whoever fails is told of by name, and the test then
cancels the rest of the job, as a coordinator does.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.shuffle.exchange.exchanges import Exchange, InProcessExchange
from fabric._cython.shuffle.pump.pump import Connections
from fabric.agent.pipes import Item, Mark, Pipes, Rows
from fabric.errors import CancelledError, FabricError, PartitionLostError, PeerLostError
from fabric.flight.header import Event
from fabric.flight.sockets import new_socket, remove_socket
from tests.support.arrays import batches, examples, rendered
from tests.support.cut_proxy import CutProxy, How
from tests.support.flight_rig import FlightRig
from tests.support.wait import wait_until

JOB, NODE, EDGE = "job-1", "moved", 4
AGENTS = ("a0", "a1")
PLACES = ("flight", "socket", "in process")
NOWHERE = "grpc+tcp://127.0.0.1:{}"  # where nobody listens: only the shortcut leads anywhere
OVER = "the test is over"
PATIENCE_S = 60.0
Key = tuple[int, int]
Said = tuple[Any, ...]


# ---- what is sent


@dataclass
class Task:
    """A producer: where it runs, and what it puts, partition by partition."""

    number: int
    attempt: int
    agent: str
    items: list[tuple[int, Item]] = field(default_factory=list)


@dataclass
class Plan:
    """An edge: its tasks, and the partitions of each consumers' agent."""

    schema: pa.Schema
    n_partitions: int
    tasks: list[Task]
    consumers: list[list[int]]
    batches_max: int
    wait_ns: int
    window_bytes: int
    compression: str

    def producers(self, agent: str, partitions: list[int]) -> list[tuple[int, int, int]]:
        """(task, attempt, partition) of those on `agent`."""
        return [
            (t.number, t.attempt, p) for t in self.tasks if t.agent == agent for p in partitions
        ]

    def sent(self) -> dict[Key, list[Said]]:
        """What each (task, partition) must bring."""
        sent: dict[Key, list[Said]] = defaultdict(list)
        for task in self.tasks:
            for partition, item in task.items:
                sent[task.number, partition] += said(item)
        return dict(sent)


def said(item: Item) -> list[Said]:
    """Rows one by one, as text; an event as it is. Batches may be joined or cut on the way."""
    if isinstance(item, Mark):
        return [(Event(item.event), item.value, item.total_rows)]
    return list(zip(*(rendered(column) for column in item.batch.columns), strict=True))


@st.composite
def tasks(draw: st.DrawFn, number: int, rows: pa.RecordBatch, n_partitions: int) -> Task:
    """Slices of `rows` and events, in any order, closed by an END for each partition."""
    task = Task(number, draw(st.integers(0, 2)), draw(st.sampled_from(AGENTS)))
    totals = [0] * n_partitions
    events = st.sampled_from([Event.WATERMARK, Event.BARRIER])
    for value in range(draw(st.integers(0, 12))):
        partition = draw(st.integers(0, n_partitions - 1))
        if draw(st.integers(0, 3)) == 0:
            task.items.append((partition, Mark(number, draw(events), value)))
            continue
        begin = draw(st.integers(0, rows.num_rows))
        batch = rows.slice(begin, draw(st.integers(0, rows.num_rows - begin)))
        totals[partition] += batch.num_rows
        task.items.append((partition, Rows(number, batch)))
    task.items += [(p, Mark(number, Event.END, 0, n)) for p, n in enumerate(totals)]
    return task


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """An edge between one to two agents of producers and one to two of consumers."""
    rows = draw(batches())
    n_partitions = draw(st.integers(1, 4))
    n_tasks, n_consumers = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    return Plan(
        rows.schema,
        n_partitions,
        [draw(tasks(number, rows, n_partitions)) for number in range(n_tasks)],
        [list(range(n_partitions))[c::n_consumers] for c in range(min(n_consumers, n_partitions))],
        draw(st.sampled_from([1, 2, 64])),
        draw(st.sampled_from([0, 1])),
        draw(st.sampled_from([1, 100, 3000, 1 << 20])),
        draw(st.sampled_from(["", "lz4", "zstd"])),
    )


# ---- how it is moved


@dataclass(frozen=True)
class Fabric:
    """Two agents of producers, and the socket of each."""

    rig: FlightRig
    sockets: dict[str, str]


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    with FlightRig(tmp_path_factory.mktemp("rig"), len(AGENTS)) as rig:
        paths = {agent: new_socket(tmp_path_factory.mktemp(agent)) for agent in AGENTS}
        for agent, path in paths.items():
            rig.servers[agent].listen(path)
        yield Fabric(rig, {agent: str(path) for agent, path in paths.items()})
    for path in paths.values():
        remove_socket(path)


def running(work: Callable[..., object], *given: object) -> threading.Thread:
    thread = threading.Thread(target=work, args=given, daemon=True)
    thread.start()
    return thread


class Edge:
    """One edge that moves; use it in a `with`."""

    def __init__(self, fabric: Fabric, plan: Plan, ways: dict[str, str]) -> None:
        """`ways` say how consumers reach an agent: an address, or one of `PLACES`."""
        self._fabric, self._plan, self._ways = fabric, plan, ways
        self.sources = {agent: Pipes(JOB) for agent in AGENTS}
        self.targets = [Pipes(JOB) for _ in plan.consumers]
        self.exchanges: list[dict[str, Exchange | InProcessExchange]] = [{} for _ in plan.consumers]
        self.found: dict[Key, list[Said]] = defaultdict(list)
        self.failures: list[FabricError] = []
        self._connections = Connections()

    def __enter__(self) -> Edge:
        plan = self._plan
        for agent, pipes in self.sources.items():
            pipes.declare(EDGE, plan.n_partitions, plan.batches_max, wait_ns=plan.wait_ns)
            self._fabric.rig.exchanges[agent].add(JOB, pipes)
        for task in plan.tasks:
            self._fabric.rig.exchanges[task.agent].begin(JOB, EDGE, task.number, task.attempt)
        shortcuts = {NOWHERE.format(n + 1): self._fabric.sockets[a] for n, a in enumerate(AGENTS)}
        assert self._connections.shorten(shortcuts) == {}
        for number, partitions in enumerate(plan.consumers):
            target = self.targets[number]
            target.declare(EDGE, plan.n_partitions, plan.batches_max, wait_ns=plan.wait_ns)
            for agent in AGENTS:
                if producers := plan.producers(agent, partitions):
                    self.exchanges[number][agent] = self._open(agent, number, producers)
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel(OVER)
        for exchanges in self.exchanges:
            for exchange in exchanges.values():
                exchange.close()
        self._connections.close()
        for agent in AGENTS:
            self._fabric.rig.exchanges[agent].remove(JOB)

    def _open(
        self, agent: str, number: int, producers: list[tuple[int, int, int]]
    ) -> Exchange | InProcessExchange:
        plan, rig, way, to = self._plan, self._fabric.rig, self._ways[agent], self.targets[number]
        same: dict[str, Any] = {
            "job": JOB, "node": NODE, "edge": EDGE, "n_partitions": plan.n_partitions,
            "producers": producers,
        }  # fmt: skip
        if way == "in process":
            return InProcessExchange(rig.exchanges[agent], to, **same)
        known = {"flight": rig.address(agent), "socket": NOWHERE.format(AGENTS.index(agent) + 1)}
        return Exchange(
            self._connections, to, address=known.get(way, way), token=rig.token("agent"),
            schema=plan.schema, window_bytes=plan.window_bytes, agent=agent,
            compression=plan.compression, **same,
        )  # fmt: skip

    def cancel(self, reason: str) -> None:
        """The whole job; its consumers first, so that they hear this reason."""
        for pipes in (*self.targets, *self.sources.values()):
            pipes.cancel(reason)

    def run(self, n_taken: int) -> None:
        """Put all, take all: until the end of every consumer."""
        threads = [running(self._produce, task) for task in self._plan.tasks]
        threads += [running(self._consume, n, n_taken) for n in range(len(self.targets))]
        end_s = time.monotonic() + PATIENCE_S
        for thread in threads:
            thread.join(max(0.0, end_s - time.monotonic()))
        assert not any(thread.is_alive() for thread in threads)

    def _produce(self, task: Task) -> None:
        with suppress(CancelledError):
            for partition, item in task.items:
                self.sources[task.agent].put([((EDGE, partition), item)])

    def _consume(self, number: int, n_taken: int) -> None:
        partitions = self._plan.consumers[number]
        n_open = len(self._plan.tasks) * len(partitions)
        ports = [(EDGE, partition) for partition in partitions]
        try:
            while n_open:
                for (_, partition), item in self.targets[number].take_many(ports, n_taken):
                    self.found[item.producer, partition] += said(item)
                    n_open -= isinstance(item, Mark) and item.event is Event.END
        except CancelledError as error:
            if "an exchange with another agent failed" in error.message:
                self.failures.append(self._failure(number))
                self.cancel(OVER)

    def _failure(self, number: int) -> FabricError:
        """What one of the exchanges failed with: consumers hear of it a moment before it ended."""
        failures: list[FabricError] = []

        def failed() -> bool:
            for exchange in self.exchanges[number].values():
                try:
                    exchange.check()
                except CancelledError:
                    pass  # it has heard of the other's end
                except FabricError as error:
                    failures.append(error)
            return bool(failures)

        wait_until(failed)
        return failures[0]


# ---- what must hold


@examples(0.7)
@given(
    plan=plans(),
    places=st.tuples(st.sampled_from(PLACES), st.sampled_from(PLACES)),
    n_taken=st.sampled_from([1, 5, 64]),
)
def test_rows_are_those_of_the_producers(
    fabric: Fabric, plan: Plan, places: tuple[str, str], n_taken: int
) -> None:
    with Edge(fabric, plan, dict(zip(AGENTS, places, strict=True))) as edge:
        edge.run(n_taken)
        assert edge.failures == []
        assert edge.found == plan.sent()
        for number, partitions in enumerate(plan.consumers):
            for agent, exchange in edge.exchanges[number].items():
                exchange.check()
                assert exchange.rows == sum(
                    item.batch.num_rows
                    for task in plan.tasks
                    for partition, item in task.items
                    if task.agent == agent and partition in partitions and isinstance(item, Rows)
                )
        assert all(pipes.waiting_bytes() == 0 for pipes in (*edge.sources.values(), *edge.targets))


CUTS = st.lists(st.integers(0, 3_000) | st.integers(0, 30_000), max_size=3)


@examples(0.7)
@given(
    plan=plans(),
    cuts=st.tuples(CUTS, CUTS),
    how=st.sampled_from(["reset", "close"]),
    n_taken=st.sampled_from([1, 64]),
)
def test_cut_connections_are_whole_or_named(
    fabric: Fabric, plan: Plan, cuts: tuple[list[int], list[int]], how: How, n_taken: int
) -> None:
    with ExitStack() as stack:
        proxies = [
            stack.enter_context(CutProxy(port_of(fabric.rig.address(agent)), own_cuts, how))
            for agent, own_cuts in zip(AGENTS, cuts, strict=True)
        ]
        ways = {agent: proxy.address for agent, proxy in zip(AGENTS, proxies, strict=True)}
        edge = stack.enter_context(Edge(fabric, plan, ways))
        edge.run(n_taken)
        sent = plan.sent()
        if not edge.failures:
            assert edge.found == sent
        else:
            assert sum(proxy.n_cut for proxy in proxies) > 0
        for error in edge.failures:
            assert isinstance(error, (PartitionLostError, PeerLostError)), error
            assert error.where.agent in AGENTS
            assert (error.where.job, error.where.node) == (JOB, NODE)
        for key, some in edge.found.items():  # nothing doubled, out of order or made up
            assert some == sent[key][: len(some)]


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


DICTIONARIES = pa.record_batch(
    {
        name: pa.array(["a", "b", "c"] * 40).dictionary_encode()
        for name in ("first", "second", "third")
    }
)


@pytest.mark.parametrize("cut", range(400, 1_700, 100))
def test_a_connection_cut_amid_dictionaries_is_named(fabric: Fabric, cut: int) -> None:
    """Dictionaries are messages of their own, before the rows that need them."""
    items: list[tuple[int, Item]] = [(0, Rows(0, DICTIONARIES)), (0, Mark(0, Event.END, 0, 120))]
    plan = Plan(DICTIONARIES.schema, 1, [Task(0, 0, "a0", items)], [[0]], 1, 0, 1 << 20, "")
    with (
        CutProxy(port_of(fabric.rig.address("a0")), [cut], "close") as proxy,
        Edge(fabric, plan, {"a0": proxy.address}) as edge,
    ):
        edge.run(1)
    for error in edge.failures:
        assert isinstance(error, (PartitionLostError, PeerLostError)), error
        assert error.where.agent == "a0"
    assert edge.failures or edge.found == plan.sent()
