"""The pipelined edges into a task of a stream, as items come out of their rings.

One job: take from the rings that are still open, in turn, and wait no longer than told.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric.agent.inputs import Inputs
from fabric.agent.pipe import Item, Port
from fabric.errors import InternalError


class Edges:
    """The open ports of one task; every edge has one."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
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
        items = self._inputs.next_items(self._ports, wait_s)
        gave = {port for port, _ in items}
        self._ports.sort(key=gave.__contains__)  # who gave goes to the back of the line
        return ((port[0], item) for port, item in items)

    def over(self, edge: int) -> None:
        """Nothing more comes over an edge."""
        self._ports = [port for port in self._ports if port[0] != edge]
