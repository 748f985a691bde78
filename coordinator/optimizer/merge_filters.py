"""One filter instead of two.

    Filter(q)        Filter(p and q)
      Filter(p)  =>    X
        X

Valid if `q` can't fail: in one predicate it may be computed for rows that `p` keeps away from it.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.optimizer.expressions import conjoin, conjuncts, fits
from fabric.plan.nodes import Filter, Node
from fabric.plan.schema import schema_of
from fabric.plan.total import total


def merge_filters(node: Node) -> Node:
    """Merge one pair; `node` itself when it does not match."""
    match node:
        case Filter(input=Filter(input=source, predicate=inner), predicate=outer):
            merged = conjoin([*conjuncts(inner), *conjuncts(outer)])
            if not total(outer, schema_of(source)) or not fits(merged):
                return node
            return replace(node, input=source, predicate=merged)
        case _:
            return node
