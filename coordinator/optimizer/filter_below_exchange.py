"""Filter before the network, not after it.

    Filter(p)          Exchange(k)
      Exchange(k)  =>    Filter(p)
        X                  X

Valid because `p` looks at one row at a time and an exchange changes no row. A forward exchange
sends nothing to another agent, and whoever taps it wants the rows as they are there.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.plan.nodes import Exchange, Filter, Node


def filter_below_exchange(node: Node) -> Node:
    """Swap one pair; `node` itself when it does not match."""
    match node:
        case Filter(input=Exchange(input=source, kind=kind) as exchange) if kind != "forward":
            return replace(exchange, input=replace(node, input=source))
        case _:
            return node
