"""Aggregates in DataFusion, with Spark's result types and overflow.

One job: single, partial and final, all by the same states. A state is one DataFusion aggregate; an
aggregate's result is computed from its states afterwards:

    single    states from rows, results from states
    partial   states from rows
    final     states from states, results from states
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import datafusion
import pyarrow as pa
from datafusion import functions as f
from pyarrow import types as t

from fabric.operators.fragment.keys import normalised
from fabric.operators.fragment.overflow import DECIMAL_SAFE_DIGITS, checked_sum
from fabric.operators.fragment.relation import Output, Relation, select
from fabric.plan.aggregate import state_columns, state_name, unaliased
from fabric.plan.expr import Agg, Call, Case, Cast, Column, Literal, columns_of, output_name
from fabric.plan.nodes import Aggregate
from fabric.plan.schema import schema_of, type_of
from fabric.plan.types import numeric, plain

_F64 = pa.float64()
_I64 = pa.int64()
Build = Callable[..., datafusion.Expr]


@dataclass(frozen=True, slots=True)
class _State:
    """State `kind` of aggregate `index`: `build` aggregates `value`, which has type `dtype`."""

    index: int
    kind: str
    value: datafusion.Expr
    dtype: pa.DataType
    build: Build


def lower_aggregate(node: Aggregate, source: Relation, schema: pa.Schema) -> Relation:
    """`node` over `source`; `schema` is what it puts out."""
    states = [*(_merged if node.phase == "final" else _from_rows)(node, source)]
    keys = [
        Output(normalised(source.expr(key), field.type), field.name, field.type)
        for key, field in zip(node.keys, schema, strict=False)
    ]
    values = [Output(state.value, f"{i}", state.dtype) for i, state in enumerate(states)]
    inputs = select(source.df, [*keys, *values], source.names)
    found = tuple(source.names.fresh() for _ in states)
    columns = [datafusion.col(name) for name in inputs.inner]
    aggs = [
        state.build(column).alias(name)
        for state, column, name in zip(states, columns[len(keys) :], found, strict=True)
    ]
    df = inputs.df.aggregate(columns[: len(keys)], aggs)
    named = {(state.index, state.kind): name for state, name in zip(states, found, strict=True)}
    work = _Results(node, source, df, named)
    grouped = [
        Output(column, key.name, key.dtype) for column, key in zip(columns, keys, strict=False)
    ]
    if node.phase == "partial":
        return select(df, [*grouped, *work.states()], source.names)
    fields = list(schema)[len(keys) :]
    results = [work.result(i, field) for i, field in enumerate(fields)]
    return select(df, [*grouped, *results], source.names)


def _from_rows(node: Aggregate, source: Relation) -> Iterator[_State]:
    for index, item in enumerate(node.aggs):
        agg = unaliased(item)
        if agg.input is None:
            yield _State(index, "count", datafusion.lit(1), _I64, f.count)
            continue
        dtype = plain(type_of(agg.input, source.schema))
        value = source.expr(agg.input)
        match agg.function:
            case "count":
                yield _State(index, "count", value, type_of(agg.input, source.schema), f.count)
            case "count_distinct":
                yield _State(index, "count", normalised(value, dtype), dtype, _count_distinct)
            case "min" | "max" as name:
                build = f.min if name == "min" else f.max
                if not columns_of(agg.input):
                    build = partial(_of_constant, build)
                yield from _extreme_states(index, name, value, dtype, build)
            case "sum":
                yield from _sum_states(index, value, dtype)
            case _:
                yield from _mean_states(index, value, dtype)


def _sum_states(index: int, value: datafusion.Expr, dtype: pa.DataType) -> Iterator[_State]:
    number = _number(dtype)
    if t.is_decimal(number):
        yield _State(index, "sum", value, number, f.sum)
        if number.precision > DECIMAL_SAFE_DIGITS:
            yield _State(index, "near", value, _F64, f.sum)
        return
    yield _State(index, "sum", value, _I64 if t.is_integer(number) else _F64, f.sum)
    if dtype.equals(_I64):
        yield _State(index, "sum_f64", value, _F64, f.sum)


def _extreme_states(
    index: int, kind: str, value: datafusion.Expr, dtype: pa.DataType, build: Build
) -> Iterator[_State]:
    """Floats without NaN, and whether there was one: DataFusion's grouped extremes lose it."""
    if not t.is_floating(dtype):
        yield _State(index, kind, value, dtype, build)
        return
    null = datafusion.lit(pa.scalar(None, dtype))
    same = normalised(value, dtype)
    yield _State(index, kind, f.when(f.isnan(same), null).otherwise(same), dtype, build)
    yield _State(index, "nan", f.isnan(same), pa.bool_(), f.bool_or)


def _number(dtype: pa.DataType) -> pa.DataType:
    """The type a value is added up in; the plan's check let only numbers through."""
    number = _F64 if t.is_null(dtype) else numeric(dtype)
    assert number is not None
    return number


def _mean_states(index: int, value: datafusion.Expr, dtype: pa.DataType) -> Iterator[_State]:
    number = _number(dtype)
    yield _State(index, "count", value, dtype, f.count)
    if t.is_decimal(number):
        yield from _sum_states(index, value, dtype)
    else:
        yield _State(index, "sum", value, _F64, f.sum)


def _merged(node: Aggregate, source: Relation) -> Iterator[_State]:
    """States of the final phase: those of the partial outputs, merged."""
    for index, item in enumerate(node.aggs):
        for kind in ("sum", "sum_f64", "count", "min", "max"):
            name = state_name(node, index, kind)
            at = source.schema.get_field_index(name)
            if at < 0 or not _has_state(unaliased(item), kind):
                continue
            dtype, value = source.schema.field(at).type, source.column(name)
            if kind in ("min", "max"):
                build = f.min if kind == "min" else f.max
                yield from _extreme_states(index, kind, value, dtype, build)
                continue
            yield _State(index, kind, value, dtype, f.sum)
            if kind == "sum" and t.is_decimal(dtype) and dtype.precision > DECIMAL_SAFE_DIGITS:
                yield _State(index, "near", value, _F64, f.sum)


def _has_state(agg: Agg, kind: str) -> bool:
    kinds = {"sum": ("sum", "sum_f64"), "mean": ("sum", "count")}
    return kind in kinds.get(agg.function, (agg.function,))


def _of_constant(build: Build, value: datafusion.Expr) -> datafusion.Expr:
    """With a filter that changes nothing: else DataFusion takes a constant's extreme from
    statistics, and when that is one aggregate of several its own plan breaks."""
    return build(value, filter=value.is_not_null())


def _count_distinct(value: datafusion.Expr) -> datafusion.Expr:
    """With a filter that changes nothing: without one DataFusion takes a constant's distinct count
    from statistics, which say 1 for null and for no rows."""
    return f.count(value, distinct=True, filter=value.is_not_null())


class _Results:
    """Output columns from the states, which are columns `named` of `df`."""

    def __init__(
        self,
        node: Aggregate,
        source: Relation,
        df: datafusion.DataFrame,
        named: dict[tuple[int, str], str],
    ) -> None:
        self._node, self._source, self._named = node, source, named
        types = dict(zip(df.schema().names, df.schema().types, strict=True))
        names = tuple(named.values())
        schema = pa.schema([(name, types[name]) for name in names])
        self._relation = Relation(df, schema, names, source.names)

    def states(self) -> list[Output]:
        """The state columns of the partial phase."""
        columns = state_columns(self._node, schema_of(self._node.input))
        return [
            Output(self._state(column.index, column.kind), column.name, column.dtype)
            for column in columns
        ]

    def result(self, index: int, field: pa.Field) -> Output:
        """The result of aggregate `index`."""
        agg = unaliased(self._node.aggs[index])
        match agg.function:
            case "count" | "count_distinct":
                expr = f.coalesce(self._state(index, "count"), datafusion.lit(0))
            case "sum":
                expr = self._state(index, "sum", "sum_f64")
            case "mean":
                expr = self._mean(index, field.type)
            case name:
                expr = self._state(index, name)
        return Output(expr, field.name, field.type)

    def _state(self, index: int, kind: str, exact: str = "") -> datafusion.Expr:
        """One state; a sum is checked against its float companion where it has one."""
        name = self._named[index, kind]
        column = datafusion.col(name)
        if (nan := self._named.get((index, "nan"))) is not None:
            return self._extreme(kind, column, datafusion.col(nan), name)
        other = self._named.get((index, exact)) or self._named.get((index, "near"))
        if kind != "sum" or other is None:
            return column
        dtype = self._relation.schema.field(name).type
        what = output_name(self._node.aggs[index])
        return checked_sum(dtype, what)(column, datafusion.col(other))

    def _extreme(
        self, kind: str, column: datafusion.Expr, has_nan: datafusion.Expr, name: str
    ) -> datafusion.Expr:
        """NaN is the largest: always the maximum, and the minimum of nothing else."""
        nan = datafusion.lit(pa.scalar(math.nan, self._relation.schema.field(name).type))
        only = has_nan if kind == "max" else has_nan & column.is_null()
        return f.when(only, nan).otherwise(column)

    def _mean(self, index: int, dtype: pa.DataType) -> datafusion.Expr:
        n = self._named[index, "count"]
        if not t.is_decimal(dtype):
            count = f.nullif(datafusion.col(n), datafusion.lit(0)).cast(_F64)
            return datafusion.col(self._named[index, "sum"]) / count
        some = Call("gt", (Column(n), Literal(0, _I64)))
        total = Column(self._named[index, "sum"])
        mean = Call("divide", (total, Cast(Column(n), pa.decimal128(20, 0))))
        return self._relation.expr(Case(((some, Cast(mean, dtype)),), Literal(None, dtype)))
