"""How many rows of a split are due, and where those come from.

One job: `Pace`, a rate against a monotonic clock, and `Ahead`, rows that are made many at a time
and dealt a few at a time. A pace begins with the first question, so that a restored split goes on
at its rate instead of making up for the time away.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pyarrow as pa

from fabric.clock import Clock

STEP_S = 5e-4
"""Rows come due together at most so often: a batch for each would cost more than they do."""
_ROUNDING = 1e-6
_AHEAD_ROWS = 1_024


class Pace:
    """Row `r` of split `index` of `n_splits` is due ``(r * n_splits + index) / rate`` s after 0.

    It comes with the first step that is not before that. Steps are as long as rows may be gathered,
    at least `STEP_S`, and counted from the clock's beginning: tasks of a host deal out at the same
    time, so that those behind an exchange get the rows of all of them at once.

    Examples
    --------
    >>> from fabric.testing import ManualClock
    >>> clock = ManualClock()
    >>> pace = Pace(10, 0, 1, clock)
    >>> pace.due(0), pace.wait_s(1)
    (1, 0.1)
    >>> clock.advance(1.0)
    >>> pace.due(1)
    11
    """

    def __init__(self, rate: float, index: int, n_splits: int, clock: Clock) -> None:
        self._rate, self._index, self._n_splits, self._clock = rate, index, n_splits, clock
        self._begun_s: float | None = None

    def due(self, row: int, gather_s: float = 0.0) -> int:
        """How many rows of the split are due in all, where the next one is `row`."""
        now_s = self._clock.monotonic_s()
        if self._begun_s is None:
            self._begun_s = now_s - row * self._n_splits / self._rate
        step_s = max(STEP_S, gather_s)
        passed_s = int(now_s / step_s + _ROUNDING) * step_s - self._begun_s
        return max(0, int((passed_s * self._rate - self._index + _ROUNDING) // self._n_splits) + 1)

    def wait_s(self, row: int, gather_s: float = 0.0) -> float:
        """How long until `row` is due; `due` was asked before."""
        assert self._begun_s is not None
        at_s = self._begun_s + (row * self._n_splits + self._index) / self._rate
        step_s = max(STEP_S, gather_s)
        at_s = math.ceil(at_s / step_s - _ROUNDING) * step_s
        return max(_ROUNDING, at_s - self._clock.monotonic_s())


def step_after(time_s: float, step_s: float) -> float:
    """The next step of the clock, at which all that deal out every `step_s` do.

    >>> step_after(0.113, 0.02), step_after(0.113, 0.0)
    (0.12, 0.113)
    """
    if not step_s or math.isinf(time_s):
        return time_s
    return (int(time_s / step_s + _ROUNDING) + 1) * step_s


class Ahead:
    """Rows of one split, made by ``make(begin, end)``; `n_rows` are all there will ever be.

    >>> made = []
    >>> def make(begin, end):
    ...     made.append((begin, end))
    ...     return pa.record_batch({"row": range(begin, end)})
    >>> ahead = Ahead(make, None)
    >>> ahead.rows(0, 2)["row"].to_pylist(), ahead.rows(2, 3)["row"].to_pylist(), made
    ([0, 1], [2], [(0, 1024)])
    """

    def __init__(self, make: Callable[[int, int], pa.RecordBatch], n_rows: int | None) -> None:
        self._make, self._n_rows = make, n_rows
        self._begin = self._end = 0
        self._made: pa.RecordBatch | None = None

    def rows(self, begin: int, end: int) -> pa.RecordBatch:
        """Rows `begin` to `end`, at least one."""
        if self._made is None or not self._begin <= begin < end <= self._end:
            last = max(end, begin + _AHEAD_ROWS)
            self._begin = begin
            self._end = last if self._n_rows is None else min(last, self._n_rows)
            self._made = self._make(self._begin, self._end)
        return self._made.slice(begin - self._begin, end - begin)
