"""One limit instead of two.

    Limit(n, offset)        Limit(min(n, m - offset), offset + skipped)
      Limit(m, skipped) =>    X
        X

Valid because a limit keeps the order of its input.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.plan.nodes import Limit, Node


def merge_limits(node: Node) -> Node:
    """Merge one pair; `node` itself when it does not match."""
    match node:
        case Limit(input=Limit(input=source, n=m, offset=skipped), n=n, offset=offset):
            left = max(0, m - offset)
            return replace(node, input=source, n=min(n, left), offset=offset + skipped)
        case _:
            return node
