"""Joins that are others in a plan: by ranges, and by keys of which null equals null.

A range is a condition: a point lies in it, or it overlaps with another. Null keys become hashes:

    Select(columns under their names)
      Join(hash(keys) == hash(keys), on condition keys <=> keys)
        left
        Select(right columns under names of their own, keys)
"""

from __future__ import annotations

from typing import Any

from fabric.clients.dataframe.expressions.types import PointOrRange, all_of, column_node
from fabric.clients.dataframe.lowering.checks import checked_types
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.mend import free_name
from fabric.plan.nodes.join import JoinColumn, condition_columns, output_columns
from fabric.plan.python import column_text
from fabric.plan.schema import schema_of, type_of
from fabric.plan.types import common_type
from fabric.plan.walk import rewrite_expr

Side = tuple[plan.Expr, ...]


def interval_condition(
    join: nodes.Join, left: PointOrRange, right: PointOrRange, closed: str
) -> plan.Expr:
    """The condition by which `join` finds points in ranges, or ranges that overlap."""
    a, b = sides_of(join, left, right)
    b = tuple(_by_output_name(join, expr) for expr in b)
    if len(a) == len(b):
        strict = closed != "both"
        return all_of([_below(a[0], b[1], strict), _below(b[0], a[1], strict)])
    point, (start, end) = (a[0], b) if len(a) == 1 else (b[0], a)
    return all_of([
        _below(start, point, closed in ("right", "none")),
        _below(point, end, closed in ("left", "none")),
    ])  # fmt: skip


def sides_of(join: nodes.Join, left: PointOrRange, right: PointOrRange) -> tuple[Side, Side]:
    """A point or a range of each side, over its own columns; at least one is a range."""
    a = _side(left, "left")
    b = _side(right, "right")
    if len(a) == len(b) == 1:
        raise PlanError(
            "join_interval needs a range on a side: a pair of columns; write for example: "
            f'.join_interval(other, {_shown(a)}, ("start", "end")); to find the nearest row use '
            "join_asof"
        )
    _check(a, join.left, "left")
    _check(b, join.right, "right")
    return a, b


def _side(given: Any, side: str) -> Side:
    parts = given if isinstance(given, tuple | list) else (given,)
    if len(parts) not in (1, 2):
        raise PlanError(
            f"join_interval takes a column or a pair of columns as {side}, got {len(parts)}"
        )
    return tuple(column_node(part) for part in parts)


def _check(side: Side, node: nodes.Node, name: str) -> None:
    """Refuse what is no column of its side, with the call mended."""

    def line(exprs: Side) -> str:
        pair = (_shown(exprs), "right") if name == "left" else ("left", _shown(exprs))
        return f".join_interval(other, {', '.join(pair)})"

    checked_types(side, schema_of(node), f"join_interval, {name} side", line)


def _shown(side: Side) -> str:
    text = ", ".join(column_text(expr) for expr in side)
    return text if len(side) == 1 else f"({text})"


def _by_output_name(join: nodes.Join, expr: plan.Expr) -> plan.Expr:
    """A right expression over the names its columns have after the join."""
    columns = condition_columns(join, schema_of(join.left), schema_of(join.right))
    names = {column.source: column.name for column in columns if column.right}

    def renamed(part: plan.Expr) -> plan.Expr:
        if isinstance(part, plan.Column):
            return plan.Column(names.get(part.name, part.name))
        return part

    return rewrite_expr(expr, renamed)


def _below(a: plan.Expr, b: plan.Expr, strict: bool) -> plan.Expr:
    return plan.Call("lt" if strict else "le", (a, b))


def null_safe(join: nodes.Join) -> nodes.Node:
    """`join` with keys of which null equals null."""
    if join.condition is not None:
        raise PlanError("join: nulls_equal goes with keys alone; leave where out, and filter")
    left, right = schema_of(join.left), schema_of(join.right)
    columns = output_columns(join, left, right)
    taken = [*left.names, *right.names, *(column.name for column in columns)]
    renamed: dict[str, str] = {}
    for name in right.names:
        renamed[name] = free_name(f"__{name}", [*taken, *renamed.values()])
    keys = [free_name(f"__key_{i}", taken) for i in range(len(join.right_keys))]
    beside = nodes.WithColumns(
        join.right,
        tuple(plan.Alias(key, name) for key, name in zip(join.right_keys, keys, strict=True)),
        path="join_*/keys",
    )
    exprs: tuple[plan.Expr, ...] = (
        *(plan.Alias(plan.Column(name), renamed[name]) for name in right.names),
        *(plan.Column(name) for name in keys),
    )
    other = nodes.Select(beside, exprs, path="join_*/right")
    hashes, equal = [], list[plan.Expr]()
    for mine, name in zip(join.left_keys, keys, strict=True):
        theirs = plan.Column(name)
        types = type_of(mine, left), type_of(theirs, schema_of(other))
        common = common_type(*types)
        if common is None:
            raise PlanError(f"join: {types[0]} and {types[1]} can't be made equal; cast one side")
        pair = (plan.Cast(mine, common), plan.Cast(theirs, common))
        hashes.append(pair)
        equal.append(plan.Call("eq_null_safe", (mine, theirs)))
    made = nodes.Join(
        join.left, other,
        (plan.Call("hash", tuple(mine for mine, _ in hashes)),),
        (plan.Call("hash", tuple(theirs for _, theirs in hashes)),),
        join.how, join.suffix, join.strategy, all_of(equal), path="join_*/join",
    )  # fmt: skip
    if join.how in ("semi", "anti"):
        return made
    return nodes.Select(made, tuple(_output(column, renamed) for column in columns), path="join_*")


def _output(column: JoinColumn, renamed: dict[str, str]) -> plan.Expr:
    found: plan.Expr = plan.Column(renamed[column.source] if column.right else column.source)
    if column.merged is not None:
        other = plan.Column(renamed[column.merged])
        values = (plan.Cast(found, column.dtype), plan.Cast(other, column.dtype))
        found = plan.Call("coalesce", values)
    return plan.Alias(found, column.name)
