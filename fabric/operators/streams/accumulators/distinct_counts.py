"""How many different values: count_distinct exactly, approx_distinct by HyperLogLog registers.

One job: a table of (group, value) pairs that says which pair is new; new ones are also kept by
group, so that a group's can be sent and forgotten.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fabric._cython.kernels.group_table import GroupTable
from fabric._cython.kernels.hash import hash_columns
from fabric._cython.kernels.segments import register_codes
from fabric.operators.fragment.aggregates.counts import estimated
from fabric.operators.streams.accumulators.accumulator import Ids, RowGroups
from fabric.operators.streams.accumulators.value_lists import OfValues, unfolded
from fabric.operators.streams.group_values import Numbers

I64 = pa.int64()


class Distinct(OfValues):
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
        self._counts = Numbers(np.int64, 0)
        super().__init__(dtype, self._counts)

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        return pa.array(self._counts.values[ids])

    def clear(self, ids: Ids) -> None:
        """See `Accumulator`."""
        owners, values = unfolded(RowGroups(ids), self._log.lists(ids))
        gone = self._pairs.find([pa.array(owners), values])
        self._claims.clear(gone)
        self._pairs.remove(gone)
        self._pairs.compact()
        super().clear(ids)

    @property
    def nbytes(self) -> int:
        """See `Accumulator`."""
        return super().nbytes + self._pairs.nbytes + self._claims.nbytes

    def _add(self, ids: Ids, kept: pa.Array) -> None:
        pairs = self._pairs.upsert([pa.array(ids), kept])
        self._claims.resize(self._pairs.n_ids)
        new = np.flatnonzero(self._claims.values[pairs] < 0)
        self._claims.values[pairs[new]] = new
        new = new[self._claims.values[pairs[new]] == new]  # of equal ones in a batch the last
        np.add.at(self._counts.values, ids[new], 1)
        self._log.add(ids[new], kept.take(pa.array(new)))


class ApproximateDistinct(OfValues):
    """About how many different values, with the fragment's registers and estimate."""

    def __init__(self) -> None:
        self._registers = GroupTable(pa.schema([("group", I64), ("register", pa.int32())]))
        self._longest = Numbers(np.int32, 0)
        super().__init__(pa.int32())

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        return estimated(self._log.lists(ids))

    def clear(self, ids: Ids) -> None:
        """See `Accumulator`."""
        owners, codes = unfolded(RowGroups(ids), self._log.lists(ids))
        found = self._registers.find([pa.array(owners), pa.array(codes.to_numpy() >> 8)])
        gone = np.unique(found)
        self._longest.clear(gone)
        self._registers.remove(gone)
        self._registers.compact()
        super().clear(ids)

    @property
    def nbytes(self) -> int:
        """See `Accumulator`."""
        return super().nbytes + self._registers.nbytes + self._longest.nbytes

    def _kept(self, values: pa.Array) -> pa.Array:
        return pa.array(register_codes(hash_columns([values])))

    def _add(self, ids: Ids, kept: pa.Array) -> None:
        codes = kept.to_numpy()
        registers = self._registers.upsert([pa.array(ids), pa.array(codes >> 8)])
        self._longest.resize(self._registers.n_ids)
        runs = codes & 0xFF
        longer = np.flatnonzero(runs > self._longest.values[registers])
        np.maximum.at(self._longest.values, registers[longer], runs[longer])
        self._log.add(ids[longer], pa.array(codes[longer]))
