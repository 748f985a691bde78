"""Filter before sorting, not after.

    Filter(p)      Sort(k)
      Sort(k)  =>    Filter(p)
        X              X

Valid because a sort only changes the order of rows, and a filter keeps the order of what it keeps.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.plan.nodes import Filter, Node, Sort


def filter_below_sort(node: Node) -> Node:
    """Swap one pair; `node` itself when it does not match."""
    match node:
        case Filter(input=Sort(input=source) as sort):
            return replace(sort, input=replace(node, input=source))
        case _:
            return node
