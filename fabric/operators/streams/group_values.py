"""Values by group: one a group, or a list of them.

One job: `Numbers`, one number a group, and `GroupLists`, a list of entries for each group, side by
side in one array. A list that outgrows its room moves to the end; when more than half of the array
is left behind, it is written anew. `Together` is several things by group as one. Everything goes by
whole arrays of groups.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fabric.operators.streams.columns import Ints

_SLACK = 1024
_LEAST = 64


class ByGroup(Protocol):
    """Values of groups that are numbered from 0; numbers of cleared groups come again."""

    def resize(self, n_groups: int) -> None:
        """Make room for groups below `n_groups`; new ones are empty."""

    def clear(self, ids: Ints) -> None:
        """These groups are empty again."""

    @property
    def nbytes(self) -> int:
        """Memory in use, about."""


class Together:
    """Several values by group, as one; see `ByGroup`."""

    def __init__(self, *parts: ByGroup) -> None:
        self._parts = parts

    def resize(self, n_groups: int) -> None:
        """See `ByGroup`."""
        for part in self._parts:
            part.resize(n_groups)

    def clear(self, ids: Ints) -> None:
        """See `ByGroup`."""
        for part in self._parts:
            part.clear(ids)

    @property
    def nbytes(self) -> int:
        """See `ByGroup`."""
        return sum(part.nbytes for part in self._parts)


class Numbers:
    """A number for each group, `empty` at first.

    >>> counts = Numbers(np.int64, 0)
    >>> counts.resize(2)
    >>> counts.values[:2].tolist()
    [0, 0]
    """

    def __init__(self, dtype: type[np.generic], empty: Any) -> None:
        self._empty = empty
        self.values: NDArray[Any] = np.full(0, empty, dtype)
        """By group; longer than there are groups."""

    def resize(self, n_groups: int) -> None:
        """Make room, by doubling."""
        if n_groups > (room := len(self.values)):
            longer = np.full(max(n_groups, 2 * room, _LEAST), self._empty, self.values.dtype)
            longer[:room] = self.values
            self.values = longer

    def reach(self, ids: NDArray[Any]) -> None:
        """Make room for these groups."""
        self.resize(int(ids.max()) + 1 if len(ids) else 0)

    def put(self, ids: NDArray[Any], values: NDArray[Any] | int) -> None:
        """Give these groups numbers, whether there was room for them or not."""
        self.reach(ids)
        self.values[ids] = values

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
        self._start, self._count, self._room = (Numbers(np.int64, 0) for _ in range(3))
        self._by_group = Together(self._start, self._count, self._room)

    def gather(self, groups: Ints) -> tuple[Ints, Ints]:
        """The entries of `groups`, one group's after the other's, and how many each has."""
        self._reach(groups)
        counts = self._count.values[groups]
        return self._pool[spans(self._start.values[groups], counts)], counts

    def replace(self, groups: Ints, counts: Ints, entries: Ints) -> None:
        """Give different `groups` new lists: `counts` of `entries` each, one after the other."""
        self._reach(groups)
        tight = counts > self._room.values[groups]
        if tight.any():
            self._move(groups[tight], counts[tight])
        self._count.values[groups] = counts
        self._pool[spans(self._start.values[groups], counts)] = entries

    def forget(self, groups: Ints) -> None:
        """Empty the lists of `groups`, and give their room back."""
        self._reach(groups)
        self._by_group.clear(groups)

    def groups(self) -> Ints:
        """The groups that have entries, rising."""
        return np.flatnonzero(self._count.values)

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return self._pool.nbytes + self._by_group.nbytes

    def _reach(self, groups: Ints) -> None:
        self._by_group.resize(int(groups.max()) + 1 if len(groups) else 0)

    def _move(self, groups: Ints, counts: Ints) -> None:
        """Find room at the end for `counts` entries of `groups`, and some more."""
        self._by_group.clear(groups)
        if self._end > 2 * int(self._room.values.sum()) + _SLACK:
            self._tidy()
        room = np.maximum(counts, 1 << np.ceil(np.log2(counts)).astype(np.int64))
        self._room.values[groups] = room
        self._start.values[groups] = self._end + np.cumsum(room) - room
        self._end += int(room.sum())
        if self._end > len(self._pool):
            longer = np.empty((2 * self._end + _SLACK, self._pool.shape[1]), np.int64)
            longer[: len(self._pool)] = self._pool
            self._pool = longer

    def _tidy(self) -> None:
        """Put all lists side by side again, with the room they have."""
        kept = np.flatnonzero(self._room.values)
        room = self._room.values[kept]
        start = np.cumsum(room) - room
        count = self._count.values[kept]
        self._pool[spans(start, count)] = self._pool[spans(self._start.values[kept], count)]
        self._start.values[kept] = start
        self._end = int(room.sum())


def spans(starts: Ints, counts: Ints) -> Ints:
    """The integers of ``starts[i] .. starts[i] + counts[i]`` for each i, one after the other.

    >>> spans(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
