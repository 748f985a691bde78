"""How many rows of a split are due.

One job: `Pace`, a rate against a monotonic clock. It begins with the first question, so that a
restored split goes on at its rate instead of making up for the time away.
"""

from __future__ import annotations

from fabric.clock import Clock

_TICK_S = 1e-4
"""Rounding must not make a wait of nothing, again and again."""


class Pace:
    """Row `r` of split `index` of `n_splits` is due ``(r * n_splits + index) / rate`` s after 0.

    Examples
    --------
    >>> from fabric.testing.clock import ManualClock
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

    def due(self, row: int) -> int:
        """How many rows of the split are due in all, where the next one is `row`."""
        if self._begun_s is None:
            self._begun_s = self._clock.monotonic_s() - row * self._n_splits / self._rate
        passed_s = self._clock.monotonic_s() - self._begun_s
        return max(0, int((passed_s * self._rate - self._index) // self._n_splits) + 1)

    def wait_s(self, row: int) -> float:
        """How long until `row` is due; `due` was asked before."""
        assert self._begun_s is not None
        at_s = self._begun_s + (row * self._n_splits + self._index) / self._rate
        return max(_TICK_S, at_s - self._clock.monotonic_s())
