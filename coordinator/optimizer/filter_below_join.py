"""Filter the sides of a join instead of its output.

    Filter(p(l) and q(r) and s(l, r))        Filter(s(l, r))
      Join                                =>   Join
        L                                        Filter(p(l))
        R                                          L
                                                 Filter(q(r))
                                                   R

The left side may be filtered first whatever the kind of join; the right side only of an inner join
(a left join would turn the dropped rows into nulls; semi and anti put out no right column). A part
that can fail stays above: the join may keep from it the rows on which it would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fabric.coordinator.optimizer.expressions import conjoin, reads_only, split, substitute
from fabric.coordinator.optimizer.nodes import filtered, join_names, moved_filter
from fabric.plan.expr import Column, Expr
from fabric.plan.nodes import Filter, Join, Node
from fabric.plan.schema import schema_of


def filter_below_join(node: Node) -> Node:
    """Move parts to the sides; `node` itself when nothing can move."""
    match node:
        case Filter(input=Join() as join, predicate=predicate):
            schema = schema_of(join)
            left, right = join_names(join)
            to_left, rest = split(predicate, schema, reads_only(left), only_total=True)
            to_right: list[Expr] = []
            if join.how == "inner" and rest:
                to_right, rest = split(conjoin(rest), schema, reads_only(right), only_total=True)
            if not to_left and not to_right:
                return node
            below = replace(
                join,
                left=_side(node, join.left, to_left, left),
                right=_side(node, join.right, to_right, right),
            )
            return filtered(node, below, rest)
        case _:
            return node


def _side(node: Filter, side: Node, parts: Sequence[Expr], names: dict[str, str]) -> Node:
    if not parts:
        return side
    columns = {output: Column(name) for output, name in names.items()}
    return moved_filter(node, side, [substitute(part, columns) for part in parts])
