"""The accumulator of each aggregate of a plan, and all those of a node together.

One job: `Aggregates`: it binds the arguments of a node's aggregates to columns, gives them the
types that the accumulators add up in (those of the fragment's forms), and hands each its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyarrow import types as t

from fabric._cython.kernels import accumulators as kernels
from fabric.errors import InternalError, PlanError
from fabric.operators.expressions.arrow import compile_expr
from fabric.operators.fragment.aggregates.moments import RESULTS
from fabric.operators.fragment.aggregates.quantiles import interpolated, method_of
from fabric.operators.streams.accumulators.accumulator import Accumulator, Columns, Ids, RowGroups
from fabric.operators.streams.accumulators.distinct_counts import ApproximateDistinct, Distinct
from fabric.operators.streams.accumulators.kernels import (
    Condition,
    CountTrue,
    OfKernel,
    Sum,
    mean_of_decimals,
    mean_of_floats,
)
from fabric.operators.streams.accumulators.moments import Moments, PairMoments
from fabric.operators.streams.accumulators.picks import Extreme, Met
from fabric.operators.streams.accumulators.value_lists import ApproximateQuantile, Values
from fabric.operators.streams.group_values import Together
from fabric.plan.expr import Agg, Expr, Literal, children, output_name
from fabric.plan.functions import AGGREGATES
from fabric.plan.infer import infer, infer_agg
from fabric.plan.literals import scalar_of
from fabric.plan.nodes.aggregate import unaliased
from fabric.plan.types import bounded, flat_type, is_nested, numeric

Evaluate = Callable[[pa.RecordBatch], pa.Array]
Types = Sequence[pa.DataType]


@dataclass(frozen=True, slots=True)
class _Bound:
    """An aggregate over a schema: its arguments and the types they are given as."""

    agg: Agg
    name: str
    result: pa.DataType
    arguments: tuple[Evaluate, ...]
    types: tuple[pa.DataType, ...]

    def columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The arguments of a batch."""
        pairs = zip(self.arguments, self.types, strict=True)
        return [_given(argument(batch), dtype) for argument, dtype in pairs]


class Aggregates(Together):
    """The accumulators of some aggregates over rows of `schema`.

    >>> made = Aggregates([Agg("count", None)], pa.schema([("a", pa.int8())]))
    >>> made.resize(1)
    >>> made.update(RowGroups(__import__("numpy").array([0, 0])), pa.record_batch({"a": [1, 2]}))
    >>> [column.to_pylist() for column in made.results(__import__("numpy").array([0]))]
    [[2]]
    """

    def __init__(self, aggs: Sequence[Expr], schema: pa.Schema) -> None:
        self._bound = [_bind(expr, schema) for expr in aggs]
        self._begin()
        types = [a.state_types for a in self._accumulators]
        self.state_schema = pa.schema(
            [(f"{i}.{j}", dtype) for i, each in enumerate(types) for j, dtype in enumerate(each)]
        )
        """The columns of `states`."""
        self.result_schema = pa.schema([(bound.name, bound.result) for bound in self._bound])

    def fresh(self) -> Aggregates:
        """The same aggregates without any group."""
        made = copy(self)
        made._begin()
        return made

    def update(self, rows: RowGroups, batch: pa.RecordBatch) -> None:
        """Take the rows of a batch: their groups are `rows`."""
        for bound, accumulator in zip(self._bound, self._accumulators, strict=True):
            accumulator.update(rows, bound.columns(batch))

    def results(self, ids: Ids) -> list[pa.Array]:
        """A column for each aggregate."""
        pairs = zip(self._bound, self._accumulators, strict=True)
        return [as_type(accumulator.results(ids), bound.result) for bound, accumulator in pairs]

    def states(self, ids: Ids) -> list[pa.Array]:
        """The columns of `state_schema`."""
        return [column for a in self._accumulators for column in a.states(ids)]

    def merge(self, rows: RowGroups, states: Columns) -> None:
        """Take the columns of `state_schema`: the groups of their rows are `rows`."""
        left: Iterator[pa.Array] = iter(states)
        for accumulator in self._accumulators:
            accumulator.merge(rows, [next(left) for _ in accumulator.state_types])

    def _begin(self) -> None:
        """There is no group yet."""
        self._accumulators = [_accumulator(bound) for bound in self._bound]
        super().__init__(*self._accumulators)


def _bind(expr: Expr, schema: pa.Schema) -> _Bound:
    agg = unaliased(expr)
    constants = AGGREGATES[agg.function].constants
    inputs = [part for i, part in enumerate(children(agg)) if i not in constants]
    return _Bound(
        agg, output_name(expr), infer_agg(agg, schema),
        tuple(_evaluator(part, schema) for part in inputs),
        tuple(_given_type(agg.function, infer(part, schema)) for part in inputs),
    )  # fmt: skip


def _evaluator(expr: Expr, schema: pa.Schema) -> Evaluate:
    if not isinstance(expr, Literal):
        return compile_expr(expr, schema)
    constant = scalar_of(expr)
    return lambda batch: pa.repeat(constant, batch.num_rows)


def _given_type(function: str, dtype: pa.DataType) -> pa.DataType:
    """The type in which an accumulator takes an argument of `dtype`."""
    if function in ("median", "quantile"):
        return pa.float64()
    if function == "mean" and not t.is_decimal(numeric(dtype) or pa.float64()):
        return pa.float64()
    if function in ("sum", "mean"):
        number = numeric(dtype) or pa.float64()  # only null is not a number here
        if t.is_integer(number):
            return pa.int64()
        return pa.float64() if t.is_floating(number) else number
    if function in ("count_if", "bool_and", "bool_or"):
        return pa.bool_()
    flat = flat_type(dtype)
    if function in ("count_distinct", "approx_distinct") and is_nested(flat):
        raise PlanError(
            f"on a stream {function} takes no lists or structs, got {dtype}; count their parts, or "
            "a text made of them"
        )
    return flat


def _given(values: pa.Array, dtype: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return as_type(values, dtype)


def as_type(values: pa.Array, dtype: pa.DataType) -> pa.Array:
    """The same values as `dtype`, also as a dictionary; floats may lose digits."""
    if values.type.equals(dtype):
        return values
    if t.is_dictionary(dtype):
        return values.cast(dtype.value_type).dictionary_encode().cast(dtype)
    return values.cast(dtype, safe=not t.is_floating(dtype))


def _accumulator(bound: _Bound) -> Accumulator:
    if bound.agg.function in RESULTS:
        of_one = RESULTS[bound.agg.function][0] == 1
        return (Moments if of_one else PairMoments)(bound.agg.function)
    if bound.agg.function not in _MAKE:
        raise InternalError(f"a stream has no aggregate {bound.agg.function}")
    return _MAKE[bound.agg.function](bound)


def _sum(bound: _Bound) -> Accumulator:
    (dtype,) = bound.types
    total = bound.result
    if t.is_decimal(dtype):
        return Sum(kernels.SumDecimal(total.precision, total.scale), bound.name, total)
    if t.is_integer(dtype):
        return Sum(kernels.SumInt64(), bound.name, total)
    return OfKernel(kernels.SumFloat64())


def _mean(bound: _Bound) -> Accumulator:
    (dtype,) = bound.types
    if not t.is_decimal(dtype):
        return mean_of_floats()
    return mean_of_decimals(bound.name, bounded(dtype.precision + 10, dtype.scale), bound.result)


def _extreme(bound: _Bound, *, largest: bool) -> Accumulator:
    if len(bound.types) == 1 and not t.is_null(bound.types[0]):
        return OfKernel((kernels.Max if largest else kernels.Min)(bound.types[0]))
    return Extreme(bound.types, largest=largest)


def _fraction(bound: _Bound) -> float:
    (literal,) = bound.agg.args
    assert isinstance(literal, Literal)
    return float(scalar_of(literal).as_py())


def _quantile(bound: _Bound) -> Accumulator:
    return Values(pa.float64(), partial(interpolated, *method_of(bound.agg.args)))


def _same(lists: pa.Array) -> pa.Array:
    return lists


_MAKE: dict[str, Callable[[_Bound], Accumulator]] = {
    "count": lambda bound: OfKernel(kernels.Count() if bound.types else kernels.CountAll()),
    "count_if": lambda bound: CountTrue(),
    "bool_and": lambda bound: Condition(every=True),
    "bool_or": lambda bound: Condition(every=False),
    "count_distinct": lambda bound: Distinct(bound.types[0]),
    "approx_distinct": lambda bound: ApproximateDistinct(),
    "sum": _sum,
    "mean": _mean,
    "min": partial(_extreme, largest=False),
    "max": partial(_extreme, largest=True),
    "min_by": partial(_extreme, largest=False),
    "max_by": partial(_extreme, largest=True),
    "first": lambda bound: Met("first", bound.types[0]),
    "last": lambda bound: Met("last", bound.types[0]),
    "any_value": lambda bound: Met("any", bound.types[0]),
    "collect": lambda bound: Values(bound.types[0], _same),
    "median": _quantile,
    "quantile": _quantile,
    "approx_quantile": lambda bound: ApproximateQuantile(bound.types[0], _fraction(bound)),
}
