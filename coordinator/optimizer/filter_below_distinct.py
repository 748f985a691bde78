"""Filter before looking for different rows, not after.

    Filter(p)      Distinct
      Distinct =>    Filter(p)
        X              X

Valid because equal rows pass or fail `p` together. That is not so for floats inside `p`: -0.0 and
0.0 are one row to a distinct but two texts to a cast, so parts that read a float stay.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.optimizer.expressions import reads_only, split
from fabric.coordinator.optimizer.nodes import exact_columns, filtered, moved_filter
from fabric.plan.nodes import Distinct, Filter, Node
from fabric.plan.schema import schema_of


def filter_below_distinct(node: Node) -> Node:
    """Swap one pair; `node` itself when nothing can move."""
    match node:
        case Filter(input=Distinct(input=source) as distinct, predicate=predicate):
            schema = schema_of(source)
            moved, kept = split(predicate, schema, reads_only(exact_columns(schema)))
            if not moved:
                return node
            below = moved_filter(node, source, moved)
            return filtered(node, replace(distinct, input=below), kept)
        case _:
            return node
