"""Filter the sides of a join instead of its output.

    Filter(p(l) and q(r) and s(l, r))        Filter(s(l, r))
      Join                                =>   Join
        L                                        Filter(p(l))
        R                                          L
                                                 Filter(q(r))
                                                   R

A side may be filtered first if none of its rows is put out without a partner because the other side
lost one: the left side of all joins but right and full ones, the right side of inner, cross and
right ones. What is said of keys alone then holds for the other side's keys as well: rows for which
it is not true find no partner. A part that can fail stays above: the join may keep from it the rows
on which it would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fabric.coordinator.optimizer.expressions import conjoin, reads_only, split, substitute
from fabric.coordinator.optimizer.nodes import exact_columns, filtered, join_names, moved_filter
from fabric.plan.expr import Column, Expr, columns_of
from fabric.plan.nodes import Filter, Join, Node
from fabric.plan.schema import schema_of

_LEFT = ("inner", "cross", "left", "semi", "anti")
_RIGHT = ("inner", "cross", "right")


def filter_below_join(node: Node) -> Node:
    """Move parts to the sides; `node` itself when nothing can move."""
    match node:
        case Filter(input=Join() as join, predicate=predicate):
            schema = schema_of(join)
            left, right = join_names(join)
            to_left: list[Expr] = []
            to_right: list[Expr] = []
            rest = [predicate]
            if join.how in _LEFT:
                to_left, rest = split(predicate, schema, reads_only(left), only_total=True)
            if join.how in _RIGHT and rest:
                to_right, rest = split(conjoin(rest), schema, reads_only(right), only_total=True)
            if not to_left and not to_right:
                return node
            on_left, on_right = _of_side(to_left, left), _of_side(to_right, right)
            keys = _equal_columns(join)
            below = replace(
                join,
                left=_side(node, join.left, [*on_left, *_of_keys(on_right, _swapped(keys))]),
                right=_side(node, join.right, [*on_right, *_of_keys(on_left, keys)]),
            )
            return filtered(node, below, rest)
        case _:
            return node


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


def _swapped(names: dict[str, str]) -> dict[str, str]:
    return {value: key for key, value in names.items()}


def _of_keys(parts: Sequence[Expr], names: dict[str, str]) -> list[Expr]:
    """Parts that read key columns only, said of the other side's."""
    return _of_side([part for part in parts if columns_of(part) and reads_only(names)(part)], names)


def _of_side(parts: Sequence[Expr], names: dict[str, str]) -> list[Expr]:
    columns = {output: Column(name) for output, name in names.items()}
    return [substitute(part, columns) for part in parts]


def _side(node: Filter, side: Node, parts: Sequence[Expr]) -> Node:
    return moved_filter(node, side, parts) if parts else side
