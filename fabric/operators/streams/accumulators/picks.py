"""Aggregates that keep one row: first, last, any_value, min_by, max_by, and extremes of any type.

One job: choosing that row. Values are compared as the fragment's forms do (`order_keys`): -0.0 is
0.0, NaN the largest. Of equal rows the first met stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.operators.fragment.aggregates.segments import order_keys, unviewed
from fabric.operators.streams.accumulators.accumulator import (
    Accumulator,
    Columns,
    Ids,
    RowGroups,
    valid_mask,
)
from fabric.operators.streams.row_store import GroupRows

Which = Literal["first", "last", "any"]
I64 = pa.int64()


class _Picked(Accumulator):
    """One row of the arguments for each group that has one."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._schema = pa.schema([(str(i), dtype) for i, dtype in enumerate(types)])
        self._rows = GroupRows(self._schema)
        super().__init__(self._rows)

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        """The row, and how many (0 or 1) there are."""
        return (*self._schema.types, I64)

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        return self._rows.get(ids).column(0)

    def states(self, ids: Ids) -> list[pa.Array]:
        """See `Accumulator`."""
        return [*self._rows.get(ids).columns, pa.array(self._rows.has(ids).astype(np.int64))]

    def merge(self, rows: RowGroups, states: Columns) -> None:
        """See `Accumulator`."""
        some = states[-1].to_numpy() > 0
        self.update(rows.among(some), [column.filter(pa.array(some)) for column in states[:-1]])

    def _put(self, ids: Ids, columns: Columns, chosen: NDArray[np.int64]) -> None:
        index = pa.array(chosen)
        picked = [unviewed(column).take(index) for column in columns]
        self._rows.put(ids, pa.RecordBatch.from_arrays(picked, schema=self._schema))


class Met(_Picked):
    """The first or last row met, null or not; or "any": the first that is not null.

    >>> last = Met("last", pa.string())
    >>> last.resize(1)
    >>> last.update(RowGroups(np.array([0, 0])), [pa.array(["a", "b"])])
    >>> last.results(np.array([0])).to_pylist()
    ['b']
    """

    def __init__(self, which: Which, dtype: pa.DataType) -> None:
        super().__init__([dtype])
        self._which = which

    def update(self, rows: RowGroups, columns: Columns) -> None:
        """See `Accumulator`."""
        if self._which == "any" and (mask := valid_mask(columns[0])) is not None:
            rows, columns = rows.among(mask), [columns[0].drop_null()]
        if not len(rows):
            return
        if self._which == "last":
            self._put(rows.touched, columns, rows.lasts)
            return
        new = ~self._rows.has(rows.touched)
        self._put(rows.touched[new], columns, rows.firsts[new])


class Extreme(_Picked):
    """The row whose last argument is smallest or largest; rows without it are left out.

    >>> youngest = Extreme([pa.string(), pa.int64()], largest=False)
    >>> youngest.resize(1)
    >>> columns = [pa.array(["a", "b"]), pa.array([3, 2])]
    >>> youngest.update(RowGroups(np.array([0, 0])), columns)
    >>> youngest.results(np.array([0])).to_pylist()
    ['b']
    """

    def __init__(self, types: Sequence[pa.DataType], *, largest: bool) -> None:
        super().__init__(types)
        self._largest = largest

    def update(self, rows: RowGroups, columns: Columns) -> None:
        """See `Accumulator`."""
        if (mask := valid_mask(columns[-1])) is not None:
            keep = pa.array(mask)
            rows, columns = rows.among(mask), [column.filter(keep) for column in columns]
        if not len(rows):
            return
        touched = rows.touched
        known = np.flatnonzero(self._rows.has(touched))
        before = self._rows.get(touched[known]).column(len(columns) - 1)
        keys, _ = order_keys(pa.concat_arrays([unviewed(before), unviewed(columns[-1])]))
        local = np.concatenate((known, rows.local))
        best = self._best(keys, local, len(touched))
        winners = np.full(len(touched), len(local), np.int64)
        is_best = keys == best[local]
        np.minimum.at(winners, local[is_best], np.flatnonzero(is_best))
        changed = winners >= len(known)
        self._put(touched[changed], columns, winners[changed] - len(known))

    def _best(self, keys: NDArray[np.int64], local: Ids, n: int) -> NDArray[np.int64]:
        limits = np.iinfo(np.int64)
        best = np.full(n, limits.min if self._largest else limits.max)
        (np.maximum if self._largest else np.minimum).at(best, local, keys)
        return best
