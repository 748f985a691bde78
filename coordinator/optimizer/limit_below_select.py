"""Compute columns only for the rows that are kept.

    Limit(n)          Select(f)
      Select(f)   =>    Limit(n)
        X                 X

Valid because a select keeps number and order of rows; the same for added columns. A limit then
meets the sort below it, which the planner makes a top-n of.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.plan.nodes import Limit, Node, Select, WithColumns


def limit_below_select(node: Node) -> Node:
    """Swap one pair; `node` itself when it does not match."""
    match node:
        case Limit(input=Select(input=source) | WithColumns(input=source) as computed):
            return replace(computed, input=replace(node, input=source))
        case _:
            return node
