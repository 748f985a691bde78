"""Pipelined edges whose producers are on other agents: one exchange for each edge and agent.

One job: open what a deploy needs, once, and say what went wrong with it. Whatever arrives lies in
the ports of this agent's pipes; tasks read those and do not know where rows came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock

from fabric.agent.outputs import read_schema
from fabric.agent.pipe import Pipes
from fabric.agent.routing import partitions_of, producers_of
from fabric.agent.waiting import waiting_of
from fabric.control import control_pb2 as pb
from fabric.flight.transport import ExchangeRequest, OpenExchange, Transport

Key = tuple[int, str]
"""(edge, the producers' agent)."""


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
        window_bytes=waiting_of(deploy).window_bytes,
    )
