"""Filter rows before their lists are taken apart.

    Filter(p(a) and q(e))        Filter(q(e))
      Explode(e)            =>     Explode(e)
        X                            Filter(p(a))
                                       X

Valid for parts that read neither the elements nor their places: they are true for all rows made of
one row, or for none. A part that can fail stays: a row without elements is not looked at above.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.optimizer.expressions import reads_only, split
from fabric.coordinator.optimizer.nodes import filtered, moved_filter
from fabric.plan.nodes import Explode, Filter, Node
from fabric.plan.schema import schema_of


def filter_below_explode(node: Node) -> Node:
    """Swap one pair; `node` itself when nothing can move."""
    match node:
        case Filter(input=Explode(input=source, column=column) as explode, predicate=predicate):
            names = frozenset(schema_of(source).names) - {column}
            moved, kept = split(predicate, schema_of(explode), reads_only(names), only_total=True)
            if not moved:
                return node
            return filtered(node, replace(explode, input=moved_filter(node, source, moved)), kept)
        case _:
            return node
