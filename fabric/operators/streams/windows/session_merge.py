"""Sessions of a batch, merged with those that are open.

One job: intervals of keys, sorted and merged where they overlap or touch. Pure: numbers in, numbers
out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Intervals(NamedTuple):
    """Of each its key, start and end; in order of keys, then starts."""

    keys: Ints
    starts: Ints
    ends: Ints


class Merged(NamedTuple):
    """Intervals that are apart, and for each that went in the one it became part of."""

    intervals: Intervals
    of: Ints


def sessions_of(keys: Ints, times: Ints, gap: int) -> Merged:
    """The sessions of rows, and which each row is in.

    >>> found = sessions_of(np.array([1, 0, 1, 1]), np.array([10, 3, 13, 20]), 5)
    >>> [column.tolist() for column in found.intervals], found.of.tolist()
    ([[0, 1, 1], [3, 10, 20], [8, 18, 25]], [1, 0, 1, 2])
    """
    order = np.lexsort((times, keys))
    k, t = keys[order], times[order]
    begins = np.ones(len(k), np.bool_)
    begins[1:] = (k[1:] != k[:-1]) | (t[1:] - t[:-1] > gap)
    number = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(k)) - 1 if len(k) else first
    of = np.empty(len(k), np.int64)
    of[order] = number
    return Merged(Intervals(k[first], t[first], t[last] + gap), of)


def merged_sessions(open_: Intervals, new: Intervals) -> Merged:
    """Both together; each of the two holds no intervals that touch. `of`: the open ones first.

    >>> one = Intervals(np.array([7, 7]), np.array([0, 20]), np.array([10, 30]))
    >>> two = Intervals(np.array([7]), np.array([10]), np.array([20]))
    >>> found = merged_sessions(one, two)
    >>> [column.tolist() for column in found.intervals], found.of.tolist()
    ([[7], [0], [30]], [0, 0, 0])
    """
    keys, starts, ends = (np.concatenate(pair) for pair in zip(open_, new, strict=True))
    is_new = np.arange(len(keys)) >= len(open_.keys)
    order = np.lexsort((starts, keys))
    keys, starts, ends, is_new = keys[order], starts[order], ends[order], is_new[order]
    begins = np.ones(len(keys), np.bool_)
    reach = np.maximum(_reach(keys, ends, is_new), _reach(keys, ends, ~is_new))
    begins[1:] = (keys[1:] != keys[:-1]) | (starts[1:] > reach[:-1])
    first = np.flatnonzero(begins)
    of = np.empty(len(keys), np.int64)
    of[order] = np.cumsum(begins) - 1
    most = np.maximum.reduceat(ends, first) if len(first) else ends
    return Merged(Intervals(keys[first], starts[first], most), of)


def _reach(keys: Ints, ends: Ints, chosen: Bools) -> Ints:
    """How far the last of the `chosen` of the same key reaches, up to each; they rise within a key.

    Of those that came in together none touch, so the last one reaches furthest.
    """
    lowest = np.iinfo(np.int64).min
    if not len(keys):
        return ends
    last = np.maximum.accumulate(np.where(chosen, np.arange(len(keys)), -1))
    of_key = (last >= 0) & (keys[last] == keys)
    return np.where(of_key, ends[last], lowest)
