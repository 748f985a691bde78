"""What every incremental aggregate does, and arrays that grow with the groups.

One job: the contract `Accumulator`, and `Numbers`, one number a group. Groups are numbered from 0;
the numbers of groups that were cleared are used again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.operators.streams.accumulators.row_groups import Ids, RowGroups

Columns = Sequence[pa.Array]


class Accumulator(ABC):
    """The state of one aggregate for many groups; one thread owns it.

    `states` puts out columns from which `merge` goes on: those of other groups, tasks or days.
    """

    @property
    @abstractmethod
    def state_types(self) -> tuple[pa.DataType, ...]:
        """The types of the state columns."""

    @abstractmethod
    def resize(self, n_groups: int) -> None:
        """Make room for groups below `n_groups`; new ones are empty."""

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

    @abstractmethod
    def clear(self, ids: Ids) -> None:
        """These groups are empty again."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory in use, about."""


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
