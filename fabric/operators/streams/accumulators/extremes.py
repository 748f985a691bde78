"""The smallest and the largest of numbers and times, as integers in their order.

One job: `Bound`. Other types (strings, decimals) keep the row: `picks.Extreme`. Floats are compared
as Spark does: -0.0 is 0.0 and NaN larger than every number.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyarrow import types as t

from fabric.operators.fragment.aggregates.segments import order_keys
from fabric.operators.streams.accumulators.base import Accumulator, Columns, Numbers, present
from fabric.operators.streams.accumulators.row_groups import Ids, RowGroups

_LIMITS = np.iinfo(np.int64)


def has_integer_keys(dtype: pa.DataType) -> bool:
    """Whether the order of a type's values is that of integers made of each by itself."""
    simple = t.is_floating(dtype) or t.is_boolean(dtype) or t.is_integer(dtype)
    return bool(simple or t.is_temporal(dtype))


class Bound(Accumulator):
    """The least or greatest value of a type that `has_integer_keys`.

    >>> least = Bound(pa.float64(), largest=False)
    >>> least.resize(2)
    >>> least.update(RowGroups(np.array([0, 0])), [pa.array([2.5, float("nan")])])
    >>> least.results(np.array([0, 1])).to_pylist()
    [2.5, None]
    """

    def __init__(self, dtype: pa.DataType, *, largest: bool) -> None:
        self._dtype, self._reduce = dtype, np.maximum if largest else np.minimum
        self._best = Numbers(np.int64, _LIMITS.min if largest else _LIMITS.max)
        self._seen = Numbers(np.bool_, False)
        _, self._back = order_keys(pa.array([], dtype))

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        """The value."""
        return (self._dtype,)

    def resize(self, n_groups: int) -> None:
        """See `Accumulator`."""
        self._best.resize(n_groups)
        self._seen.resize(n_groups)

    def update(self, rows: RowGroups, columns: Columns) -> None:
        """See `Accumulator`."""
        ids, values = present(rows, columns[0])
        keys, _ = order_keys(values)
        self._reduce.at(self._best.values, ids, keys)
        self._seen.values[ids] = True

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        seen = self._seen.values[ids]
        values = self._back(np.where(seen, self._best.values[ids], 0))
        if seen.all():
            return values
        return values.take(pa.array(np.arange(len(ids)), mask=~seen))

    def states(self, ids: Ids) -> list[pa.Array]:
        """See `Accumulator`."""
        return [self.results(ids)]

    def merge(self, rows: RowGroups, states: Columns) -> None:
        """See `Accumulator`."""
        self.update(rows, states)

    def clear(self, ids: Ids) -> None:
        """See `Accumulator`."""
        self._best.clear(ids)
        self._seen.clear(ids)
