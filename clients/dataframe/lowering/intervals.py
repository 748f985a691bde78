"""Joins by ranges: a point in a range, or two ranges that overlap, as the condition of a join."""

from __future__ import annotations

from typing import Any

from fabric.clients.dataframe.lowering.checks import checked_types
from fabric.clients.dataframe.types import PointOrRange, column_node
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.nodes.join import condition_columns
from fabric.plan.python import column_text
from fabric.plan.schema import schema_of
from fabric.plan.walk import rewrite_expr

Side = tuple[plan.Expr, ...]


def interval_condition(
    join: nodes.Join, left: PointOrRange, right: PointOrRange, closed: str
) -> plan.Expr:
    """The condition by which `join` finds points in ranges, or ranges that overlap."""
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
    b = tuple(_by_output_name(join, expr) for expr in b)
    if len(a) == len(b):
        strict = closed != "both"
        return _and(_below(a[0], b[1], strict), _below(b[0], a[1], strict))
    point, (start, end) = (a[0], b) if len(a) == 1 else (b[0], a)
    return _and(
        _below(start, point, closed in ("right", "none")),
        _below(point, end, closed in ("left", "none")),
    )


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


def _and(a: plan.Expr, b: plan.Expr) -> plan.Expr:
    return plan.Call("and", (a, b))
