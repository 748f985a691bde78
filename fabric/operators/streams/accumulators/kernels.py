"""Aggregates with a few numbers a group: counts, conditions, sums, means, extremes.

One job: the kernels under the contract of accumulators, and two flags a group for `bool_and` and
`bool_or`. Sums are wide inside, so that only one that leaves its type in the end is an error, as in
the fragment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fabric._cython.kernels import accumulators as kernels
from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow import compile_expr
from fabric.operators.streams.accumulators.accumulator import (
    Accumulator,
    Columns,
    Ids,
    RowGroups,
    nullable,
    present,
)
from fabric.operators.streams.group_values import Numbers
from fabric.plan.expr import Call, Case, Cast, Column, Literal

F64, I64 = pa.float64(), pa.int64()


class OfKernel(Accumulator):
    """The state of a kernel; its result too, where the kernel has one.

    >>> count = OfKernel(kernels.Count())
    >>> count.update(RowGroups(np.array([1, 1])), [pa.array([5, None])])
    >>> count.results(np.array([0, 1])).to_pylist()
    [0, 1]
    """

    def __init__(self, kernel: Any) -> None:
        super().__init__()  # kernels grow by themselves
        self.kernel: Any = kernel
        self._schema: pa.Schema = kernel.states(_narrow(np.zeros(0, np.int64))).schema

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        """The kernel's."""
        return tuple(self._schema.types)

    def update(self, rows: RowGroups, columns: Columns) -> None:
        """See `Accumulator`."""
        self.kernel.update(rows.narrow, *columns)

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        return self.kernel.results(_narrow(ids))

    def states(self, ids: Ids) -> list[pa.Array]:
        """See `Accumulator`."""
        return list(self.kernel.states(_narrow(ids)).columns)

    def merge(self, rows: RowGroups, states: Columns) -> None:
        """See `Accumulator`."""
        self.kernel.merge(rows.narrow, pa.RecordBatch.from_arrays(states, schema=self._schema))

    def clear(self, ids: Ids) -> None:
        """See `Accumulator`."""
        self.kernel.clear(_narrow(ids))

    @property
    def nbytes(self) -> int:
        """See `Accumulator`."""
        return int(self.kernel.nbytes)


class CountTrue(OfKernel):
    """For how many rows a condition is true."""

    def __init__(self) -> None:
        super().__init__(kernels.Count())

    def update(self, rows: RowGroups, columns: Columns) -> None:
        """See `Accumulator`."""
        super().update(rows, [pc.if_else(columns[0], True, None)])


class Sum(OfKernel):
    """A sum; one that is outside its type when it is asked for is an error.

    >>> total = Sum(kernels.SumInt64(), "total", pa.int64())
    >>> total.update(RowGroups(np.array([0, 0])), [pa.array([2**63 - 1, 1])])
    >>> total.results(np.array([0]))
    Traceback (most recent call last):
    fabric.errors.ExpressionError: the sum 'total' does not fit in int64; sum a cast to a wider \
decimal
    """

    def __init__(self, kernel: Any, name: str, dtype: pa.DataType) -> None:
        super().__init__(kernel)
        self._name, self._dtype = name, dtype

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        try:
            return super().results(ids)
        except OverflowError as error:
            raise ExpressionError(
                f"the sum {self._name!r} does not fit in {self._dtype}; sum a cast to a wider "
                "decimal"
            ) from error


class Several(Accumulator):
    """What is made of the results of several others over the same argument."""

    def __init__(self, parts: Sequence[Accumulator], finish: Callable[..., pa.Array]) -> None:
        super().__init__(*parts)
        self._accumulators, self._finish = parts, finish
        ends = np.cumsum([0, *(len(part.state_types) for part in parts)])
        self._shares = [slice(begin, end) for begin, end in pairwise(ends)]

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        """Theirs, one after another."""
        return tuple(dtype for part in self._accumulators for dtype in part.state_types)

    def update(self, rows: RowGroups, columns: Columns) -> None:
        """See `Accumulator`."""
        for part in self._accumulators:
            part.update(rows, columns)

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        return self._finish(*(part.results(ids) for part in self._accumulators))

    def states(self, ids: Ids) -> list[pa.Array]:
        """See `Accumulator`."""
        return [column for part in self._accumulators for column in part.states(ids)]

    def merge(self, rows: RowGroups, states: Columns) -> None:
        """See `Accumulator`."""
        for part, share in zip(self._accumulators, self._shares, strict=True):
            part.merge(rows, states[share])


def mean_of_floats() -> Accumulator:
    """The mean of numbers as float64."""

    def finish(sums: pa.Array, counts: pa.Array) -> pa.Array:
        n = counts.to_numpy()
        with np.errstate(all="ignore"):
            return nullable(
                sums.fill_null(0.0).to_numpy() / np.maximum(n, 1), n > 0, F64
            )  # fmt: skip

    return Several([OfKernel(kernels.SumFloat64()), OfKernel(kernels.Count())], finish)


def mean_of_decimals(name: str, total: pa.DataType, mean: pa.DataType) -> Accumulator:
    """As the fragment computes it: the sum by the count as a decimal, then a cast."""
    schema = pa.schema([("sum", total), ("count", I64)])
    some = Call("gt", (Column("count"), Literal(0, I64)))
    share = Call("divide", (Column("sum"), Cast(Column("count"), pa.decimal128(20, 0))))
    divided = compile_expr(Case(((some, Cast(share, mean)),), Literal(None, mean)), schema)

    def finish(sums: pa.Array, counts: pa.Array) -> pa.Array:
        return divided(pa.RecordBatch.from_arrays([sums, counts], schema=schema))

    sums = Sum(kernels.SumDecimal(total.precision, total.scale), name, total)
    return Several([sums, OfKernel(kernels.Count())], finish)


def _narrow(ids: Ids) -> Any:
    return ids.astype(np.int32)


class Condition(Accumulator):
    """Whether all values are true, or any is; nulls are left out."""

    def __init__(self, *, every: bool) -> None:
        self._decisive = not every
        self._seen, self._decided = Numbers(np.bool_, False), Numbers(np.bool_, False)
        super().__init__(self._seen, self._decided)

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        """The answer so far."""
        return (pa.bool_(),)

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
