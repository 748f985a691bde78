"""Integers by group: one a group, or a list of them.

One job: `Numbers`, one number a group, and `GroupLists`, a list of entries for each group, side by
side in one array. A list that outgrows its room moves to the end; when more than half of the array
is left behind, it is written anew. Everything goes by whole arrays of groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabric.operators.streams.columns import Ints, grown

_SLACK = 1024


class Numbers:
    """A number for each group, `empty` at first.

    >>> counts = Numbers(np.int64, 0)
    >>> counts.resize(2)
    >>> counts.values.tolist()
    [0, 0]
    """

    def __init__(self, dtype: type[np.generic], empty: Any) -> None:
        self._empty = empty
        self.values: NDArray[Any] = np.full(0, empty, dtype)
        """By group; longer than there are groups."""

    def resize(self, n_groups: int) -> None:
        """Make room, by doubling."""
        room = len(self.values)
        if n_groups > room:
            more = np.full(max(n_groups, 2 * room) - room, self._empty, self.values.dtype)
            self.values = np.concatenate((self.values, more))

    def clear(self, ids: NDArray[Any]) -> None:
        """Back to `empty`."""
        self.values[ids] = self._empty

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return self.values.nbytes


class GroupLists:
    """Lists of entries, each of `width` integers, by group; unknown groups have empty ones.

    >>> lists = GroupLists(1)
    >>> lists.replace(np.array([4, 2]), np.array([2, 1]), np.array([[7], [8], [9]]))
    >>> entries, counts = lists.gather(np.array([2, 3, 4]))
    >>> entries[:, 0].tolist(), counts.tolist()
    ([9, 7, 8], [1, 0, 2])
    """

    def __init__(self, width: int) -> None:
        self._pool: Ints = np.empty((0, width), np.int64)
        self._end = 0
        self._start: Ints = np.empty(0, np.int64)
        self._count: Ints = np.empty(0, np.int64)
        self._room: Ints = np.empty(0, np.int64)

    def gather(self, groups: Ints) -> tuple[Ints, Ints]:
        """The entries of `groups`, one group's after the other's, and how many each has."""
        self._reach(groups)
        counts = self._count[groups]
        return self._pool[spans(self._start[groups], counts)], counts

    def replace(self, groups: Ints, counts: Ints, entries: Ints) -> None:
        """Give different `groups` new lists: `counts` of `entries` each, one after the other."""
        self._reach(groups)
        tight = counts > self._room[groups]
        if tight.any():
            self._move(groups[tight], counts[tight])
        self._count[groups] = counts
        self._pool[spans(self._start[groups], counts)] = entries

    def forget(self, groups: Ints) -> None:
        """Empty the lists of `groups`, and give their room back."""
        self._reach(groups)
        self._count[groups] = self._room[groups] = 0

    def groups(self) -> Ints:
        """The groups that have entries, rising."""
        return np.flatnonzero(self._count)

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        by_group = (self._start, self._count, self._room)
        return self._pool.nbytes + sum(each.nbytes for each in by_group)

    def _reach(self, groups: Ints) -> None:
        length = int(groups.max()) + 1 if len(groups) else 0
        self._start = grown(self._start, length)
        self._count = grown(self._count, length)
        self._room = grown(self._room, length)

    def _move(self, groups: Ints, counts: Ints) -> None:
        """Find room at the end for `counts` entries of `groups`, and some more."""
        self._count[groups] = self._room[groups] = 0
        if self._end > 2 * int(self._room.sum()) + _SLACK:
            self._tidy()
        room = np.maximum(counts, 1 << np.ceil(np.log2(counts)).astype(np.int64))
        self._room[groups] = room
        self._start[groups] = self._end + np.cumsum(room) - room
        self._end += int(room.sum())
        if self._end > len(self._pool):
            longer = np.empty((2 * self._end + _SLACK, self._pool.shape[1]), np.int64)
            longer[: len(self._pool)] = self._pool
            self._pool = longer

    def _tidy(self) -> None:
        """Put all lists side by side again, with the room they have."""
        kept = np.flatnonzero(self._room)
        room = self._room[kept]
        start = np.cumsum(room) - room
        count = self._count[kept]
        self._pool[spans(start, count)] = self._pool[spans(self._start[kept], count)]
        self._start[kept] = start
        self._end = int(room.sum())


def spans(starts: Ints, counts: Ints) -> Ints:
    """The integers of ``starts[i] .. starts[i] + counts[i]`` for each i, one after the other.

    >>> spans(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
