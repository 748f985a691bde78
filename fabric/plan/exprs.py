"""The expressions of a node, changed all at once.

One job: `with_exprs` and `map_exprs`, for checks and optimizer rules; which they are the node says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fabric.plan.expr import Expr
from fabric.plan.node import Node


def with_exprs(node: Node, exprs: Sequence[Expr]) -> Node:
    """`node` with `exprs` in the places of its `expressions`; itself when they are the same."""
    before = node.expressions
    if all(a is b for a, b in zip(before, exprs, strict=True)):
        return node
    return node.with_expressions(tuple(exprs))


def map_exprs(node: Node, fn: Callable[[Expr], Expr]) -> Node:
    """`node` with `fn` applied to each of its whole expressions."""
    return with_exprs(node, tuple(fn(expr) for expr in node.expressions))
