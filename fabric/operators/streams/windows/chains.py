"""Which groups a key has: chains through arrays, followed for many keys at once.

One job: `Chains`. A key has few groups (open sessions), so that following is a few steps, each over
all keys.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabric.operators.streams.accumulators.base import Numbers
from fabric.operators.streams.accumulators.row_groups import Ids

Ints = NDArray[np.int64]


class Chains:
    """Keys, numbered from 0, and their groups, numbered from 0.

    >>> chains = Chains()
    >>> chains.link(np.array([3, 3, 1]), np.array([10, 11, 12]))
    >>> [column.tolist() for column in chains.members(np.array([1, 2, 3]))]
    [[1, 3, 3], [12, 10, 11]]
    """

    def __init__(self) -> None:
        self._first, self._next = Numbers(np.int64, -1), Numbers(np.int64, -1)

    def link(self, keys: Ints, groups: Ids) -> None:
        """From now on these keys have these groups, and no others; equal keys stand together."""
        if not len(keys):
            return
        self._first.resize(int(keys.max()) + 1)
        self._next.resize(int(groups.max()) + 1)
        begins = np.ones(len(keys), np.bool_)
        begins[1:] = keys[1:] != keys[:-1]
        self._first.values[keys[begins]] = groups[begins]
        self._next.values[groups] = np.append(np.where(begins[1:], -1, groups[1:]), -1)

    def unlink(self, keys: Ints) -> None:
        """These keys have no groups."""
        self._first.clear(keys)

    def members(self, keys: Ints) -> tuple[Ints, Ids]:
        """The groups of these keys, which are different, with the key of each; by key as given."""
        if not len(keys):
            return keys, keys
        self._first.resize(int(keys.max()) + 1)
        at = self._first.values[keys]
        owners, groups = [], []
        positions = np.arange(len(keys))
        while (some := at >= 0).any():
            positions, at = positions[some], at[some]
            owners.append(positions)
            groups.append(at)
            at = self._next.values[at]
        if not owners:
            return keys[:0], keys[:0]
        owner = np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        return keys[owner[order]], np.concatenate(groups)[order]
