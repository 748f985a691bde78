"""What the condition of a join says: keys of the join, and filters of its sides.

Each rule looks at a join alone. A term of the condition that needs less than both rows of a pair
leaves the condition for a place where it takes rows away earlier.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.optimizer.expressions import conjoin, conjuncts, reads_only, renamed
from fabric.coordinator.optimizer.nodes import condition_names, condition_schema
from fabric.plan.expr import Call, Column, Expr
from fabric.plan.nodes import Filter, Join, Node
from fabric.plan.total import total

_LEFT = ("inner", "semi", "right")
_RIGHT = ("inner", "semi", "left", "anti")


def keys_from_condition(node: Node) -> Node:
    """Join by keys where the condition asks for equal values.

        Join(; l = r and q)        Join(l = r; q)
          L                   =>     L
          R                          R

    Valid for every kind of join, since keys are part of its condition: null equals nothing in both,
    NaN equals NaN. Two columns of one name would become one column as keys, so they stay. A part
    that can fail stays, and no part overtakes one that can.

    Take keys out of one condition; `node` itself when there are none.
    """
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
                    return _unless_merged(renamed(a, left), renamed(b, right))
    return None


def _reads(expr: Expr) -> bool:
    return not reads_only(())(expr)


def _unless_merged(left: Expr, right: Expr) -> tuple[Expr, Expr] | None:
    same = isinstance(left, Column) and isinstance(right, Column) and left.name == right.name
    return None if same else (left, right)


def condition_below_join(node: Node) -> Node:
    """Filter a side by what the condition of a join says about it alone.

        Join(left; p(r) and q(l, r))        Join(left; q(l, r))
          L                            =>     L
          R                                   Filter(p(r))
                                                R

    Valid for a side whose rows without a partner are not put out: the right one of left and anti
    joins, the left one of right joins, both of inner and semi joins. A part that can fail stays,
    and so does the last part where a join without keys would be left with none.

    Move parts to the sides; `node` itself when nothing can move.
    """
    match node:
        case Join(condition=condition, how=how) if condition is not None:
            left, right = condition_names(node)
            schema = condition_schema(node)
            to_left, to_right, kept = [], [], []
            for part in conjuncts(condition):
                free = total(part, schema)
                if free and how in _LEFT and reads_only(left)(part):
                    to_left.append(part)
                elif free and how in _RIGHT and reads_only(right)(part):
                    to_right.append(part)
                else:
                    kept.append(part)
            if not (to_left or to_right) or not (kept or node.left_keys or how == "inner"):
                return node
            bare = not kept and not node.left_keys
            return replace(
                node,
                left=_filtered(node.left, to_left, left, f"{node.path}/left"),
                right=_filtered(node.right, to_right, right, f"{node.path}/right"),
                condition=conjoin(kept) if kept else None,
                how="cross" if bare else how,
            )
        case _:
            return node


def _filtered(side: Node, parts: list[Expr], names: dict[str, str], path: str) -> Node:
    if not parts:
        return side
    predicate = conjoin([renamed(part, names) for part in parts])
    return Filter(side, predicate, path=f"{path}/filter")
