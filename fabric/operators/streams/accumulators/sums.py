"""Sums and means of integers and floats, with Spark's types; those of decimals are beside.

One job: running sums. A sum of int64 may pass the end of its range and come back; whether it is
outside in the end is seen by a float sum beside it, which is kept only once a sum could be so
large: they are then 2^64 apart (as in `fragment/overflow.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.errors import ExpressionError
from fabric.operators.streams.accumulators.base import (
    Accumulator,
    Columns,
    Numbers,
    nullable,
    present,
)
from fabric.operators.streams.accumulators.row_groups import Ids, RowGroups

Values = NDArray[Any]
F64, I64 = pa.float64(), pa.int64()
_SAFE = 1 << 62


class IntegerSum(Accumulator):
    """The sum of integers as int64; overflow is an error when the result is asked for.

    >>> total = IntegerSum("total")
    >>> total.resize(1)
    >>> total.update(RowGroups(np.array([0, 0])), [pa.array([2**63 - 1, 1])])
    >>> total.results(np.array([0]))
    Traceback (most recent call last):
    fabric.errors.ExpressionError: the sum 'total' does not fit in int64; sum a cast to a wider \
decimal
    """

    def __init__(self, name: str) -> None:
        self._name, self._bound = name, 0
        self._sums, self._seen = Numbers(np.int64, 0), Numbers(np.bool_, False)
        self._near: Numbers | None = None

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        """The sum as it wrapped, and about the sum."""
        return (I64, F64)

    def resize(self, n_groups: int) -> None:
        """See `Accumulator`."""
        self._sums.resize(n_groups)
        self._seen.resize(n_groups)
        if self._near is not None:
            self._near.resize(n_groups)

    def update(self, rows: RowGroups, columns: Columns) -> None:
        """See `Accumulator`."""
        ids, values = present(rows, columns[0])
        numbers = values.cast(I64).to_numpy()
        self._add(ids, numbers, numbers)

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        if self._near is not None:
            apart = np.abs(self._sums.values[ids].astype(np.float64) - self._near.values[ids])
            if (apart > _SAFE).any():
                raise does_not_fit(self._name, I64)
        return nullable(self._sums.values[ids], self._seen.values[ids], I64)

    def states(self, ids: Ids) -> list[pa.Array]:
        """See `Accumulator`."""
        sums = self._sums.values[ids]
        near = sums.astype(np.float64) if self._near is None else self._near.values[ids]
        return [nullable(sums, self._seen.values[ids], I64), pa.array(near)]

    def merge(self, rows: RowGroups, states: Columns) -> None:
        """See `Accumulator`."""
        near = states[1].filter(states[0].is_valid())
        ids, sums = present(rows, states[0])
        self._add(ids, sums.to_numpy(), near.to_numpy())

    def clear(self, ids: Ids) -> None:
        """See `Accumulator`."""
        self._sums.clear(ids)
        self._seen.clear(ids)
        if self._near is not None:
            self._near.clear(ids)

    def _add(self, ids: Ids, numbers: Values, near: Values) -> None:
        if not len(ids):
            return
        largest = max(abs(float(near.max())), abs(float(near.min())))
        self._bound += len(ids) * int(largest + 1)
        if self._near is None and self._bound > _SAFE:
            self._near = Numbers(np.float64, 0.0)
            self._near.resize(len(self._sums.values))
            self._near.values[:] = self._sums.values
        np.add.at(self._sums.values, ids, numbers)
        self._seen.values[ids] = True
        if self._near is not None:
            np.add.at(self._near.values, ids, near)


class FloatSum(Accumulator):
    """The sum of numbers as float64, or with `mean` their mean."""

    def __init__(self, *, mean: bool) -> None:
        self._mean = mean
        self._sums, self._counts = Numbers(np.float64, 0.0), Numbers(np.int64, 0)

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        """The sum, and of how many."""
        return (F64, I64)

    def resize(self, n_groups: int) -> None:
        """See `Accumulator`."""
        self._sums.resize(n_groups)
        self._counts.resize(n_groups)

    def update(self, rows: RowGroups, columns: Columns) -> None:
        """See `Accumulator`."""
        ids, values = present(rows, columns[0])
        with np.errstate(all="ignore"):
            np.add.at(self._sums.values, ids, values.cast(F64, safe=False).to_numpy())
        np.add.at(self._counts.values, ids, 1)

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        sums, counts = self._sums.values[ids], self._counts.values[ids]
        with np.errstate(all="ignore"):
            return nullable(sums / np.maximum(counts, 1) if self._mean else sums, counts > 0, F64)

    def states(self, ids: Ids) -> list[pa.Array]:
        """See `Accumulator`."""
        return [pa.array(self._sums.values[ids]), pa.array(self._counts.values[ids])]

    def merge(self, rows: RowGroups, states: Columns) -> None:
        """See `Accumulator`."""
        with np.errstate(all="ignore"):
            np.add.at(self._sums.values, rows.ids, states[0].to_numpy())
        np.add.at(self._counts.values, rows.ids, states[1].to_numpy())

    def clear(self, ids: Ids) -> None:
        """See `Accumulator`."""
        self._sums.clear(ids)
        self._counts.clear(ids)


def does_not_fit(name: str, dtype: pa.DataType) -> ExpressionError:
    """The error of a sum outside its type."""
    return ExpressionError(
        f"the sum {name!r} does not fit in {dtype}; sum a cast to a wider decimal"
    )
