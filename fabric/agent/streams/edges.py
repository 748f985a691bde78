"""The pipelined edges into a task of a stream, as items come out of their rings.

One job: take from the rings that are still open, in turn, and wait no longer than told. What comes
soon after something was taken stays in its ring for the rest of the task's share of the latency, so
that it goes through the chain with what follows it; what comes after a pause is taken at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric.agent.inputs import Inputs
from fabric.agent.pipe import Item, Port
from fabric.agent.streams.batching import next_due_s
from fabric.clock import Clock
from fabric.errors import InternalError


class Edges:
    """The open ports of one task; every edge has one."""

    def __init__(self, inputs: Inputs, clock: Clock, gather_s: float = 0.0) -> None:
        self._inputs, self._clock, self._gather_s = inputs, clock, gather_s
        self._due_s = 0.0
        """When the next items are taken, unless some of them press."""
        self.producers: dict[int, set[int]] = {}
        """Tasks whose rows come over each edge."""
        self._ports: list[Port] = []
        for port, producers in inputs.expected().items():
            if port[0] in self.producers:
                raise InternalError(f"a task of a stream reads two partitions of edge {port[0]}")
            self.producers[port[0]] = producers
            self._ports.append(port)

    @property
    def open(self) -> bool:
        """Whether anything may still come."""
        return bool(self._ports)

    def take(self, wait_s: float) -> Iterator[tuple[int, Item]]:
        """What waits, by edge, after at most `wait_s`."""
        wanted_s = self._due_s - self._clock.monotonic_s() if self._gather_s else 0.0
        items = self._inputs.next_items(self._ports, wait_s, max(0.0, wanted_s))
        if items and self._gather_s:
            self._due_s = next_due_s(self._clock.monotonic_s(), self._gather_s)
        gave = {port for port, _ in items}
        self._ports.sort(key=gave.__contains__)  # who gave goes to the back of the line
        return ((port[0], item) for port, item in items)

    def over(self, edge: int) -> None:
        """Nothing more comes over an edge."""
        self._ports = [port for port in self._ports if port[0] != edge]
