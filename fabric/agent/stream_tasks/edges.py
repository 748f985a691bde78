"""The pipelined edges into a task, as items come out of their rings.

One job: take from the rings that are still open, in turn, and wait no longer than told. Rows may
stay in their rings for the task's share of the latency, to go through the chain together
(`Meeting`, which is pure); nothing is left where anything presses: a barrier, an end, a ring that
is half full. For a task that puts nothing out before some watermark they rest for longer, until
that comes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from fabric.agent.inputs import Inputs
from fabric.agent.pipes import Item, Port, Rows
from fabric.clock import Clock
from fabric.errors import InternalError
from fabric.event_time import BEGINNING
from fabric.flight.header import Event

REST_S = 0.1
"""As long as a barrier may wait for what lies before it: see `sources.TARGET_S`."""


class Edges:
    """The open ports of one task; every edge has one."""

    def __init__(
        self,
        inputs: Inputs,
        clock: Clock,
        meeting: Meeting | None = None,
        *,
        may_rest: bool = False,
    ) -> None:
        self._inputs, self._clock, self._meeting = inputs, clock, meeting or Meeting()
        self._may_rest, self._took_s = may_rest, -math.inf
        self.producers: dict[int, set[int]] = {}
        """Tasks whose rows come over each edge."""
        self._ports: list[Port] = []
        for port, producers in inputs.expected().items():
            if port[0] in self.producers:
                raise InternalError(f"a task reads two partitions of edge {port[0]}")
            self.producers[port[0]] = producers
            self._ports.append(port)

    @property
    def open(self) -> bool:
        """Whether anything may still come."""
        return bool(self._ports)

    def take(
        self, wait_s: float | None, silent_until: int = BEGINNING
    ) -> Iterator[tuple[int, Item]]:
        """What waits, by edge, after at most `wait_s`; None: as long as it takes.

        Nothing that comes matters to anybody before a watermark of `silent_until`.
        """
        meeting, clock = self._meeting, self._clock
        if self._may_rest and wait_s and silent_until != BEGINNING:
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

    def take_of(self, edges: Collection[int], wait_s: float) -> Iterator[tuple[int, Item]]:
        """What waits of these edges alone, after at most `wait_s`."""
        ports = [port for port in self._ports if port[0] in edges]
        items = self._inputs.next_items(ports, wait_s, 0.0)
        return ((port[0], item) for port, item in items)

    def over(self, edge: int) -> None:
        """Nothing more comes over an edge."""
        self._ports = [port for port in self._ports if port[0] != edge]


def _may_wait(entry: tuple[Port, Item]) -> bool:
    _, item = entry
    return isinstance(item, Rows) or item.event is Event.WATERMARK


class Meeting:
    """When a task takes what lies in its rings: rows may be kept for `gather_s` to go together.

    Sources of a host deal out every `step_s` at the same times (`fabric.io.readers.reader`), and
    `behind_s` later their rows are here. What comes shortly before that waits until then, for that
    of the other producers; what came after it went is for those that are late. Pure: times in
    seconds of a monotonic clock.

    >>> meeting = Meeting(gather_s=0.0025, step_s=0.0175, behind_s=0.0025)
    >>> round(meeting.first_s(1.7508), 4), meeting.first_s(1.76)
    (0.0017, 0.0)
    >>> meeting.took(1.76)
    >>> round(meeting.next_s(1.761), 4), meeting.next_s(1.763)
    (0.0015, 0.0)
    """

    def __init__(self, gather_s: float = 0.0, step_s: float = 0.0, behind_s: float = 0.0) -> None:
        self._gather_s, self._step_s, self._behind_s = gather_s, step_s, behind_s
        self._due_s = 0.0

    def next_s(self, now_s: float) -> float:
        """How long what comes now is left where it is, since some was taken just before."""
        return max(0.0, self._due_s - now_s) if self._gather_s else 0.0

    def first_s(self, now_s: float) -> float:
        """How long the first rows, which came now, wait for those of other producers."""
        if not self._gather_s:
            return 0.0
        n_steps = math.ceil((now_s - self._behind_s) / self._step_s)
        wait_s = n_steps * self._step_s + self._behind_s - now_s
        return wait_s if wait_s <= self._gather_s else 0.0

    def took(self, now_s: float) -> None:
        """What was there is taken."""
        self._due_s = now_s + self._gather_s
