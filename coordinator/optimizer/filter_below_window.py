"""Filter whole partitions before a window looks at them.

    Filter(p(k) and q(n))             Filter(q(n))
      Window(n over partition k) =>     Window(n over partition k)
        X                                 Filter(p(k))
                                            X

Valid for parts that read only columns by which all functions are partitioned: they are true for all
rows of a partition or for none. No floats (-0.0 and 0.0 are one partition but two texts), and no
part that can fail, since the others may protect it.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.optimizer.expressions import reads_only, split
from fabric.coordinator.optimizer.nodes import exact_columns, filtered, moved_filter
from fabric.plan.expr import Alias, Column, Over
from fabric.plan.nodes import Filter, Node, Window
from fabric.plan.schema import schema_of


def filter_below_window(node: Node) -> Node:
    """Swap one pair; `node` itself when nothing can move."""
    match node:
        case Filter(input=Window(input=source) as window, predicate=predicate):
            exact = exact_columns(schema_of(source))
            names = _partition_columns(window).intersection(exact)
            moved, kept = split(predicate, schema_of(window), reads_only(names), only_total=True)
            if not moved or not names:
                return node
            return filtered(node, replace(window, input=moved_filter(node, source, moved)), kept)
        case _:
            return node


def _partition_columns(window: Window) -> frozenset[str]:
    """Columns among the keys; all functions of a window have the same."""
    first = window.exprs[0]
    over = first.input if isinstance(first, Alias) else first
    keys = over.partition_by if isinstance(over, Over) else ()
    return frozenset(key.name for key in keys if isinstance(key, Column))
