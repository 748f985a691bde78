"""Columns added in one step instead of two.

    WithColumns(g(a) as c)        WithColumns(f(a) as b, g(a) as c)
      WithColumns(f(a) as b) =>     X
        X

Valid if the upper ones read and overwrite nothing that the lower ones add: then both look at the
same rows of the same columns. A frame made column by column would else be as deep as it is wide.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.plan.expr import columns_of, output_name
from fabric.plan.nodes import Node, WithColumns


def merge_with_columns(node: Node) -> Node:
    """Merge one pair; `node` itself when it does not match."""
    match node:
        case WithColumns(input=WithColumns() as below, exprs=upper):
            added = frozenset(map(output_name, below.exprs))
            if any(output_name(expr) in added or added & columns_of(expr) for expr in upper):
                return node
            overwrites = node.replace or below.replace
            return replace(
                node, input=below.input, exprs=(*below.exprs, *upper), replace=overwrites
            )
        case _:
            return node
