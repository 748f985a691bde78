"""Join by keys where the condition asks for equal values.

    Join(; l = r and q)        Join(l = r; q)
      L                   =>     L
      R                          R

Valid for every kind of join, since keys are part of its condition: null equals nothing in both, NaN
equals NaN. Two columns of one name would become one column as keys, so they stay. A part that can
fail stays, and no part overtakes one that can.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.optimizer.expressions import conjoin, conjuncts, reads_only, substitute
from fabric.coordinator.optimizer.nodes import condition_names, condition_schema
from fabric.plan.expr import Call, Column, Expr
from fabric.plan.nodes import Join, Node
from fabric.plan.total import total


def keys_from_condition(node: Node) -> Node:
    """Take keys out of one condition; `node` itself when there are none."""
    match node:
        case Join(condition=condition) if condition is not None:
            parts = conjuncts(condition)
            schema = condition_schema(node)
            pairs = {
                index: pair
                for index, part in enumerate(parts)
                if (pair := key_pair(part, node)) is not None and total(part, schema)
            }
            if not pairs:
                return node
            kept = [part for index, part in enumerate(parts) if index not in pairs]
            return replace(
                node,
                left_keys=(*node.left_keys, *(left for left, _ in pairs.values())),
                right_keys=(*node.right_keys, *(right for _, right in pairs.values())),
                condition=conjoin(kept) if kept else None,
            )
        case _:
            return node


def key_pair(part: Expr, join: Join) -> tuple[Expr, Expr] | None:
    """The left and right key of ``l = r``, or None when it is no such thing."""
    match part:
        case Call(function="eq", args=(one, other)):
            left, right = condition_names(join)
            of_left, of_right = reads_only(left), reads_only(right)
            for a, b in ((one, other), (other, one)):
                if _reads(a) and _reads(b) and of_left(a) and of_right(b):
                    return _unless_merged(_of_side(a, left), _of_side(b, right))
    return None


def _reads(expr: Expr) -> bool:
    return not reads_only(())(expr)


def _of_side(expr: Expr, names: dict[str, str]) -> Expr:
    return substitute(expr, {output: Column(name) for output, name in names.items()})


def _unless_merged(left: Expr, right: Expr) -> tuple[Expr, Expr] | None:
    same = isinstance(left, Column) and isinstance(right, Column) and left.name == right.name
    return None if same else (left, right)
