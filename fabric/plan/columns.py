"""Columns that nodes put out, checked: names that are free, keys that can be compared, times.

One job: what the nodes share where they say what they put out. A fault of an expression is an
`ExprFault`, everything else a `PlanError` with the line to write instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import PlanError
from fabric.plan.expr import Agg, Alias, Column, Expr, columns_of, output_name
from fabric.plan.faults import ExprFault, listed, nearest, quoted
from fabric.plan.infer import infer
from fabric.plan.mend import free_name, mended
from fabric.plan.node import Columns, Names, Node
from fabric.plan.python import columns_text
from fabric.plan.stream import HIDDEN, HIDDEN_TYPES
from fabric.plan.types import is_groupable, is_nested, is_timestamp, plain
from fabric.plan.walk import walk_expr, with_exprs


def visible(schema: pa.Schema) -> Columns:
    """The columns that users see."""
    return [(field.name, field.type) for field in schema if field.name not in HIDDEN]


def hidden(name: str, is_there: bool) -> Columns:
    """A hidden column, if it is there."""
    return [(name, HIDDEN_TYPES[name])] if is_there else []


def hidden_of(schema: pa.Schema) -> Columns:
    """The columns that users don't see."""
    return [(field.name, field.type) for field in schema if field.name in HIDDEN]


def read_by(exprs: Iterable[Expr]) -> Names:
    """Names of all columns that the expressions read."""
    return frozenset().union(*map(columns_of, exprs))


def wanted_of(exprs: tuple[Expr, ...], wanted: Names) -> tuple[Expr, ...]:
    """The expressions whose columns are wanted; the first when none is: rows need a column."""
    kept = tuple(expr for expr in exprs if output_name(expr) in wanted)
    return (kept or exprs[:1]) if len(kept) < len(exprs) else exprs


def key_columns(keys: Sequence[Expr], schema: pa.Schema, verb: str) -> Columns:
    """Names and types of keys of a stream; refuses aggregates and what can't be compared."""
    columns = []
    for key in keys:
        if any(isinstance(part, Agg) for part in walk_expr(key)):
            raise ExprFault(f"{verb} takes no aggregate as a key", key)
        dtype = infer(key, schema)
        if not is_groupable(dtype):
            raise PlanError(f"{verb} can't compare values of {quoted(output_name(key))}: {dtype}")
        if is_nested(plain(dtype)):
            raise PlanError(
                f"a stream can't be grouped by lists and structs, and {quoted(output_name(key))} "
                f"is {dtype}; use its parts, or a text made of them"
            )
        columns.append((output_name(key), dtype))
    check_once([name for name, _ in columns], f"the keys of {verb} have")
    return columns


def time_type(node: Node, name: str, schema: pa.Schema, what: str) -> pa.DataType:
    """The type of the time column that field `name` of `node` names; it must be a timestamp."""
    column: str = getattr(node, name)
    if column not in schema.names:
        near: dict[str, Any] = {name: nearest(column, schema.names)}
        line = replace(node, **near) if near[name] else None
        known = listed(schema.names)
        raise mended(f"there is no column {quoted(column)} here; the columns are {known}", line)
    dtype = schema.field(column).type
    if not is_timestamp(dtype):
        cast = f'.with_columns(col({quoted(column)}).cast("timestamp[us]"), replace=True)'
        fitting = None if t.is_nested(dtype) or t.is_boolean(dtype) else cast
        raise mended(f"{what} must be a timestamp, and {quoted(column)} is {dtype}", fitting)
    return dtype


def window_type(time: str, schema: pa.Schema) -> pa.DataType:
    """The type of window_start and window_end: microseconds in the zone of the time column."""
    dtype = plain(infer(Column(time), schema)) if time else pa.timestamp("us", "UTC")
    return pa.timestamp("us", dtype.tz)


def check_free(node: Node, name: str, schema: pa.Schema) -> None:
    """Refuse a new column, which field `name` of `node` names, that the input has already."""
    column: str = getattr(node, name)
    if column in schema.names:
        free: dict[str, Any] = {name: free_name(column, schema.names)}
        raise mended(f"there is a column {quoted(column)} already", replace(node, **free))


def check_different(columns: Columns) -> None:
    """Refuse two columns of one name."""
    names = [name for name, _ in columns]
    for name in names:
        if names.count(name) > 1:
            raise PlanError(
                f"two columns would be called {quoted(name)}; give one another name with .alias(…)"
            )


def check_once(names: Sequence[str], what: str) -> None:
    """Refuse a column that is named twice where `what` names it."""
    for name in names:
        if names.count(name) > 1:
            raise PlanError(f"{what} the column {quoted(name)} twice")


def check_no_aggregates(exprs: Sequence[Expr], *, are_columns: bool = False) -> None:
    """Refuse an aggregate outside agg; columns that are nothing else become an agg."""
    for expr in exprs:
        agg = next((part for part in walk_expr(expr) if isinstance(part, Agg)), None)
        if agg is None:
            continue
        inner = [each.input if isinstance(each, Alias) else each for each in exprs]
        alone = are_columns and all(isinstance(each, Agg) for each in inner)
        raise mended(
            f"the aggregate {agg.function} is only allowed in group_by(...).agg(...)",
            f".agg({columns_text(exprs)})" if alone else None,
        )


def check_unique(node: Node, exprs: Sequence[Expr], taken: set[str]) -> None:
    """Refuse two outputs of one name; all but the first get another in the mended line."""
    if (twice := twice_called(exprs, taken)) is not None:
        name, fixed = twice
        line = with_exprs(node, (*fixed, *node.expressions[len(fixed) :]))
        raise mended(f"two columns would be called {quoted(name)}", line)


def twice_called(exprs: Sequence[Expr], taken: Collection[str]) -> tuple[str, list[Expr]] | None:
    """The first name that two of `exprs` have, and all of them with names of their own."""
    names = [output_name(expr) for expr in exprs]
    seen, used, twice = set[str](), {*taken, *names}, []
    fixed = list(exprs)
    for index, (expr, name) in enumerate(zip(exprs, names, strict=True)):
        if name not in seen:
            seen.add(name)
            continue
        twice.append(name)
        inner = expr.input if isinstance(expr, Alias) else expr
        free = free_name(f"{name}_{inner.function}" if isinstance(inner, Agg) else name, used)
        used.add(free)
        fixed[index] = Alias(inner, free)
    return (twice[0], fixed) if twice else None
