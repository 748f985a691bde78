"""No select that selects everything as it is.

    Select(a, b)        X(a, b)
      X(a, b)       =>

Valid because both have the same columns in the same order.
"""

from __future__ import annotations

from fabric.plan.expr import Column
from fabric.plan.nodes import Node, Select
from fabric.plan.schema import schema_of


def drop_select(node: Node) -> Node:
    """Drop one select; `node` itself when it does not match."""
    match node:
        case Select(input=source, exprs=exprs):
            names = [expr.name for expr in exprs if isinstance(expr, Column)]
            if len(names) < len(exprs) or names != schema_of(source).names:
                return node
            return source
        case _:
            return node
