"""Counts and conditions: count, count_if, bool_and, bool_or.

One job: numbers that only rise. A count is never null; the conditions are where no value is.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fabric.operators.streams.accumulators.base import (
    Accumulator,
    Columns,
    Numbers,
    nullable,
    present,
    valid_mask,
)
from fabric.operators.streams.accumulators.row_groups import Ids, RowGroups

I64 = pa.int64()


class Count(Accumulator):
    """Rows; with an argument those where it is not null; for `count_if` those where it is true.

    >>> count = Count(only_true=False)
    >>> count.resize(2)
    >>> count.update(RowGroups(np.array([1, 1])), [pa.array([5, None])])
    >>> count.results(np.array([0, 1])).to_pylist()
    [0, 1]
    """

    def __init__(self, *, only_true: bool) -> None:
        self._only_true, self._counts = only_true, Numbers(np.int64, 0)

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        """The count."""
        return (I64,)

    def resize(self, n_groups: int) -> None:
        """See `Accumulator`."""
        self._counts.resize(n_groups)

    def update(self, rows: RowGroups, columns: Columns) -> None:
        """See `Accumulator`; without columns all rows count."""
        ids = rows.ids
        if columns:
            (values,) = columns
            mask = _true(values) if self._only_true else valid_mask(values)
            ids = ids if mask is None else ids[mask]
        np.add.at(self._counts.values, ids, 1)

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        return pa.array(self._counts.values[ids])

    def states(self, ids: Ids) -> list[pa.Array]:
        """See `Accumulator`."""
        return [self.results(ids)]

    def merge(self, rows: RowGroups, states: Columns) -> None:
        """See `Accumulator`."""
        np.add.at(self._counts.values, rows.ids, states[0].to_numpy())

    def clear(self, ids: Ids) -> None:
        """See `Accumulator`."""
        self._counts.clear(ids)


class Condition(Accumulator):
    """Whether all values are true, or any is; nulls are left out."""

    def __init__(self, *, every: bool) -> None:
        self._decisive = not every
        self._seen, self._decided = Numbers(np.bool_, False), Numbers(np.bool_, False)

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        """The answer so far."""
        return (pa.bool_(),)

    def resize(self, n_groups: int) -> None:
        """See `Accumulator`."""
        self._seen.resize(n_groups)
        self._decided.resize(n_groups)

    def update(self, rows: RowGroups, columns: Columns) -> None:
        """See `Accumulator`."""
        ids, values = present(rows, columns[0].cast(pa.bool_()))
        self._seen.values[ids] = True
        self._decided.values[ids[values.to_numpy(zero_copy_only=False) == self._decisive]] = True

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        answers = self._decided.values[ids] == self._decisive
        return nullable(answers, self._seen.values[ids], pa.bool_())

    def states(self, ids: Ids) -> list[pa.Array]:
        """See `Accumulator`."""
        return [self.results(ids)]

    def merge(self, rows: RowGroups, states: Columns) -> None:
        """See `Accumulator`."""
        self.update(rows, states)

    def clear(self, ids: Ids) -> None:
        """See `Accumulator`."""
        self._seen.clear(ids)
        self._decided.clear(ids)


def _true(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    found = values.cast(pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False)
    assert isinstance(found, np.ndarray)
    return found
