"""Filter before columns are added, not after.

    Filter(p(a) and q(c))         Filter(q(c))
      WithColumns(f(a) as c) =>     WithColumns(f(a) as c)
        X                             Filter(p(a))
                                        X

Valid because adding columns changes no row. Parts that read an added (or replaced) column stay.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.optimizer.expressions import reads_only, split
from fabric.coordinator.optimizer.nodes import filtered, moved_filter
from fabric.plan.expr import output_name
from fabric.plan.nodes import Filter, Node, WithColumns
from fabric.plan.schema import schema_of


def filter_below_with_columns(node: Node) -> Node:
    """Swap one pair; `node` itself when nothing can move."""
    match node:
        case Filter(input=WithColumns(input=source, exprs=exprs) as added, predicate=predicate):
            names = frozenset(schema_of(source).names) - {output_name(expr) for expr in exprs}
            moved, kept = split(predicate, schema_of(added), reads_only(names))
            if not moved:
                return node
            below = moved_filter(node, source, moved)
            return filtered(node, replace(added, input=below), kept)
        case _:
            return node
