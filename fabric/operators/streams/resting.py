"""Groups without rows for some time, which are forgotten.

One job: `Resting`, when each group last had a row by processing time. What is forgotten is decided
by the time of the next row alone; `swept` only gives memory back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fabric.event_time import BEGINNING, END_OF_TIME
from fabric.operators.contract import SnapshotReader
from fabric.operators.streams.columns import Bools, Ints, grown
from fabric.operators.streams.packed import greatest

_WATERMARK, _NOW = "watermark", "now"
_SWEEPS = 8
"""How often within `ttl_us` groups are looked through."""


class Resting:
    """The last processing time of each group.

    >>> resting = Resting(80)
    >>> resting.swept(100).tolist(), resting.woken(np.array([0, 1])).tolist()
    ([], [])
    >>> resting.swept(175).tolist(), resting.woken(np.array([1])).tolist()
    ([], [])
    >>> resting.swept(181).tolist(), resting.woken(np.array([0, 0, 1])).tolist()
    ([], [0])
    >>> resting.swept(300).tolist()
    [0, 1]
    """

    def __init__(self, ttl_us: int) -> None:
        self._ttl_us = ttl_us
        self.now = BEGINNING
        """The last processing time that was told, as far as anybody knows."""
        self._next_sweep = BEGINNING
        self._last: Ints = np.empty(0, np.int64)
        self._known = np.empty(0, np.bool_)

    def woken(self, groups: Ints) -> Ints:
        """Note rows of `groups` now; returns those that had been forgotten before, each once."""
        if not len(groups):
            return groups
        self._reach(groups)
        rested = groups[self._known[groups] & self._is_over(groups)]
        self._known[groups] = True
        self._last[groups] = self.now
        return np.unique(rested)

    def swept(self, now_us: int) -> Ints:
        """It is `now_us`; the groups whose time is over, now and then."""
        if self.now == BEGINNING:  # rows before the first time came about now
            self._last[self._known & (self._last == BEGINNING)] = now_us
        self.now = max(self.now, now_us)
        if self.now < self._next_sweep:
            return np.empty(0, np.int64)
        self._next_sweep = self.now + max(1, self._ttl_us // _SWEEPS)
        known = np.flatnonzero(self._known)
        over = known[self._is_over(known)]
        self._known[over] = False
        return over

    def forget(self, groups: Ints) -> None:
        """Those are gone for another reason."""
        self._reach(groups)
        self._known[groups] = False

    def last(self, groups: Ints) -> Ints:
        """When each of `groups` last had a row."""
        return self._last[groups]

    def fresh(self) -> Resting:
        """The same without any group."""
        made = Resting(self._ttl_us)
        made.now, made._next_sweep = self.now, self._next_sweep
        return made

    def over_at(self, last: Ints) -> Ints:
        """When groups that last had rows at `last` are forgotten."""
        return np.minimum(last, END_OF_TIME - self._ttl_us) + self._ttl_us

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return self._last.nbytes + self._known.nbytes

    def load(self, groups: Ints, last: Ints) -> None:
        """Take over what `last` said."""
        self._reach(groups)
        self._known[groups] = True
        self._last[groups] = last

    def _is_over(self, groups: Ints) -> Bools:
        return self._last[groups] <= max(self.now, BEGINNING + self._ttl_us) - self._ttl_us

    def _reach(self, groups: Ints) -> None:
        length = int(groups.max()) + 1 if len(groups) else 0
        self._last = grown(self._last, length)
        self._known = grown(self._known, length)


def times_of(watermark: int, resting: Resting | None) -> dict[str, int]:
    """The times of an operator, as facts of its snapshot."""
    return {_WATERMARK: watermark, _NOW: BEGINNING if resting is None else resting.now}


def restored_times(snapshots: Sequence[SnapshotReader], resting: Resting | None) -> int:
    """Tell `resting` the time of old tasks, and return their watermark."""
    if resting is not None:
        resting.now = greatest(snapshots, _NOW, BEGINNING)
    return greatest(snapshots, _WATERMARK, BEGINNING)
