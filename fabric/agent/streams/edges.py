"""The pipelined edges into a task of a stream, as items come out of their rings.

One job: take from the rings that are still open, in turn, and wait no longer than told. Rows may
stay in their rings for the task's share of the latency, to go through the chain together
(`Meeting`); nothing is left where anything presses: a barrier, an end, a ring that is half full.
For a task that puts nothing out before some watermark they rest for longer, until that comes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from fabric.agent.inputs import Inputs
from fabric.agent.pipe import Item, Port, Rows
from fabric.agent.streams.batching import Meeting
from fabric.clock import Clock
from fabric.errors import InternalError
from fabric.event_time import BEGINNING
from fabric.flight.header import Event

REST_S = 0.1
"""As long as a barrier may wait for what lies before it: see `batching.TARGET_S`."""


class Edges:
    """The open ports of one task; every edge has one."""

    def __init__(
        self, inputs: Inputs, clock: Clock, meeting: Meeting, *, may_rest: bool = False
    ) -> None:
        self._inputs, self._clock, self._meeting = inputs, clock, meeting
        self._may_rest, self._took_s = may_rest, -math.inf
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

    def take(self, wait_s: float, silent_until: int = BEGINNING) -> Iterator[tuple[int, Item]]:
        """What waits, by edge, after at most `wait_s`.

        Nothing that comes matters to anybody before a watermark of `silent_until`.
        """
        meeting, clock = self._meeting, self._clock
        if self._may_rest and wait_s > 0.0 and silent_until != BEGINNING:
            rest_s = self._took_s + REST_S - clock.monotonic_s()
            if rest_s > 0.0 and not self._inputs.rest(
                self._ports, silent_until, min(rest_s, wait_s)
            ):
                if rest_s > wait_s:
                    return iter(())
                wait_s = 0.0
        left_s = meeting.next_s(clock.monotonic_s())
        items = self._inputs.next_items(self._ports, wait_s, left_s)
        if items:
            now_s = clock.monotonic_s()
            if left_s <= 0 and (first_s := meeting.first_s(now_s)) and all(map(_may_wait, items)):
                items += self._inputs.next_items(self._ports, first_s, first_s)
                now_s = clock.monotonic_s()
            meeting.took(now_s)
        self._took_s = clock.monotonic_s()
        gave = {port for port, _ in items}
        self._ports.sort(key=gave.__contains__)  # who gave goes to the back of the line
        return ((port[0], item) for port, item in items)

    def over(self, edge: int) -> None:
        """Nothing more comes over an edge."""
        self._ports = [port for port in self._ports if port[0] != edge]


def _may_wait(entry: tuple[Port, Item]) -> bool:
    _, item = entry
    return isinstance(item, Rows) or item.event is Event.WATERMARK
