"""When an agent gives memory that it keeps for later back to the system.

One job: `GiveBackTimes`. After a short pause it empties the heap, which refills in milliseconds;
after a long one it gives back all it can; each once. An agent that is never idle, as with a stream,
would keep its peak for ever, so it gives back what is free from time to time.
"""

from __future__ import annotations

from typing import Literal

PAUSE_S = 5.0
"""Idle for a moment: one job follows another sooner."""
Due = Literal["all", "free", "heap", ""]


class GiveBackTimes:
    """Ask it again and again.

    >>> times = GiveBackTimes(every_s=10.0, now=0.0)
    >>> times.due(busy=True, n_events=1, now=9.0), times.due(busy=True, n_events=2, now=11.0)
    ('', 'free')
    >>> [times.due(busy=False, n_events=2, now=now) for now in (15.0, 17.0, 20.0, 22.0, 40.0)]
    ['', 'heap', '', 'all', '']
    """

    def __init__(self, every_s: float, now: float) -> None:
        self._every_s, self._given = every_s, now
        self._n_events = 0
        self._quiet_since: float | None = None
        self._heap_is_full = True

    def due(self, *, busy: bool, n_events: int, now: float) -> Due:
        """What to give back now; `n_events` counts what happened since the beginning."""
        if busy or n_events != self._n_events:
            self._quiet_since, self._n_events, self._heap_is_full = now, n_events, True
            return self._give("free", now) if now - self._given > self._every_s else ""
        if self._quiet_since is None:
            return ""
        if now - self._quiet_since > self._every_s:
            self._quiet_since = None
            return self._give("all", now)
        if self._heap_is_full and now - self._quiet_since > PAUSE_S:
            self._heap_is_full = False
            return "heap"
        return ""

    def _give(self, due: Due, now: float) -> Due:
        self._given = now
        return due
