"""The runtime with its real threads, a fake coordinator and a fake engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fabric._cython.shuffle.store.store import Store
from fabric.agent.engine import Services
from fabric.agent.runtime import AgentRuntime
from fabric.clock import Clock, SystemClock
from fabric.control import control_pb2 as pb
from fabric.control.link import Beat, OnLost, OnMessage, idle_beat
from fabric.errors import FabricError, PeerLostError, StorageError
from fabric.flight.descriptor import PutPath
from fabric.flight.inprocess import InProcessTransport
from fabric.flight.ticket import DatasetRequest, Part
from fabric.io import sinks
from fabric.io.dataset.access import DatasetFiles
from fabric.plan.nodes import Node, Sink, StageInput
from fabric.plan.targets import GateTarget
from fabric.process import resident_bytes
from fabric.testing.clock import ManualClock
from tests.support.wait import wait_until

SCHEMA = pa.schema([("a", pa.int64())])


class FakeLink:
    """The coordinator's end is the test."""

    def __init__(self) -> None:
        self.sent: list[pb.AgentMessage] = []
        self.closed = 0
        self.beat: Beat = idle_beat
        self.refuse = False
        self.before_welcome: Callable[[pb.Hello], None] = lambda _: None

    def open(
        self, hello: pb.Hello, on_message: OnMessage, on_lost: OnLost, beat: Beat = idle_beat
    ) -> None:
        if self.refuse:
            raise PeerLostError("nobody answers")
        self.say, self.lose, self.beat, self.hello = on_message, on_lost, beat, hello
        self.before_welcome(hello)
        self.say(pb.CoordinatorMessage(welcome=pb.Welcome(epoch=1)))

    def send(self, message: pb.AgentMessage) -> None:
        self.sent.append(message)

    def close(self) -> None:
        self.closed += 1

    def states(self) -> list[tuple[str, str]]:
        reports = [m.task for m in list(self.sent) if m.WhichOneof("kind") == "task"]
        return [(f"{r.key.stage}.{r.key.task}", pb.TaskState.Name(r.state)[5:]) for r in reports]


class Stream:
    def __init__(self, work: Callable[[threading.Event], Iterator[pa.RecordBatch]]) -> None:
        self._closed = threading.Event()
        self._batches = work(self._closed)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def close(self) -> None:
        self._closed.set()


class Passing:
    """A chain that passes on."""

    done = False
    has_more = False

    def on_batch(self, edge: int, rows: pa.RecordBatch) -> list[pa.RecordBatch]:
        return [rows]

    def on_end(self, edge: int) -> list[pa.RecordBatch]:
        return []


class FakeEngine:
    """The fragment's bytes name what it does."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[bytes, ...]]] = []
        self.publish_error: Exception | None = None
        self.stages: dict[bytes, Callable[[threading.Event], Iterator[pa.RecordBatch]]] = {
            b"rows": lambda closed: iter([batch(1, 2), batch(3)]),
            b"wait": lambda closed: (batch(i) for i in range(2) if i == 0 or closed.wait(20)),
            b"many": lambda closed: (batch(i) for i in range(200)),
        }

    def decode(self, fragment: bytes) -> Node:
        leaf = StageInput(0, SCHEMA, path=fragment.decode())
        return Sink(leaf, GateTarget("sink")) if fragment == b"sink" else leaf

    def execute(self, root: Node, inputs: Any, splits: Any, target_partitions: int) -> Stream:
        return Stream(self.stages[root.path.encode()])

    def chain(self, root: Node) -> Passing:
        return Passing()

    def publish(self, handles: Sequence[bytes], target: Any = None) -> None:
        if self.publish_error is not None:
            raise self.publish_error
        self.calls.append(("publish", tuple(handles)))

    def drop(
        self, handles: Sequence[bytes], kept: Sequence[bytes] = (), target: Any = None
    ) -> None:
        self.calls.append(("drop", tuple(handles)))

    def abandon(self, handles: Sequence[bytes], target: Any = None) -> None:
        self.calls.append(("abandon", tuple(handles)))

    def discard(
        self, target: GateTarget, job: str, stage: int, folder: str, *, published: bool
    ) -> None:
        self.calls.append(("discard", (target.name.encode(), job.encode(), str(stage).encode())))


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


class Running:
    """A started agent; its threads are counted."""

    def __init__(
        self, slots: int = 2, clock: Clock | None = None, datasets: DatasetFiles | None = None
    ) -> None:
        self.link, self.engine, self.transport = FakeLink(), FakeEngine(), InProcessTransport()
        self.lost: list[FabricError] = []
        self.runtime = AgentRuntime(
            hello=pb.Hello(agent_id="agent-1", address="local:agent-1", slots=slots),
            link=self.link,
            services=Services(
                agent_id="agent-1",
                store=Store("agent-1"),
                transport=self.transport,
                engine=self.engine,
                clock=clock or SystemClock(),
            ),
            datasets=datasets,
            on_lost=self.lost.append,
        )

    def say(self, **kind: Any) -> None:
        self.link.say(pb.CoordinatorMessage(**kind))

    def deploy(
        self,
        fragment: bytes,
        tasks: Sequence[int] = (0,),
        stage: int = 0,
        *,
        outputs: Sequence[pb.OutputEdge] = (),
        inputs: Sequence[pb.InputEdge] = (),
        kind: pb.StageKind = pb.STAGE_FRAGMENT,
    ) -> None:
        assignments = [pb.TaskAssignment(task=task) for task in tasks]
        self.say(
            deploy=pb.Deploy(
                job_id="job", stage=stage, epoch=1, fragment=fragment, n_tasks=len(tasks),
                tasks=assignments, outputs=outputs, inputs=inputs, kind=kind,
            )
        )  # fmt: skip

    def ended(self, *tasks: str) -> list[str]:
        """States in which these tasks ended, once all have."""
        wanted = set(tasks)

        def found() -> dict[str, str]:
            ends = {t: s for t, s in self.link.states() if s != "RUNNING" and t in wanted}
            return ends if len(ends) == len(wanted) else {}

        ends = wait_until(found)
        return [ends[task] for task in tasks]


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    before = set(threading.enumerate())
    running = Running()
    for name in ("publish", "drop", "abandon", "discard"):
        monkeypatch.setattr(sinks, name, getattr(running.engine, name))
    with running.runtime:
        running.runtime.attach()
        yield running
    left = [t.name for t in set(threading.enumerate()) - before]
    assert left == []
    assert running.link.closed == 1
    assert running.runtime.store.stored_bytes == 0


def output(edge: int, n: int, mode: pb.EdgeMode = pb.MODE_MATERIALISED) -> pb.OutputEdge:
    return pb.OutputEdge(
        edge=edge, kind=pb.EDGE_ROUND_ROBIN, mode=mode, n_partitions=n, buffer_batches=1,
        schema=SCHEMA.serialize().to_pybytes(),
    )  # fmt: skip


def test_a_task_runs_reports_and_its_partitions_stay_until_release(agent: Running) -> None:
    agent.deploy(b"rows", outputs=[output(1, 1)])
    assert agent.ended("0.0") == ["FINISHED"]
    assert agent.link.states()[0] == ("0.0", "RUNNING")
    assert agent.runtime.store.stored_bytes == 24
    beat = agent.link.beat()
    assert (beat.running_tasks, beat.stored_bytes) == (0, 24)
    assert 10 << 20 < beat.rss_bytes == pytest.approx(resident_bytes(), rel=0.2)
    agent.say(release=pb.ReleaseJob(job_id="job"))
    wait_until(lambda: agent.runtime.store.stored_bytes == 0)


def test_slots_bound_the_threads(agent: Running) -> None:
    agent.deploy(b"wait", tasks=(0, 1, 2, 3))
    wait_until(lambda: agent.runtime.running_tasks == 2)
    names = [t.name for t in threading.enumerate() if t.name.startswith("task ")]
    assert sorted(names) == ["task job/0.0#0", "task job/0.1#0"]
    agent.say(cancel=pb.CancelTasks(job_id="job", reason="stop"))
    assert agent.ended("0.0", "0.1", "0.2", "0.3") == ["CANCELLED"] * 4


def test_a_pipelined_diamond_with_one_batch_buffers_ends(agent: Running) -> None:
    """One source, two branches, one union: six tasks at once on two slots."""
    pipelined = pb.MODE_PIPELINED

    def edge(number: int, n: int, producers: int) -> pb.InputEdge:
        return pb.InputEdge(
            edge=number, kind=pb.EDGE_ROUND_ROBIN, mode=pipelined, n_partitions=n,
            producers=[pb.Producer(task=i, agent_id="agent-1") for i in range(producers)],
        )  # fmt: skip

    chain = pb.STAGE_CHAIN
    agent.deploy(
        b"union",
        (0, 1),
        3,
        outputs=[output(9, 1)],
        inputs=[edge(3, 2, 1), edge(4, 2, 2)],
        kind=chain,
    )
    agent.deploy(
        b"left", (0,), 1, outputs=[output(3, 2, pipelined)], inputs=[edge(1, 1, 1)], kind=chain
    )
    agent.deploy(
        b"right", (0, 1), 2, outputs=[output(4, 2, pipelined)], inputs=[edge(2, 2, 1)], kind=chain
    )
    agent.deploy(b"many", (0,), 0, outputs=[output(1, 1, pipelined), output(2, 2, pipelined)])
    assert set(agent.ended("0.0", "1.0", "2.0", "2.1", "3.0", "3.1")) == {"FINISHED"}
    store = agent.runtime.store
    lists = iter(store.batches("job", 9, 0, [(0, 0), (1, 0)]).take_batches, [])
    found = [v for batches in lists for b in batches for v in b[0].to_pylist()]
    assert sorted(found) == sorted([*range(200)] * 2)


def test_cancel_wakes_a_region_that_waits_for_itself(agent: Running) -> None:
    pipe = output(1, 1, pb.MODE_PIPELINED)
    agent.deploy(b"many", outputs=[pipe])  # nobody takes
    waiting = pb.InputEdge(
        edge=2, kind=pb.EDGE_GATHER, mode=pb.MODE_PIPELINED, n_partitions=1,
        producers=[pb.Producer(agent_id="agent-1")],
    )  # fmt: skip
    agent.deploy(b"union", stage=1, inputs=[waiting], kind=pb.STAGE_CHAIN)  # nobody gives
    wait_until(lambda: agent.runtime.running_tasks == 2)
    agent.say(cancel=pb.CancelTasks(job_id="job", reason="stop"))
    assert agent.ended("0.0", "1.0") == ["CANCELLED"] * 2


def test_sink_commands_are_carried_out_and_told(agent: Running) -> None:
    agent.say(
        sink=pb.SinkCommand(job_id="job", stage=4, publish=pb.SinkPublish(), handles=[b"1", b"2"])
    )
    agent.say(sink=pb.SinkCommand(job_id="job", stage=4, abandon=pb.SinkAbandon(), handles=[b"3"]))
    reports = wait_until(lambda: [m.sink for m in agent.link.sent if m.HasField("sink")][1:])
    assert agent.engine.calls == [("publish", (b"1", b"2")), ("abandon", (b"3",))]
    assert not reports[0].HasField("error")
    agent.say(
        sink=pb.SinkCommand(
            job_id="job", state="first", stage=4, abandon=pb.SinkAbandon(), fragment=b"sink"
        )
    )
    wait_until(lambda: len(agent.engine.calls) == 3)
    assert agent.engine.calls[2] == ("discard", (b"sink", b"first", b"4"))
    agent.engine.publish_error = StorageError("no space left on /out")
    agent.say(sink=pb.SinkCommand(job_id="job", stage=5, publish=pb.SinkPublish()))
    report = wait_until(lambda: [m.sink for m in agent.link.sent if m.sink.stage == 5])[0]
    assert (report.error.kind, report.error.message) == ("StorageError", "no space left on /out")


def test_a_lost_link_stops_nothing_and_what_runs_is_said_again(agent: Running) -> None:
    agent.deploy(b"wait")
    wait_until(lambda: agent.runtime.running_tasks == 1)
    agent.link.lose(PeerLostError("gone"))
    assert [str(error) for error in agent.lost] == ["gone"]
    agent.link.refuse = True
    with pytest.raises(PeerLostError, match="nobody answers"):
        agent.runtime.attach()
    agent.link.refuse = False
    agent.runtime.attach()
    assert agent.runtime.running_tasks == 1
    (held,) = agent.link.hello.tasks
    assert (held.state, held.key.stage, held.key.task) == (pb.TASK_RUNNING, 0, 0)
    agent.say(cancel=pb.CancelTasks(job_id="job", keys=[held.key]))
    assert agent.ended("0.0") == ["CANCELLED"]


def test_what_ends_between_hello_and_welcome_is_told(agent: Running) -> None:
    """Also when the watchdog asks for a sign meanwhile."""
    agent.deploy(b"wait")
    wait_until(lambda: agent.runtime.running_tasks == 1)
    agent.link.lose(PeerLostError("gone"))

    def end(hello: pb.Hello) -> None:
        (held,) = hello.tasks
        agent.say(cancel=pb.CancelTasks(job_id="job", keys=[held.key]))
        assert agent.ended("0.0") == ["CANCELLED"]
        agent.runtime.sign().get(timeout=60)
        agent.link.sent.clear()  # nobody was there

    agent.link.before_welcome = end
    agent.runtime.attach()
    assert agent.ended("0.0") == ["CANCELLED"]


def test_an_agent_that_hears_nothing_stops_its_tasks(agent: Running) -> None:
    agent.deploy(b"wait")
    wait_until(lambda: agent.runtime.running_tasks == 1)
    agent.say(welcome=pb.Welcome(heartbeat_s=0.01, timeout_s=0.05))
    assert agent.ended("0.0") == ["CANCELLED"]


@pytest.mark.parametrize("jump_s", [5 * 3600.0, -5 * 3600.0])
def test_a_lease_goes_by_the_monotonic_clock(jump_s: float) -> None:
    clock = ManualClock()
    agent = Running(clock=clock)
    with agent.runtime:
        agent.runtime.attach()
        agent.say(welcome=pb.Welcome(heartbeat_s=1.0, timeout_s=20.0))
        agent.deploy(b"wait")
        wait_until(lambda: agent.runtime.running_tasks == 1)
        clock.jump_wall(jump_s)
        agent.deploy(b"rows", stage=1)  # what comes is dealt with after a look at the lease
        assert agent.ended("1.0") == ["FINISHED"]
        assert agent.runtime.running_tasks == 1
        clock.advance(20.0)
        agent.say(locations=pb.Locations(version=1, full=True))
        assert agent.ended("0.0") == ["CANCELLED"]


def test_jobs_that_locations_drop_are_released(agent: Running) -> None:
    agent.deploy(b"rows", outputs=[output(1, 1)])
    agent.ended("0.0")
    location = pb.EdgeLocation(job_id="job", node_path="rows", edge=1)
    agent.say(locations=pb.Locations(version=1, full=True, edges=[location]))
    agent.say(locations=pb.Locations(version=2, full=True))
    wait_until(lambda: agent.runtime.store.stored_bytes == 0)
    assert agent.runtime.locations.version == 2


def test_close_stops_running_tasks(agent: Running) -> None:
    agent.deploy(b"wait", tasks=(0, 1, 2), outputs=[output(1, 2)])
    wait_until(lambda: agent.runtime.running_tasks == 2)
    agent.runtime.close()
    agent.runtime.close()


def test_partitions_of_datasets_are_copied_and_given_away_in_order(tmp_path: Path) -> None:
    owner, mine = DatasetFiles(tmp_path / "owner"), DatasetFiles(tmp_path / "mine", "agent-1")
    writer = owner.open_write(PutPath("d", "tx", "w", 0), SCHEMA)
    for partition in range(2):
        writer.write(partition, batch(partition))
    writer.seal()
    part = pb.CommittedPart(transaction="tx", writer="w")
    source = pb.ReplicaSource(agent_id="owner", address="local:owner")

    def replicate(number: int, partition: int, *sources: pb.ReplicaSource) -> pb.Replicate:
        return pb.Replicate(
            number=number, dataset="d", partition=partition, parts=[part], sources=sources,
            schema=SCHEMA.serialize().to_pybytes(),
        )  # fmt: skip

    def lies(partition: int) -> bool:
        parts = (Part("tx", "w", 0),)
        return mine.has(DatasetRequest(name="d", version=1, partition=partition, parts=parts))

    agent = Running(datasets=mine)
    agent.transport.register("local:owner", agent.runtime.store, owner)
    with agent.runtime:
        agent.runtime.attach()
        agent.say(replicate=replicate(1, 0, source))
        agent.say(keep=pb.KeepPartitions(dataset="d", partitions=[1], parts=[part]))
        agent.say(replicate=replicate(2, 1, source))
        agent.say(replicate=replicate(3, 2, source))
        agent.say(replicate=replicate(4, 1))  # it is here already
        told = wait_until(lambda: reports if len(reports := copied(agent)) == 4 else None)
        assert [(r.number, r.error.kind) for r in told] == [
            (1, ""), (2, ""), (3, "PartitionLostError"), (4, ""),
        ]  # fmt: skip
        assert [lies(partition) for partition in range(3)] == [False, True, False]


def copied(agent: Running) -> list[pb.Replicated]:
    return [m.replicated for m in list(agent.link.sent) if m.WhichOneof("kind") == "replicated"]


def test_an_agent_without_datasets_says_so(agent: Running) -> None:
    agent.say(replicate=pb.Replicate(number=7))
    (told,) = wait_until(lambda: copied(agent))
    assert (told.number, told.error.kind) == (7, "InternalError")
