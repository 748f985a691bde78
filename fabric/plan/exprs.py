"""The expressions a node holds, and the node with others in their place.

One job: reach every expression of any node the same way, for checks, codec and optimizer rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from fabric.plan.expr import Alias, Column, Expr, SortKey, Udf, output_name
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
from fabric.plan.streams import (
    Deduplicate,
    KeyedProcess,
    LookupJoin,
    StreamAggregate,
    TopN,
    Watermark,
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
            return _of_stream(node)


def _of_stream(node: Node) -> tuple[Expr, ...]:
    match node:
        case Watermark(function=function) if function is not None:
            return (function,)
        case StreamAggregate(keys=keys, aggs=aggs):
            return (*keys, *aggs)
        case Deduplicate(keys=keys):
            return keys
        case TopN(keys=keys, by=by):
            return (*keys, *(key.input for key in by))
        case KeyedProcess(keys=keys, function=function, states=states):
            return (*keys, function, *(s.function for s in states if s.function is not None))
        case LookupJoin(left_keys=left, right_keys=right):
            return (*left, *right)
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
            return replace(node, keys=_over(keys, exprs))
        case _:
            return _with_stream_exprs(node, tuple(exprs))


def _with_stream_exprs(node: Node, exprs: tuple[Expr, ...]) -> Node:
    match node:
        case Watermark():
            return replace(node, function=_function(exprs[0]))
        case StreamAggregate(keys=keys):
            n_keys = len(keys)
            return replace(node, keys=exprs[:n_keys], aggs=exprs[n_keys:])
        case Deduplicate():
            return replace(node, keys=exprs)
        case TopN(keys=keys, by=by):
            n_keys = len(keys)
            return replace(node, keys=exprs[:n_keys], by=_over(by, exprs[n_keys:]))
        case KeyedProcess(keys=keys, states=states):
            n_keys = len(keys)
            functions = map(_function, exprs[n_keys + 1 :])
            states = tuple(
                state if state.function is None else replace(state, function=next(functions))
                for state in states
            )
            main = _function(exprs[n_keys])
            return replace(node, keys=exprs[:n_keys], function=main, states=states)
        case LookupJoin(left_keys=left):
            n = len(left)
            return replace(node, left_keys=exprs[:n], right_keys=exprs[n:])
        case _:
            return node


def _function(expr: Expr) -> Udf:
    assert isinstance(expr, Udf)  # nothing but another MAC takes its place
    return expr


def _over(keys: Sequence[SortKey], exprs: Sequence[Expr]) -> tuple[SortKey, ...]:
    return tuple(_with_input(key, expr) for key, expr in zip(keys, exprs, strict=True))


def _with_input(key: SortKey, expr: Expr) -> SortKey:
    return SortKey(expr, key.descending, key.nulls_last)


def map_exprs(node: Node, fn: Callable[[Expr], Expr]) -> Node:
    """`node` with `fn` applied to each of its whole expressions."""
    return with_exprs(node, tuple(fn(expr) for expr in exprs_of(node)))


def kept_names(exprs: Iterable[Expr]) -> dict[str, str]:
    """Input columns that `exprs` put out as they are: output name by input name."""
    found: dict[str, str] = {}
    for expr in exprs:
        bare = expr.input if isinstance(expr, Alias) else expr
        if isinstance(bare, Column):
            found.setdefault(bare.name, output_name(expr))
    return found
