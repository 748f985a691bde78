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
from fabric.plan.schema import schema_of


def merge_with_columns(node: Node) -> Node:
    """Merge one pair; `node` itself when it does not match."""
    match node:
        case WithColumns(input=WithColumns() as below, exprs=upper):
            if not _are_independent(node, below):
                return node
            overwrites = node.replace or below.replace
            return replace(
                node, input=below.input, exprs=(*below.exprs, *upper), replace=overwrites
            )
        case _:
            return node


def _are_independent(node: WithColumns, below: WithColumns) -> bool:
    if not (node.replace or below.replace):  # then what is read is either there before or added
        schema = schema_of(below.input)
        reads = frozenset().union(*map(columns_of, node.exprs))
        return all(schema.get_field_index(name) >= 0 for name in reads)
    added = frozenset(map(output_name, below.exprs))
    return not any(output_name(expr) in added or added & columns_of(expr) for expr in node.exprs)
