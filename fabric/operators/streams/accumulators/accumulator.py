"""What every incremental aggregate does, over the groups of a batch's rows.

One job: the contract `Accumulator`, and `RowGroups`, which groups a batch touches, and its rows in
order of groups. Groups are numbered from 0; the numbers of groups that were cleared are used again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.operators.streams.columns import Ints
from fabric.operators.streams.group_values import Together

Columns = Sequence[pa.Array]


class Accumulator(Together, ABC):
    """The state of one aggregate for many groups, in some parts by group; one thread owns it.

    `states` puts out columns from which `merge` goes on: those of other groups, tasks or days.
    """

    @property
    @abstractmethod
    def state_types(self) -> tuple[pa.DataType, ...]:
        """The types of the state columns."""

    @abstractmethod
    def update(self, rows: RowGroups, columns: Columns) -> None:
        """Take rows: the group of each, and the arguments as columns of the bound types."""

    @abstractmethod
    def results(self, ids: Ids) -> pa.Array:
        """The results of these groups."""

    @abstractmethod
    def states(self, ids: Ids) -> list[pa.Array]:
        """The states of these groups."""

    @abstractmethod
    def merge(self, rows: RowGroups, states: Columns) -> None:
        """Take states: the group that each row of `states` belongs to, several to one or not."""


def valid_mask(values: pa.Array) -> NDArray[np.bool_] | None:
    """Which values are not null; None when all are."""
    if not values.null_count:
        return None
    found: NDArray[np.bool_] = values.is_valid().to_numpy(zero_copy_only=False)
    return found


def present(rows: RowGroups, values: pa.Array) -> tuple[Ids, pa.Array]:
    """Groups and values of the rows whose value is not null."""
    mask = valid_mask(values)
    return (rows.ids, values) if mask is None else (rows.ids[mask], values.drop_null())


def nullable(values: NDArray[Any], seen: NDArray[np.bool_], dtype: pa.DataType) -> pa.Array:
    """`values` as an array of `dtype`, null where nothing was `seen`."""
    return pa.array(values, dtype, mask=None if seen.all() else ~seen)


Ids = Ints


class RowGroups:
    """The group of each row of a batch.

    >>> rows = RowGroups(np.array([7, 2, 7]))
    >>> rows.touched.tolist(), rows.local.tolist(), rows.order.tolist(), rows.offsets.tolist()
    ([7, 2], [0, 1, 0], [0, 2, 1], [0, 2, 3])
    """

    def __init__(self, ids: Ids) -> None:
        self.ids = ids

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def narrow(self) -> NDArray[np.int32]:
        """The groups as kernels take them."""
        return self.ids.astype(np.int32)

    @cached_property
    def _numbered(self) -> tuple[Ids, NDArray[np.int64]]:
        if not len(self.ids):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        low = self.ids.min()
        near = self.ids - low
        room, n = int(near.max()) + 1, len(near)
        if room > 16 * n + 65_536:  # far apart: a table of all between would be mostly empty
            touched, local = np.unique(self.ids, return_inverse=True)
            return touched, local
        first = np.full(room, n, np.int64)
        first[near[::-1]] = np.arange(n - 1, -1, -1)
        leaders = np.flatnonzero(first[near] == np.arange(n))
        touched = near[leaders]
        first[touched] = np.arange(len(touched))
        return touched + low, first[near]

    @property
    def touched(self) -> Ids:
        """The groups that rows belong to, each once."""
        return self._numbered[0]

    @property
    def local(self) -> NDArray[np.int64]:
        """For each row the position of its group in `touched`."""
        return self._numbered[1]

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Rows in order of `local`, those of one group as they came."""
        few = len(self.touched) <= 1 << 16  # numpy sorts 16 bits by radix
        keys = self.local.astype(np.uint16) if few else self.local
        return np.argsort(keys, kind="stable")

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where each touched group begins and ends in `order`."""
        offsets = np.zeros(len(self.touched) + 1, np.int64)
        np.cumsum(np.bincount(self.local, minlength=len(self.touched)), out=offsets[1:])
        return offsets

    @property
    def firsts(self) -> NDArray[np.int64]:
        """The first row of each touched group."""
        return self.order[self.offsets[:-1]]

    @property
    def lasts(self) -> NDArray[np.int64]:
        """The last row of each touched group."""
        return self.order[self.offsets[1:] - 1]

    def among(self, mask: NDArray[np.bool_] | None) -> RowGroups:
        """Only the rows of `mask`; itself when that is None."""
        return self if mask is None else RowGroups(self.ids[mask])
