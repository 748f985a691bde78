"""How many rows go through a chain at once: sizes of sources, and when to take from rings.

One job: `BatchSize`, pure: as many as its task is through with in `TARGET_S`, so that barriers and
other orders, which are heard between two batches, don't wait for long, whatever a row costs.
`Meeting`, pure: when what gathers in rings is taken.
"""

from __future__ import annotations

import math

from fabric._cython.shuffle.ring.ring import RoundCosts

ROWS_MAX = 1 << 16
"""It lies in the cache."""
ROWS_MIN = 256
TARGET_S = 0.1


class BatchSize:
    """Follows what batches take: at once when it is too long, by doubling when it is short.

    Where a batch costs about the same whatever it holds, as a call of a remote service does, fewer
    rows only mean more batches. So they get fewer only where that saves time, as in rings (`Pace`).

    >>> size = BatchSize()
    >>> size.took(65_536, 0.8)
    >>> size.rows
    8192
    >>> size.took(8_192, 0.01)
    >>> size.rows
    16384
    >>> size = BatchSize()
    >>> for _ in range(8):  # it is not the rows that take so long
    ...     size.took(size.rows, 0.5)
    >>> size.rows
    65536
    """

    def __init__(self) -> None:
        self.rows = ROWS_MAX
        self._costs = RoundCosts()

    def took(self, n_rows: int, seconds: float) -> None:
        """A batch of so many rows was worked on, waits for room included, for so long."""
        if n_rows > 0:
            self._costs.add(n_rows, seconds)
        fits = n_rows * TARGET_S / seconds if seconds > 0 else ROWS_MAX
        if fits < self.rows and seconds <= TARGET_S:
            return  # few rows tell little of what many take
        found = int(min(max(fits, ROWS_MIN), 2 * self.rows, ROWS_MAX))
        if found < self.rows or found == ROWS_MIN:
            found = min(self._costs.next(found, self.rows), ROWS_MAX)
        self.rows = found


class Meeting:
    """When a task takes what lies in its rings: rows may be kept for `gather_s` to go together.

    Sources of a host deal out every `step_s` at the same times (`fabric.io.streams.pace`), and
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

    def __init__(self, gather_s: float, step_s: float, behind_s: float) -> None:
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
