"""What a filter above a join says to the join: its kind, its keys, and filters of its sides.

Each rule looks at a filter and the join right below it. Every term goes as far towards the sides as
the kind of the join allows, so that fewer rows are sent and matched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fabric.coordinator.optimizer.expressions import (
    conjoin,
    conjuncts,
    fits,
    reads_only,
    renamed,
    split,
)
from fabric.coordinator.optimizer.join_chain import sides_of
from fabric.coordinator.optimizer.join_conditions import key_pair
from fabric.coordinator.optimizer.nodes import exact_columns, filtered, join_names, moved_filter
from fabric.coordinator.optimizer.passes import over
from fabric.plan.expr import Call, Cast, Column, Expr, IsIn, columns_of
from fabric.plan.nodes import Filter, Join, JoinHow, Node
from fabric.plan.nodes.join import merged_keys
from fabric.plan.schema import schema_of
from fabric.plan.total import total

_LEFT = ("inner", "cross", "left", "semi", "anti")
_RIGHT = ("inner", "cross", "right")
_STRICT = frozenset(
    (
        "eq", "ne", "lt", "le", "gt", "ge", "add", "subtract", "multiply", "divide", "floor_divide",
        "modulo", "floor_quotient", "floor_remainder", "exact_power", "negate", "abs", "not",
        "upper", "lower", "length", "trim", "contains", "starts_with", "ends_with", "substring",
        "year", "month", "day",
    )
)  # fmt: skip
"""Null whenever an argument is null."""


@over(Filter, Join)
def outer_to_inner(node: Filter, join: Join) -> Node:
    """No rows without a partner where a filter above drops them all.

        Filter(p(r))        Filter(p(r))
          Join(left)   =>     Join(inner)
            L                   L
            R                   R

    Valid if `p` is not true when all columns of the right side are null, as ``r > 1`` and ``r is
    not null`` are not. Likewise a right join for the left side; a full join becomes a left, right
    or inner one. Columns and their types must stay: a merged key of a right or full join is another
    column.

    Change the kind of one join; `node` itself when it does not match.
    """
    if join.how not in ("left", "right", "full"):
        return node
    how = _without_lone_rows(join, node.predicate)
    if how == join.how or not _keys_stay(join, how):
        return node
    return replace(node, input=replace(join, how=how))


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


@over(Filter, Join)
def filter_into_join(node: Filter, join: Join) -> Node:
    """Join by keys where a filter above asks for equal values.

        Filter(l = r and q)        Filter(q)
          Join(inner, cross)  =>     Join(inner; l = r)
            L                          L
            R                          R

    Valid because an inner join puts out the pairs of rows for which its keys are equal. A cross
    join becomes an inner one. The part must not be able to fail, and its columns not have one name
    on both sides: as keys they would become one column.

    Turn equalities into keys; `node` itself when there are none.
    """
    if join.how not in ("inner", "cross"):
        return node
    schema = schema_of(join)
    found, kept = [], []
    for part in conjuncts(node.predicate):
        pair = key_pair(part, join)
        if pair is not None and total(part, schema):
            found.append(pair)
        else:
            kept.append(part)
    if not found:
        return node
    keyed = replace(
        join,
        how="inner",
        left_keys=(*join.left_keys, *(left for left, _ in found)),
        right_keys=(*join.right_keys, *(right for _, right in found)),
    )
    return filtered(node, keyed, kept)


@over(Filter, Join)
def filter_below_join(node: Filter, join: Join) -> Node:
    """Filter the sides of a join instead of its output.

        Filter(p(l) and q(r) and s(l, r))        Filter(s(l, r))
          Join                                =>   Join
            L                                        Filter(p(l))
            R                                          L
                                                     Filter(q(r))
                                                       R

    A side may be filtered first if none of its rows is put out without a partner because the other
    side lost one: the left side of all joins but right and full ones, the right side of inner,
    cross and right ones. What is said of keys alone then holds for the other side's keys as well:
    rows for which it is not true find no partner. A part that can fail stays above: the join may
    keep from it the rows on which it would.

    Move parts to the sides; `node` itself when nothing can move.
    """
    schema = schema_of(join)
    left, right = join_names(join)
    to_left: list[Expr] = []
    to_right: list[Expr] = []
    rest = [node.predicate]
    if join.how in _LEFT:
        to_left, rest = split(node.predicate, schema, reads_only(left), only_total=True)
    if join.how in _RIGHT and rest:
        to_right, rest = split(conjoin(rest), schema, reads_only(right), only_total=True)
    if not to_left and not to_right:
        return node
    on_left, on_right = _of_side(to_left, left), _of_side(to_right, right)
    keys = _equal_columns(join)
    swapped = {value: key for key, value in keys.items()}
    below = replace(
        join,
        left=_side(node, join.left, [*on_left, *_of_keys(on_right, swapped)]),
        right=_side(node, join.right, [*on_right, *_of_keys(on_left, keys)]),
    )
    return filtered(node, below, rest)


def _equal_columns(join: Join) -> dict[str, str]:
    """Left key columns with the right ones whose value is the very same."""
    left, right = schema_of(join.left), schema_of(join.right)
    exact = frozenset(exact_columns(left))
    return {
        a.name: b.name
        for a, b in zip(join.left_keys, join.right_keys, strict=True)
        if isinstance(a, Column)
        and isinstance(b, Column)
        and a.name in exact
        and left.field(a.name).type.equals(right.field(b.name).type)
    }


def _of_keys(parts: Sequence[Expr], names: dict[str, str]) -> list[Expr]:
    """Parts that read key columns only, said of the other side's."""
    return _of_side([part for part in parts if columns_of(part) and reads_only(names)(part)], names)


def _of_side(parts: Sequence[Expr], names: dict[str, str]) -> list[Expr]:
    return [renamed(part, names) for part in parts]


def _side(node: Filter, side: Node, parts: Sequence[Expr]) -> Node:
    return moved_filter(node, side, parts) if parts else side


@over(Filter, Join)
def imply_filters(node: Filter, join: Join) -> Node:
    """What alternatives say about one side, said to that side.

        Filter((l = 1 and r = 2) or (l = 3 and r = 4))        Filter((...) or (...)
          Join                                          =>           and (l = 1 or l = 3)
            L                                                        and (r = 2 or r = 4))
            R                                                 Join

    Valid because a row for which one alternative is true has that alternative's parts true. The new
    parts then go below the join, where they take rows away early. Only parts that can't fail. It
    runs once over a plan, since what it adds moves away.

    Add what is implied; `node` itself when nothing is.
    """
    if join.how not in ("inner", "cross", "semi", "left"):
        return node
    parts = conjuncts(node.predicate)
    schema = schema_of(join)
    sides = sides_of(join)
    added: list[Expr] = []
    for part in parts:
        choices = _alternatives(part)
        if len(choices) > 1 and total(part, schema):
            found = [_implied(choices, names) for names in sides]
            added += [one for one in found if one is not None]
    merged = conjoin([*parts, *added])
    return replace(node, predicate=merged) if added and fits(merged) else node


def _alternatives(part: Expr) -> list[Expr]:
    """The parts of which one must be true."""
    found: list[Expr] = []
    stack = [part]
    while stack:
        match stack.pop():
            case Call(function="or", args=args):
                stack.extend(reversed(args))
            case other:
                found.append(other)
    return found


def _implied(choices: list[Expr], names: frozenset[str]) -> Expr | None:
    """What all alternatives together say about columns of one side, or None."""
    of_side: list[Expr] = []
    n_cut = 0
    for choice in choices:
        parts = conjuncts(choice)
        mine = [part for part in parts if columns_of(part) and columns_of(part) <= names]
        if not mine:
            return None
        n_cut += len(mine) < len(parts)
        of_side.append(conjoin(mine))
    if not n_cut:
        return None  # the whole goes there by itself
    found = of_side[0]
    for other in of_side[1:]:
        found = Call("or", (found, other))
    return found
