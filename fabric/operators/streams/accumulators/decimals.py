"""Sums and means of decimals, exact in 128 bits.

One job: running sums of `decimal128`, kept as three words (low 32 bits, next 32, upper 64) so that
numpy adds them. A sum wider than `DECIMAL_SAFE_DIGITS` has a float sum beside it, as in the
fragment's form, by which it is seen that it left its type.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.operators.expressions.arrow import compile_expr
from fabric.operators.fragment.overflow import DECIMAL_SAFE_DIGITS
from fabric.operators.streams.accumulators.base import Accumulator, Columns, Numbers, present
from fabric.operators.streams.accumulators.row_groups import Ids, RowGroups
from fabric.operators.streams.accumulators.sums import does_not_fit
from fabric.plan.expr import Call, Case, Cast, Column, Literal

Words = NDArray[np.int64]
I64 = pa.int64()
_LOW = np.int64(0xFFFF_FFFF)
_CARRY_EVERY = 1 << 30
"""Rows after which the lower words hand on what is above 32 bits; 2^31 would overflow them."""


class DecimalSum(Accumulator):
    """The sum of decimals as `total`; with a `mean` type that of their mean.

    >>> from decimal import Decimal
    >>> total = DecimalSum("total", pa.decimal128(13, 2))
    >>> total.resize(1)
    >>> values = pa.array([Decimal("1.25"), Decimal("-3.00")], pa.decimal128(13, 2))
    >>> total.update(RowGroups(np.array([0, 0])), [values])
    >>> total.results(np.array([0])).to_pylist()
    [Decimal('-1.75')]
    """

    def __init__(self, name: str, total: pa.DataType, mean: pa.DataType | None = None) -> None:
        self._name, self._total, self._mean = name, total, mean
        self._words = [Numbers(np.int64, 0) for _ in range(3)]
        self._near, self._counts = Numbers(np.float64, 0.0), Numbers(np.int64, 0)
        self._since_carry = 0
        self._divide = None if mean is None else _division(total, mean)

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        """The sum, and of how many."""
        return (self._total, I64)

    def resize(self, n_groups: int) -> None:
        """See `Accumulator`."""
        for numbers in (*self._words, self._near, self._counts):
            numbers.resize(n_groups)

    def update(self, rows: RowGroups, columns: Columns) -> None:
        """See `Accumulator`."""
        ids, values = present(rows, columns[0])
        self._add(ids, values.cast(self._total))
        np.add.at(self._counts.values, ids, 1)

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        sums = self._sums(ids)
        if self._divide is None:
            return sums
        counts = pa.array(self._counts.values[ids])
        return self._divide(pa.record_batch([sums, counts], ["sum", "count"]))

    def states(self, ids: Ids) -> list[pa.Array]:
        """See `Accumulator`."""
        return [self._sums(ids), pa.array(self._counts.values[ids])]

    def merge(self, rows: RowGroups, states: Columns) -> None:
        """See `Accumulator`."""
        self._add(*present(rows, states[0]))
        np.add.at(self._counts.values, rows.ids, states[1].to_numpy())

    def clear(self, ids: Ids) -> None:
        """See `Accumulator`."""
        for numbers in (*self._words, self._near, self._counts):
            numbers.clear(ids)

    def _add(self, ids: Ids, values: pa.Array) -> None:
        words = _words(values)
        lower, upper = words[:, 0], words[:, 1]
        if self._since_carry + len(ids) > _CARRY_EVERY:
            self._carry()
        self._since_carry += len(ids)
        np.add.at(self._words[0].values, ids, lower & _LOW)
        np.add.at(self._words[1].values, ids, (lower >> 32) & _LOW)
        np.add.at(self._words[2].values, ids, upper)
        near = upper * (2.0**64 / 10.0**self._total.scale)
        np.add.at(self._near.values, ids, near)

    def _carry(self) -> None:
        low, middle, high = (numbers.values for numbers in self._words)
        middle += low >> 32
        low &= _LOW
        high += middle >> 32
        middle &= _LOW
        self._since_carry = 0

    def _sums(self, ids: Ids) -> pa.Array:
        low, middle, high = (numbers.values[ids] for numbers in self._words)
        middle += low >> 32
        high += middle >> 32
        words = np.empty((len(ids), 2), np.int64)
        words[:, 0] = (middle << 32) | (low & _LOW)
        words[:, 1] = high
        seen = self._counts.values[ids] > 0
        self._check(self._near.values[ids], words, seen)
        valid = None if seen.all() else pa.py_buffer(np.packbits(seen, bitorder="little"))
        return pa.Array.from_buffers(self._total, len(ids), [valid, pa.py_buffer(words)])

    def _check(self, near: NDArray[np.float64], words: Words, seen: NDArray[np.bool_]) -> None:
        """The fragment's rule: an exact sum that is far from the float one has wrapped."""
        if self._total.precision <= DECIMAL_SAFE_DIGITS:
            return
        limit = 10.0 ** (self._total.precision - self._total.scale)
        found = words[:, 1] * (2.0**64 / 10.0**self._total.scale)
        wrapped = (np.abs(found - near) > limit / 2) | (np.abs(near) > limit * 1.0001)
        if (wrapped & seen).any():
            raise does_not_fit(self._name, self._total)


def _words(values: pa.Array) -> Words:
    """Each decimal as its lower and upper 64 bits."""
    data = values.buffers()[1]
    if data is None or not len(values):
        return np.zeros((0, 2), np.int64)
    words = np.frombuffer(data, np.int64).reshape(-1, 2)
    return words[values.offset : values.offset + len(values)]


def _division(total: pa.DataType, mean: pa.DataType) -> Callable[[pa.RecordBatch], pa.Array]:
    """The mean as the fragment computes it: the sum by the count as a decimal, then a cast."""
    schema = pa.schema([("sum", total), ("count", I64)])
    some = Call("gt", (Column("count"), Literal(0, I64)))
    share = Call("divide", (Column("sum"), Cast(Column("count"), pa.decimal128(20, 0))))
    return compile_expr(Case(((some, Cast(share, mean)),), Literal(None, mean)), schema)
