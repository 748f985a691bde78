"""How many different values: count_distinct exactly, approx_distinct by HyperLogLog registers.

One job: a table of (group, value) pairs that says which pair is new; new ones are also kept by
group, so that a group's can be sent and forgotten.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.kernels.group_table import GroupTable
from fabric._cython.kernels.hash import hash_columns
from fabric._cython.kernels.registers import register_codes
from fabric.operators.fragment.aggregates.counts import estimated
from fabric.operators.fragment.aggregates.segments import unviewed
from fabric.operators.streams.accumulators.accumulator import (
    Accumulator,
    Columns,
    Ids,
    RowGroups,
    present,
)
from fabric.operators.streams.accumulators.value_lists import ValueLog, unfolded
from fabric.operators.streams.group_values import Numbers

I64 = pa.int64()


class Distinct(Accumulator):
    """The number of different values, nulls left out; never null.

    >>> distinct = Distinct(pa.string())
    >>> distinct.resize(1)
    >>> distinct.update(RowGroups(np.array([0, 0, 0])), [pa.array(["a", "b", "a"])])
    >>> distinct.results(np.array([0])).to_pylist()
    [2]
    """

    def __init__(self, dtype: pa.DataType) -> None:
        self._pairs = GroupTable(pa.schema([("group", I64), ("value", dtype)]))
        self._claims = Numbers(np.int64, -1)  # by pair: the row that brought it
        self._log = ValueLog(dtype)
        self._counts = Numbers(np.int64, 0)

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        """The values."""
        return (pa.list_(self._log.dtype),)

    def resize(self, n_groups: int) -> None:
        """See `Accumulator`."""
        self._counts.resize(n_groups)

    def update(self, rows: RowGroups, columns: Columns) -> None:
        """See `Accumulator`."""
        ids, values = present(rows, columns[0])
        self._add(ids, unviewed(values))

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        return pa.array(self._counts.values[ids])

    def states(self, ids: Ids) -> list[pa.Array]:
        """See `Accumulator`."""
        return [self._log.lists(ids)]

    def merge(self, rows: RowGroups, states: Columns) -> None:
        """See `Accumulator`."""
        self._add(*unfolded(rows, states[0]))

    def clear(self, ids: Ids) -> None:
        """See `Accumulator`."""
        owners, values = unfolded(RowGroups(ids), self._log.lists(ids))
        gone = self._pairs.find([pa.array(owners), values])
        self._claims.clear(gone)
        self._pairs.remove(gone)
        self._pairs.compact()
        self._log.clear(ids)
        self._counts.clear(ids)

    @property
    def nbytes(self) -> int:
        """See `Accumulator`."""
        return self._pairs.nbytes + self._claims.nbytes + self._log.nbytes + self._counts.nbytes

    def _add(self, ids: Ids, values: pa.Array) -> None:
        pairs = self._pairs.upsert([pa.array(ids), values])
        self._claims.resize(self._pairs.n_ids)
        new = np.flatnonzero(self._claims.values[pairs] < 0)
        self._claims.values[pairs[new]] = new
        new = new[self._claims.values[pairs[new]] == new]  # of equal ones in a batch the last
        np.add.at(self._counts.values, ids[new], 1)
        self._log.add(ids[new], values.take(pa.array(new)))


class ApproximateDistinct(Accumulator):
    """About how many different values, with the fragment's registers and estimate."""

    def __init__(self) -> None:
        self._registers = GroupTable(pa.schema([("group", I64), ("register", pa.int32())]))
        self._longest = Numbers(np.int32, 0)
        self._log = ValueLog(pa.int32())

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        """The codes of the registers."""
        return (pa.list_(pa.int32()),)

    def resize(self, n_groups: int) -> None:
        """Nothing is kept for a group without values."""

    def update(self, rows: RowGroups, columns: Columns) -> None:
        """See `Accumulator`."""
        ids, values = present(rows, columns[0])
        self._add(ids, register_codes(hash_columns([values])))

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        return estimated(self._log.lists(ids))

    def states(self, ids: Ids) -> list[pa.Array]:
        """See `Accumulator`."""
        return [self._log.lists(ids)]

    def merge(self, rows: RowGroups, states: Columns) -> None:
        """See `Accumulator`."""
        ids, codes = unfolded(rows, states[0])
        self._add(ids, codes.to_numpy())

    def clear(self, ids: Ids) -> None:
        """See `Accumulator`."""
        owners, codes = unfolded(RowGroups(ids), self._log.lists(ids))
        found = self._registers.find([pa.array(owners), pa.array(codes.to_numpy() >> 8)])
        gone = np.unique(found)
        self._longest.clear(gone)
        self._registers.remove(gone)
        self._registers.compact()
        self._log.clear(ids)

    @property
    def nbytes(self) -> int:
        """See `Accumulator`."""
        return int(self._registers.nbytes) + self._longest.nbytes + self._log.nbytes

    def _add(self, ids: Ids, codes: NDArray[np.int32]) -> None:
        registers = self._registers.upsert([pa.array(ids), pa.array(codes >> 8)])
        self._longest.resize(self._registers.n_ids)
        runs = codes & 0xFF
        longer = np.flatnonzero(runs > self._longest.values[registers])
        np.maximum.at(self._longest.values, registers[longer], runs[longer])
        self._log.add(ids[longer], pa.array(codes[longer]))
