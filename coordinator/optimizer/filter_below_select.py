"""Filter before columns are computed, not after.

    Filter(p(b) and q(c))               Filter(q(c))
      Select(a as b, f(a) as c)   =>      Select(a as b, f(a) as c)
        X                                   Filter(p(a))
                                              X

Valid because a select changes no row. Only parts that read columns passed through under whatever
name move, so nothing is computed twice.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.optimizer.expressions import passed_through, reads_only, split, substitute
from fabric.coordinator.optimizer.nodes import filtered, moved_filter
from fabric.plan.nodes import Filter, Node, Select
from fabric.plan.schema import schema_of


def filter_below_select(node: Node) -> Node:
    """Swap one pair; `node` itself when nothing can move."""
    match node:
        case Filter(input=Select(input=source, exprs=exprs) as select, predicate=predicate):
            values = passed_through(exprs)
            moved, kept = split(predicate, schema_of(select), reads_only(values))
            if not moved:
                return node
            below = moved_filter(node, source, [substitute(part, values) for part in moved])
            return filtered(node, replace(select, input=below), kept)
        case _:
            return node
