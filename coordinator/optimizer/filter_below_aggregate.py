"""Filter rows of groups that would be dropped, before grouping.

    Filter(p(k) and q(n))           Filter(q(n))
      Aggregate(a as k; sum n) =>     Aggregate(a as k; sum n)
        X                               Filter(p(a))
                                          X

Valid because every row of a group has the same key, and every group has a row. Only keys that are
columns as they are, and no floats (-0.0 and 0.0 are one group but two texts). Without keys there is
one row whatever comes in, so nothing moves.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.optimizer.expressions import passed_through, reads_only, split, substitute
from fabric.coordinator.optimizer.nodes import exact_columns, filtered, moved_filter
from fabric.plan.nodes import Aggregate, Filter, Node
from fabric.plan.schema import schema_of


def filter_below_aggregate(node: Node) -> Node:
    """Swap one pair; `node` itself when nothing can move."""
    match node:
        case Filter(
            input=Aggregate(input=source, keys=keys, phase="single") as grouped, predicate=predicate
        ) if keys:
            exact = exact_columns(schema_of(source))
            found = passed_through(keys)
            values = {name: column for name, column in found.items() if column.name in exact}
            moved, kept = split(predicate, schema_of(grouped), reads_only(values))
            if not moved:
                return node
            below = moved_filter(node, source, [substitute(part, values) for part in moved])
            return filtered(node, replace(grouped, input=below), kept)
        case _:
            return node
