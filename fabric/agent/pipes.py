"""Pipelined edges: bounded rings between tasks of one agent, and exchanges that fill them.

`Pipes` is the Python face of `fabric/_cython/shuffle/ring`, which carries batches and events of one
job's pipelined edges from producers to consumers. Each (edge, partition) is one lock-free ring with
one consumer at a time, bounded in batches and bytes; events cost no room but wait behind the rows
before them, so they never overtake rows. A producer waits for room on any of its edges and a
consumer for an item on any of its inputs: a diamond with one-batch buffers can't block. Who waits
sleeps without the GIL. Cancelling wakes everyone.

`Backlog` bounds how much may wait between two tasks; of a stream less: a barrier, and each row,
stays behind all that lies before it.

`Exchanges` opens what a deploy needs of producers on other agents, once for each edge and agent,
and says what went wrong with it. Whatever arrives lies in the pipes of this agent; tasks read those
and do not know where rows came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock

from fabric._cython.shuffle.ring import ring
from fabric._cython.shuffle.ring.ring import Mark, Rows
from fabric.agent.router import partitions_of, producers_of, read_schema
from fabric.control import control_pb2 as pb
from fabric.flight.header import Event
from fabric.flight.transport import WINDOW_BYTES, ExchangeRequest, OpenExchange, Transport

__all__ = ["Item", "Mark", "Pipes", "Port", "Rows"]

Port = tuple[int, int]
"""(edge, partition)."""
Item = Rows | Mark
"""Whatever waits in a ring."""
Key = tuple[int, str]
"""(edge, the producers' agent)."""


class Pipes(ring.Pipes):
    """Every pipelined edge of one job on this agent."""

    def __new__(cls, job: str) -> Pipes:
        """The pipes of `job`, with no edge yet."""
        return super().__new__(cls, job, Event)


@dataclass(frozen=True, slots=True)
class Backlog:
    """Bounds of one partition of a pipelined edge; a batch that is larger goes in alone."""

    ring_bytes: int = 8 << 20
    """What its ring holds at most."""
    window_bytes: int = WINDOW_BYTES
    """What may be on its way from another agent and unread."""
    wait_ns: int = 0
    """All of it is worth no more of its consumer's time (0: any time)."""


OF_JOBS = Backlog()
OF_STREAMS = Backlog(ring_bytes=512 << 10, window_bytes=1 << 20, wait_ns=100_000_000)


def backlog_of(deploy: pb.Deploy) -> Backlog:
    """What may wait for and behind the tasks of `deploy`."""
    return OF_STREAMS if deploy.HasField("stream") else OF_JOBS


@dataclass(frozen=True, slots=True)
class Wanted:
    """What tasks of a deploy want of one edge from the producers on one other agent."""

    edge: pb.InputEdge
    agent_id: str
    producers: tuple[tuple[int, int, int], ...]
    """(task, attempt, partition) of each that has rows for a partition here."""


class Exchanges:
    """The exchanges of every job on this agent; thread-safe."""

    def __init__(self, agent_id: str, transport: Transport) -> None:
        self._agent_id, self._transport = agent_id, transport
        self._lock = Lock()
        self._open: dict[str, dict[Key, OpenExchange]] = {}

    def open(self, deploy: pb.Deploy, pipes: Pipes) -> None:
        """Open what the pipelined edges into a deployed stage need; again is fine."""
        for wanted in wanted_of(deploy, self._agent_id):
            with self._lock:
                here = self._open.setdefault(deploy.job_id, {})
                key = (wanted.edge.edge, wanted.agent_id)
                if key not in here:
                    address = deploy.addresses[wanted.agent_id]
                    request = _request(deploy, wanted)
                    here[key] = self._transport.open_exchange(address, request, pipes)

    def check(self, job: str) -> None:
        """Raise what an exchange of `job` failed with; nothing when none did."""
        with self._lock:
            exchanges = list(self._open.get(job, {}).values())
        for exchange in exchanges:
            exchange.check()

    def drop(self, job: str) -> None:
        """Close every exchange of `job`."""
        with self._lock:
            exchanges = self._open.pop(job, {})
        for exchange in exchanges.values():
            exchange.close()

    def jobs(self) -> set[str]:
        """Jobs with exchanges, open or over."""
        with self._lock:
            return set(self._open)


def wanted_of(deploy: pb.Deploy, agent_id: str) -> Iterator[Wanted]:
    """What the tasks of `deploy` on `agent_id` want from producers on other agents."""
    n_tasks = max(1, deploy.n_tasks)
    for edge in deploy.inputs:
        if edge.mode != pb.MODE_PIPELINED:
            continue
        by_agent: dict[str, list[tuple[int, int, int]]] = {}
        for assignment in deploy.tasks:
            for partition in partitions_of(edge.kind, edge.n_partitions, assignment.task, n_tasks):
                for source in producers_of(edge, partition):
                    found = (source.task, source.attempt, partition)
                    by_agent.setdefault(source.agent_id, []).append(found)
        for other, producers in sorted(by_agent.items()):
            if other != agent_id:
                yield Wanted(edge, other, tuple(sorted(set(producers))))


def _request(deploy: pb.Deploy, wanted: Wanted) -> ExchangeRequest:
    return ExchangeRequest(
        job=deploy.job_id,
        node_path=wanted.edge.node_path,
        edge=wanted.edge.edge,
        n_partitions=wanted.edge.n_partitions,
        producers=wanted.producers,
        schema=read_schema(wanted.edge.schema),
        agent_id=wanted.agent_id,
        compression=wanted.edge.compression,
        window_bytes=backlog_of(deploy).window_bytes,
    )
