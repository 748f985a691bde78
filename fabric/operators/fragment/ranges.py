"""Ranges of sort keys: which of n even parts of the sorted rows a row belongs to.

One job: `Ranges`, made of a sample of the keys. Nulls, NaN and directions are as in a sort: rows of
range r come before all rows of range r + 1, or are equal to some of them. Rows that are equal to
several boundaries (one key may have half of the rows) are dealt to all ranges in between.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.operators.fragment.aggregates.segments import Ints, order_keys, unviewed, valid
from fabric.plan.expr import SortKey

_CODES_MAX = 1 << 62


class Ranges:
    """The boundaries of `n_ranges` ranges of about equal weight.

    >>> key = SortKey(None)
    >>> ranges = Ranges(pa.table({"0": [1, 2, 3, 4]}), pa.array([1, 1, 1, 1]), [key], 2)
    >>> ranges.of(pa.array([0, 9, None])).to_pylist()
    [0, 1, 0]
    """

    def __init__(
        self,
        samples: pa.Table,
        weights: pa.Array | pa.ChunkedArray,
        keys: Sequence[SortKey],
        n_ranges: int,
    ) -> None:
        bounds = _boundaries(samples, np.asarray(weights), keys, n_ranges)
        columns = [column.combine_chunks() for column in bounds.columns]
        self._coders = [Coder(column, key) for column, key in zip(columns, keys, strict=True)]
        self._bounds = self._codes(columns)
        self._is_whole = self._n_used() == len(self._coders)

    def of(self, *columns: pa.Array) -> pa.Array:
        """The range of each row of the key columns, from 0."""
        codes = self._codes(columns)
        low = np.searchsorted(self._bounds, codes, "left")
        if self._is_whole:
            high = np.searchsorted(self._bounds, codes, "right")
            low += np.arange(len(codes)) % (high - low + 1)
        return pa.array(low.astype(np.int32))

    def _n_used(self) -> int:
        """How many keys fit into one number; rows equal in those are then all in one range."""
        size = used = 1
        for coder in self._coders:
            size *= coder.n_codes
            used += size < _CODES_MAX
        return used - 1

    def _codes(self, columns: Sequence[pa.Array]) -> Ints:
        """One number a row, in the order of the keys as far as the boundaries tell it."""
        codes = np.zeros(len(columns[0]), np.int64)
        used = self._n_used()
        for coder, column in zip(self._coders[:used], columns[:used], strict=True):
            codes = codes * coder.n_codes + coder.codes(column)
        return codes


class Coder:
    """Where values of one key lie among its boundaries: 2 i between two, 2 i + 1 on one."""

    def __init__(self, bounds: pa.Array, key: SortKey) -> None:
        self._key = key
        self._bounds = unviewed(bounds).drop_null().unique()
        self._bounds = self._bounds.take(pa.array(np.argsort(order_keys(self._bounds)[0])))
        self.n_codes = 2 * len(self._bounds) + 3

    def codes(self, values: pa.Array) -> Ints:
        """The code of each value, nulls at the end that the key says."""
        last = 2 * len(self._bounds)
        codes = np.full(len(values), last + 1 if self._key.nulls_last else -1, np.int64)
        kept = valid(values)
        found = self._among(unviewed(values).drop_null())
        codes[kept] = last - found if self._key.descending else found
        return codes + 1

    def _among(self, values: pa.Array) -> Ints:
        """The number of boundaries below each value and the number not above it, added."""
        if not _has_keys(values.type):
            found = np.zeros(len(values), np.int64)
            for bound in self._bounds:
                for compare in (pc.greater, pc.greater_equal):
                    found += compare(values, bound).to_numpy(zero_copy_only=False)
            return found
        bounds, keys = order_keys(self._bounds)[0], order_keys(values)[0]
        return np.searchsorted(bounds, keys, "left") + np.searchsorted(bounds, keys, "right")


def _has_keys(dtype: pa.DataType) -> bool:
    """Whether `order_keys` of two arrays can be compared with each other."""
    return bool(
        t.is_integer(dtype) or t.is_floating(dtype) or t.is_boolean(dtype) or t.is_temporal(dtype)
    )


def _boundaries(
    samples: pa.Table, weights: Ints, keys: Sequence[SortKey], n_ranges: int
) -> pa.Table:
    """The sampled keys at even distances in weight, in order."""
    if not samples.num_rows:
        return samples
    columns: list[Ints] = []
    for column, key in zip(reversed(samples.columns), reversed(keys), strict=True):
        columns += _sortable(column.combine_chunks(), key)
    order = np.lexsort(columns)
    upto = np.cumsum(weights[order])
    wanted = upto[-1] * np.arange(1, n_ranges) / n_ranges
    places = np.minimum(np.searchsorted(upto, wanted), len(order) - 1)
    return samples.take(pa.array(order[places]))


def _sortable(column: pa.Array, key: SortKey) -> tuple[Ints, Ints]:
    """Numbers in the order of a key, and before them which values are null."""
    kept = valid(column)
    found = order_keys(unviewed(column).drop_null())[0]
    keys = np.zeros(len(column), np.int64)
    keys[kept] = ~found if key.descending else found
    nulls = (kept if not key.nulls_last else ~kept).astype(np.int64)
    return keys, nulls
