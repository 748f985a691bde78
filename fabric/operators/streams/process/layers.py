"""Timers that are due, a layer at a time: of each key the earliest one that is left.

One job: `Layers`. Keys see their timers in order of time, many keys are called at once, and what a
call sets or takes back is heard before the next layer.
"""

from __future__ import annotations

import numpy as np

from fabric.operators.streams.columns import Ints


class Layers:
    """Timers as pairs of id and time, each pair once.

    >>> layers = Layers(np.array([1, 2, 1]), np.array([10, 20, 30]))
    >>> [a.tolist() for a in layers.pop()]
    [[1, 2], [10, 20]]
    >>> layers.add(np.array([1]), np.array([15]))
    >>> layers.drop(np.array([1]), np.array([30]))
    >>> [a.tolist() for a in layers.pop()], bool(layers)
    ([[1], [15]], False)
    """

    def __init__(self, ids: Ints, times: Ints) -> None:
        self._at = 0
        self._arrange(ids, times)

    def __bool__(self) -> bool:
        return self._at < len(self._ids)

    def pop(self) -> tuple[Ints, Ints]:
        """The next layer: different ids, by time."""
        begin = self._at
        end = int(np.searchsorted(self._layer, self._layer[begin], "right"))
        self._at = end
        return self._ids[begin:end], self._times[begin:end]

    def add(self, ids: Ints, times: Ints) -> None:
        """Timers that have become due meanwhile."""
        if len(ids):
            left = slice(self._at, None)
            self._arrange(
                np.concatenate([self._ids[left], ids]), np.concatenate([self._times[left], times])
            )

    def drop(self, ids: Ints, times: Ints) -> None:
        """Timers that were taken back."""
        if not len(ids) or not self:
            return
        left = slice(self._at, None)
        gone = np.isin(_pairs(self._ids[left], self._times[left]), _pairs(ids, times))
        if gone.any():
            self._arrange(self._ids[left][~gone], self._times[left][~gone])

    def _arrange(self, ids: Ints, times: Ints) -> None:
        """By layer, then time, then id."""
        by_id = np.lexsort((times, ids))
        ids, times = ids[by_id], times[by_id]
        first = np.ones(len(ids), np.bool_)
        first[1:] = ids[1:] != ids[:-1]
        again = np.zeros(len(ids), np.bool_)
        again[1:] = ~first[1:] & (times[1:] == times[:-1])
        ids, times, first = ids[~again], times[~again], first[~again]
        places = np.arange(len(ids))
        layer = places - np.maximum.accumulate(np.where(first, places, 0))
        order = np.lexsort((ids, times, layer))
        self._ids, self._times, self._layer = ids[order], times[order], layer[order]
        self._at = 0


def _pairs(ids: Ints, times: Ints) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    both = np.column_stack([ids, times]).astype(np.int64)
    return np.ascontiguousarray(both).view([("id", np.int64), ("time", np.int64)]).reshape(-1)
