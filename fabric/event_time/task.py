"""The watermark of a task: the least of what it reads, and when to tell those that read it.

One job: `TaskWatermark`, over channels or splits by any name. What leaves a task never goes back,
also when a channel joins, or one that was idle comes back behind the others: rows of such a channel
are on time or late by what they carry.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from fabric._cython.kernels.watermark import MinTracker
from fabric.event_time import BEGINNING, EMISSION_US, IDLE


class TaskWatermark:
    """The minimum over channels; idle ones are left out, an ended one holds nobody back.

    A task that reads nothing, or nothing but idle channels, is idle itself. END_OF_TIME comes only
    when all channels have ended: one that rests may still have rows.

    Examples
    --------
    >>> task = TaskWatermark(["a", "b"])
    >>> task.update("a", 70)
    >>> task.current == BEGINNING, task.due(0)
    (True, None)
    >>> task.update("b", IDLE)
    >>> task.due(0), task.due(10**9)
    (70, None)
    """

    def __init__(
        self, channels: Iterable[Hashable] = (), *, emission_us: int = EMISSION_US
    ) -> None:
        self._tracker = MinTracker()
        self._numbers: dict[Hashable, int] = {}
        self._emission_us = emission_us
        self._reached = BEGINNING
        self._told = BEGINNING
        self._told_us: int | None = None
        for channel in channels:
            self.add(channel)

    def add(self, channel: Hashable) -> None:
        """One more channel, of which nothing is known yet; one that is known already stays."""
        if channel not in self._numbers:
            self._numbers[channel] = self._tracker.add()

    def update(self, channel: Hashable, time_us: int) -> None:
        """A channel's watermark, IDLE or END_OF_TIME; one that goes back is ignored."""
        if self._tracker.update(self._numbers[channel], time_us):
            self._reached = max(self._reached, self._tracker.minimum())

    @property
    def current(self) -> int:
        """The watermark now; IDLE while nothing is to come."""
        return IDLE if self._tracker.minimum() == IDLE else self._reached

    def due(self, now_us: int, *, after_batch: bool = False) -> int | None:
        """What to tell the tasks behind, or None when there is no news or it is too early.

        News go out after each batch, else at most every `emission_us` of the clock `now_us`.
        """
        current = self.current
        if current == self._told:
            return None
        early = self._told_us is not None and now_us - self._told_us < self._emission_us
        if early and not after_batch:
            return None
        self._told, self._told_us = current, now_us
        return current
