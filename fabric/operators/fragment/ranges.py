"""Ranges of sort keys: which of n even parts of the sorted rows a row belongs to.

One job: `Ranges`, made of a sample of the keys. Nulls, NaN and directions are as in a sort: rows of
range r come before all rows of range r + 1, or are equal to them. Rows that are equal to
a boundary (one key may have half of the rows) are dealt to all ranges that have room for them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types as t

from fabric.operators.fragment.aggregates.segments import Ints, order_keys, unviewed, valid
from fabric.plan.expr import SortKey

_CODES_MAX = 1 << 62
_COMPARED_MAX = 16
"""With so many boundaries comparing with all of them is faster than searching."""
_GOLDEN = 0.6180339887498949
"""Multiples of it are spread evenly over 0 to 1, from whichever rows they are taken."""


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
        given = [unviewed(column.combine_chunks()) for column in samples.columns]
        order = _order(given, keys)
        columns = [column.take(pa.array(order)) for column in given]
        upto = np.cumsum(np.asarray(weights)[order])
        places = _places(upto, n_ranges)
        bounds = [column.take(pa.array(places)) for column in columns]
        self._coders = [Coder(column, key) for column, key in zip(bounds, keys, strict=True)]
        self._bounds = self._codes(bounds)
        self._shares = _Shares(self._bounds, self._codes(columns), upto, n_ranges)
        self._is_whole = self._n_used() == len(self._coders)
        self._numbers = _numbers_of(bounds, keys)

    def of(self, *columns: pa.Array) -> pa.Array:
        """The range of each row of the key columns, from 0."""
        if self._numbers is not None and not columns[0].null_count:
            return pa.array(self._of_numbers(columns[0], self._numbers))
        codes = self._codes(columns)
        found = np.searchsorted(self._bounds, codes)
        if self._is_whole:
            self._shares.deal(codes, found)
        return pa.array(found.astype(np.int32))

    def _of_numbers(self, column: pa.Array, numbers: _Numbers) -> NDArray[np.int32]:
        """The same for one key that is a number: rows are compared with the boundaries alone."""
        found, equal = numbers.of(column)
        rows = np.flatnonzero(equal)
        if len(rows):
            among: Ints = found[rows].astype(np.int64)
            self._shares.deal(self._codes([column.take(pa.array(rows))]), among)
            found[rows] = among
        return found

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


class _Numbers:
    """Numbers among the ordered numbers of the boundaries."""

    def __init__(self, bounds: Ints, descending: bool) -> None:
        self._bounds, self._descending = bounds, descending
        self._padded = np.append(bounds, bounds[-1:])

    def of(self, column: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """How many boundaries come before each value, and whether it is equal to the next."""
        keys = order_keys(column)[0]
        keys = ~keys if self._descending else keys
        if len(self._bounds) > _COMPARED_MAX:
            found = np.searchsorted(self._bounds, keys).astype(np.int32)
        else:
            found = np.zeros(len(keys), np.int32)
            for bound in self._bounds:
                found += keys > bound
        return found, (self._padded[found] == keys) & (found < len(self._bounds))


def _numbers_of(bounds: Sequence[pa.Array], keys: Sequence[SortKey]) -> _Numbers | None:
    """For one key whose boundaries are numbers and not null."""
    if len(bounds) != 1 or not len(bounds[0]):
        return None
    (column,), (key,) = bounds, keys
    if column.null_count or not _has_keys(column.type):
        return None
    numbers = order_keys(column)[0]
    return _Numbers(~numbers if key.descending else numbers, key.descending)


class _Shares:
    """Where rows that are equal to a boundary go: to each range as many as it has room for."""

    def __init__(self, bounds: Ints, samples: Ints, upto: Ints, n_ranges: int) -> None:
        self._values = np.unique(bounds)
        before = np.append(0, upto) * (n_ranges / max(1, upto[-1] if len(upto) else 1))
        self._begin = before[np.searchsorted(samples, self._values, "left")]
        self._size = before[np.searchsorted(samples, self._values, "right")] - self._begin
        self._last = np.searchsorted(bounds, self._values, "right")

    def deal(self, codes: Ints, found: Ints) -> None:
        """Change the ranges `found` of rows that are equal to a boundary."""
        if not len(self._values):
            return
        value = np.minimum(np.searchsorted(self._values, codes), len(self._values) - 1)
        rows = np.flatnonzero(self._values[value] == codes)
        value = value[rows]
        even = rows * _GOLDEN % 1.0
        place = (self._begin[value] + even * self._size[value]).astype(np.int64)
        found[rows] = np.clip(place, found[rows], self._last[value])


class Coder:
    """Where values of one key lie among its boundaries: 2 i between two, 2 i + 1 on one."""

    def __init__(self, bounds: pa.Array, key: SortKey) -> None:
        self._key = key
        self._bounds = bounds.drop_null().unique()
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


def _order(columns: Sequence[pa.Array], keys: Sequence[SortKey]) -> Ints:
    """The indices of the sampled rows in the order of the keys."""
    found: list[Ints] = []
    for column, key in zip(reversed(columns), reversed(keys), strict=True):
        found += _sortable(column, key)
    order: Ints = np.lexsort(found)
    return order


def _places(upto: Ints, n_ranges: int) -> Ints:
    """Where the boundaries are among the ordered samples, whose weights add up to `upto`."""
    if not len(upto):
        return np.zeros(0, np.int64)
    wanted = upto[-1] * np.arange(1, n_ranges) / n_ranges
    places: Ints = np.minimum(np.searchsorted(upto, wanted), len(upto) - 1)
    return places


def _sortable(column: pa.Array, key: SortKey) -> tuple[Ints, Ints]:
    """Numbers in the order of a key, and before them which values are null."""
    kept = valid(column)
    found = order_keys(column.drop_null())[0]
    keys = np.zeros(len(column), np.int64)
    keys[kept] = ~found if key.descending else found
    nulls = (kept if not key.nulls_last else ~kept).astype(np.int64)
    return keys, nulls
