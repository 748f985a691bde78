"""No rows without a partner where a filter above drops them all.

    Filter(p(r))        Filter(p(r))
      Join(left)   =>     Join(inner)
        L                   L
        R                   R

Valid if `p` is not true when all columns of the right side are null, as ``r > 1`` and ``r is not
null`` are not. Likewise a right join for the left side; a full join becomes a left, right or inner
one. Columns and their types must stay: a merged key of a right or full join is another column.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.optimizer.expressions import conjuncts
from fabric.coordinator.optimizer.nodes import exact_columns, join_names
from fabric.plan.expr import Call, Cast, Column, Expr, IsIn
from fabric.plan.nodes import Filter, Join, JoinHow, Node
from fabric.plan.nodes.join import merged_keys
from fabric.plan.schema import schema_of

_STRICT = frozenset(
    (
        "eq", "ne", "lt", "le", "gt", "ge", "add", "subtract", "multiply", "divide", "floor_divide",
        "modulo", "floor_quotient", "floor_remainder", "exact_power", "negate", "abs", "not",
        "upper", "lower", "length", "trim", "contains", "starts_with", "ends_with", "substring",
        "year", "month", "day",
    )
)  # fmt: skip
"""Null whenever an argument is null."""


def outer_to_inner(node: Node) -> Node:
    """Change the kind of one join; `node` itself when it does not match."""
    match node:
        case Filter(input=Join(how="left" | "right" | "full") as join, predicate=predicate):
            how = _without_lone_rows(join, predicate)
            if how == join.how or not _keys_stay(join, how):
                return node
            return replace(node, input=replace(join, how=how))
        case _:
            return node


def _without_lone_rows(join: Join, predicate: Expr) -> JoinHow:
    """The kind of join that puts out all rows which `predicate` can keep."""
    left, right = join_names(join)
    merged = merged_keys(join)
    needs_left = rejects_nulls(predicate, frozenset(left) - merged)
    needs_right = rejects_nulls(predicate, frozenset(right) - merged)
    no_lone_left = join.how == "right" or needs_right
    no_lone_right = join.how == "left" or needs_left
    if no_lone_left and no_lone_right:
        return "inner"
    if no_lone_left:
        return "right"
    return "left" if no_lone_right else "full"


def _keys_stay(join: Join, how: JoinHow) -> bool:
    """Whether merged keys keep their types and values: equal floats may be two zeros."""
    merged = merged_keys(join)
    exact = set(exact_columns(schema_of(join.left))) & set(exact_columns(schema_of(join.right)))
    return merged <= exact and schema_of(replace(join, how=how)).equals(schema_of(join))


def rejects_nulls(predicate: Expr, names: frozenset[str]) -> bool:
    """Whether `predicate` is not true when all columns of `names` are null.

    >>> rejects_nulls(Call("gt", (Column("a"), Column("b"))), frozenset("b"))
    True
    """
    return any(_rejects(part, names) for part in conjuncts(predicate))


def _rejects(part: Expr, names: frozenset[str]) -> bool:
    match part:
        case Call(function="or", args=args):
            return all(rejects_nulls(arg, names) for arg in args)
        case Call(function="is_not_null", args=(inner,)):
            return _is_null(inner, names)
        case _:
            return _is_null(part, names)


def _is_null(expr: Expr, names: frozenset[str]) -> bool:
    """Whether `expr` is null when all columns of `names` are."""
    stack = [expr]
    while stack:
        match stack.pop():
            case Call(function=function, args=args) if function in _STRICT:
                stack.extend(args)
            case Cast(input=inner) | IsIn(input=inner):
                stack.append(inner)
            case Column(name=name) if name in names:
                return True
    return False
