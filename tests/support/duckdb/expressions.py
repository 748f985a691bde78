"""Plan expressions as DuckDB SQL with Spark's meaning.

One job: columns, constants, case, cast and is_in, and the arguments of aggregates; functions are in
`functions.py`, aggregates in `aggregates.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.expr import Agg, Alias, Call, Case, Cast, Column, Expr, IsIn, Literal, children
from fabric.plan.functions import AGGREGATES, signature
from fabric.plan.literals import scalar_of
from fabric.plan.types import common_of, is_binary, is_string, plain
from fabric.plan.walk import fold
from tests.support.duckdb.aggregates import Rows, aggregate_form
from tests.support.duckdb.casts import cast_sql
from tests.support.duckdb.functions import call_sql
from tests.support.duckdb.types import type_sql

__all__ = ["Columns", "Typed", "aggregate_sql", "coerced", "expr_sql", "literal_sql", "type_sql"]

Columns = Mapping[str, tuple[str, pa.DataType]]


class Typed(NamedTuple):
    """SQL of an expression, and its type in the plan."""

    sql: str
    dtype: pa.DataType


def expr_sql(expr: Expr, columns: Columns) -> Typed:
    """`expr` as SQL; `columns` has the SQL and the type of every column."""

    def one(part: Expr, below: tuple[Typed, ...]) -> Typed:
        match part:
            case Column(name=name):
                return Typed(*columns[name])
            case Literal():
                return Typed(literal_sql(part), part.dtype)
            case Call():
                return _call(part, below)
            case Case():
                return _case(below)
            case Cast(dtype=dtype, try_=try_):
                return Typed(cast_sql(*below[0], dtype, try_), dtype)
            case IsIn(values=values):
                return _is_in(below[0], values)
            case Alias():
                return below[0]
        raise ValueError(f"no SQL for {part}")

    return fold(expr, one)


def coerced(value: Typed, dtype: pa.DataType) -> str:
    """`value` widened to `dtype`, as before a comparison."""
    if plain(value.dtype).equals(dtype):
        return value.sql
    if is_string(value.dtype) and is_binary(dtype):
        return f"encode({value.sql})"
    return f"CAST({value.sql} AS {type_sql(dtype)})"


def literal_sql(literal: Literal) -> str:
    """A constant with its type."""
    dtype = plain(literal.dtype)
    name = type_sql(dtype)
    if literal.value is None:
        return f"CAST(NULL AS {name})"
    scalar = scalar_of(literal)
    if t.is_timestamp(dtype):
        micros = scalar.cast(pa.timestamp("us", dtype.tz)).cast(pa.int64()).as_py()
        return f"make_timestamp({micros})"
    value = scalar.as_py()
    if is_binary(dtype):
        return f"from_hex('{value.hex()}')"
    if is_string(dtype):
        return text_sql(value)
    return f"CAST('{value}' AS {name})"


def text_sql(text: str) -> str:
    """A string constant; SQL text can't hold the character 0."""
    pieces = (piece.replace("'", "''") for piece in text.split("\0"))
    return "(" + " || chr(0) || ".join(f"'{piece}'" for piece in pieces) + ")"


def _call(part: Call, below: Sequence[Typed]) -> Typed:
    literals = [arg if isinstance(arg, Literal) else None for arg in part.args]
    types = signature(part.function, [value.dtype for value in below], literals)
    args = [coerced(value, dtype) for value, dtype in zip(below, types.args, strict=True)]
    return Typed(call_sql(part.function, args, types, literals), types.result)


def _case(below: Sequence[Typed]) -> Typed:
    values = [*below[1::2], below[-1]]
    dtype = common_of(value.dtype for value in values)
    assert dtype is not None
    branches = " ".join(
        f"WHEN {condition.sql} THEN {coerced(value, dtype)}"
        for condition, value in zip(below[:-1:2], below[1::2], strict=True)
    )
    return Typed(f"CASE {branches} ELSE {coerced(below[-1], dtype)} END", dtype)


def _is_in(value: Typed, values: Sequence[Literal]) -> Typed:
    if not values:
        return Typed("FALSE", pa.bool_())
    dtype = common_of([value.dtype, *(v.dtype for v in values)])
    assert dtype is not None
    listed = ", ".join(coerced(Typed(literal_sql(v), v.dtype), dtype) for v in values)
    return Typed(f"({coerced(value, dtype)} IN ({listed}))", pa.bool_())


def aggregate_sql(agg: Agg, columns: Columns, result: pa.DataType, over: str = "") -> str:
    """An aggregate of type `result`: of rows in a group, or of those in the window `over`."""
    settings = AGGREGATES[agg.function].constants
    given = list(enumerate(children(agg)))
    values = [expr_sql(arg, columns) for i, arg in given if i not in settings]
    constants = [arg.value for i, arg in given if i in settings and isinstance(arg, Literal)]
    sql = [value.sql for value in values]
    types = [value.dtype for value in values]
    return aggregate_form(agg.function, Rows(sql, types, constants, result, over))
