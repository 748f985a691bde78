"""The expressions a node holds, and the node with others in their place.

One job: reach every expression of any node the same way, for checks, codec and optimizer rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fabric.plan.expr import Expr, SortKey
from fabric.plan.nodes import (
    Aggregate,
    Filter,
    Join,
    Node,
    Scan,
    Select,
    Sort,
    Window,
    WithColumns,
)


def exprs_of(node: Node) -> tuple[Expr, ...]:
    """All expressions of `node` itself, in reading order."""
    match node:
        case Scan(predicate=predicate) if predicate is not None:
            return (predicate,)
        case Filter(predicate=predicate):
            return (predicate,)
        case Select(exprs=exprs) | WithColumns(exprs=exprs) | Window(exprs=exprs):
            return exprs
        case Aggregate(keys=keys, aggs=aggs):
            return (*keys, *aggs)
        case Join(left_keys=left, right_keys=right, condition=condition):
            return (*left, *right) if condition is None else (*left, *right, condition)
        case Sort(keys=sort_keys):
            return tuple(key.input for key in sort_keys)
        case _:
            return ()


def with_exprs(node: Node, exprs: Sequence[Expr]) -> Node:
    """`node` with `exprs` in the places of `exprs_of(node)`; itself when they are the same."""
    before = exprs_of(node)
    if all(a is b for a, b in zip(before, exprs, strict=True)):
        return node
    match node:
        case Scan() | Filter():
            return replace(node, predicate=exprs[0])
        case Select() | WithColumns() | Window():
            return replace(node, exprs=tuple(exprs))
        case Aggregate(keys=keys):
            n_keys = len(keys)
            return replace(node, keys=tuple(exprs[:n_keys]), aggs=tuple(exprs[n_keys:]))
        case Join(left_keys=left):
            n = len(left)
            condition = exprs[2 * n] if len(exprs) > 2 * n else None
            right = tuple(exprs[n : 2 * n])
            return replace(node, left_keys=tuple(exprs[:n]), right_keys=right, condition=condition)
        case Sort(keys=keys):
            pairs = zip(keys, exprs, strict=True)
            return replace(node, keys=tuple(_with_input(key, expr) for key, expr in pairs))
        case _:
            return node


def _with_input(key: SortKey, expr: Expr) -> SortKey:
    return SortKey(expr, key.descending, key.nulls_last)


def map_exprs(node: Node, fn: Callable[[Expr], Expr]) -> Node:
    """`node` with `fn` applied to each of its whole expressions."""
    return with_exprs(node, tuple(fn(expr) for expr in exprs_of(node)))
