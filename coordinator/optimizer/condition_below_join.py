"""Filter a side by what the condition of a join says about it alone.

    Join(left; p(r) and q(l, r))        Join(left; q(l, r))
      L                            =>     L
      R                                   Filter(p(r))
                                            R

Valid for a side whose rows without a partner are not put out: the right one of left and anti joins,
the left one of right joins, both of inner and semi joins. A part that can fail stays, and so does
the last part where a join without keys would be left with none.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.optimizer.expressions import conjoin, conjuncts, reads_only, substitute
from fabric.coordinator.optimizer.nodes import condition_names, condition_schema
from fabric.plan.expr import Column, Expr
from fabric.plan.nodes import Filter, Join, Node
from fabric.plan.total import total

_LEFT = ("inner", "semi", "right")
_RIGHT = ("inner", "semi", "left", "anti")


def condition_below_join(node: Node) -> Node:
    """Move parts to the sides; `node` itself when nothing can move."""
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
    columns = {output: Column(name) for output, name in names.items()}
    predicate = conjoin([substitute(part, columns) for part in parts])
    return Filter(side, predicate, path=f"{path}/filter")
