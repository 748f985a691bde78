"""Window functions inside expressions become columns of nodes below.

One job: expressions without a window function, over an input that has their values as columns.

    Select(x - __over_0 as off)            one Window node for each partition; what is over
      Window(mean(x) over k as __over_0)   a window function again lies above it
        X
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.faults import ExprFault
from fabric.plan.functions import WINDOW_FUNCTIONS
from fabric.plan.mend import call_around, free_name, moved_call, of_fault
from fabric.plan.nodes.window import infer_over
from fabric.plan.printer import expr_text
from fabric.plan.python import column_text
from fabric.plan.schema import schema_of, type_of
from fabric.plan.walk import fold, walk_expr, with_expr_children


class Windowed(NamedTuple):
    """`exprs` over `node`, which has the columns `added` more than the input."""

    node: nodes.Node
    exprs: tuple[plan.Expr, ...]
    added: tuple[str, ...]


def has_window(expr: plan.Expr) -> bool:
    """Whether a window function is anywhere in `expr`."""
    return any(isinstance(part, plan.Over) for part in walk_expr(expr))


def windowed(source: nodes.Node, exprs: Sequence[plan.Expr], path: str) -> Windowed:
    """`exprs` with every window function replaced by a column of a node above `source`."""
    for expr in exprs:
        _check_open(expr)
    _check_calls(source, exprs)
    taken = list(schema_of(source).names)
    added: list[str] = []
    mended = tuple(exprs)
    while found := _innermost(mended):
        names: dict[plan.Over, str] = {}
        for over in found:
            names[over] = free_name(f"__over_{len(added)}", taken)
            taken.append(names[over])
            added.append(names[over])
        for group in _by_partition(names):
            source = nodes.Window(source, group, path=path)
        mended = tuple(_replaced(expr, names) for expr in mended)
    return Windowed(source, mended, tuple(added))


def plain_windows(exprs: Sequence[plan.Expr]) -> bool:
    """Whether `exprs` can be the columns of one `Window` node as they are."""
    overs = [expr.input if isinstance(expr, plan.Alias) else expr for expr in exprs]
    first = overs[0] if overs else None
    return isinstance(first, plan.Over) and all(
        isinstance(over, plan.Over)
        and over.partition_by == first.partition_by
        and sum(isinstance(part, plan.Over) for part in walk_expr(over)) == 1
        for over in overs
    )


def check_open(exprs: Sequence[plan.Expr]) -> None:
    """Refuse a window function that still waits for its ``.over(...)``."""
    for expr in exprs:
        _check_open(expr)


def _check_open(expr: plan.Expr) -> None:
    closed = {id(part.input) for part in walk_expr(expr) if isinstance(part, plan.Over)}
    for part in walk_expr(expr):
        if isinstance(part, plan.Agg):
            if part.function in WINDOW_FUNCTIONS and id(part) not in closed:
                raise _no_order(expr, plan.Over(part))
        elif isinstance(part, plan.Over) and not part.order_by and _needs_order(part):
            raise _no_order(expr, part)


def _check_calls(source: nodes.Node, exprs: Sequence[plan.Expr]) -> None:
    """Refuse in the words of the user's call what a column made for a part of it would refuse."""
    schema = schema_of(source)
    for expr in exprs:
        for over in _innermost([expr]):
            try:
                infer_over(over, schema)
            except ExprFault as fault:
                if (key := _time_of_range(fault.old)) is not None:
                    raise PlanError(
                        f"a range of time needs a time to order by, and {expr_text(key)} is "
                        f"{type_of(key, schema)}; give numbers, as in range=(-2, 0), or cast it: "
                        f"{expr_text(plan.Cast(key, pa.timestamp('us')))}"
                    ) from None
                if fault.old is not None and call_around((expr,), fault.old) is not None:
                    right = partial(_if_right, schema)
                    raise of_fault(fault, nodes.Select(source, (expr,)), right) from None


def _time_of_range(part: plan.Expr | None) -> plan.Expr | None:
    """The key of ``over(…, range=("-1h", 0))``, if `part` is what takes times only there."""
    match part:
        case plan.Call(function="as_time_of", args=(key, other)) if key is other:
            return key
    return None


def _if_right(schema: pa.Schema, line: nodes.Node) -> nodes.Node | None:
    try:
        for over in _innermost(line.expressions):
            infer_over(over, schema)
    except ExprFault:
        return None
    return line


def _needs_order(over: plan.Over) -> bool:
    function = WINDOW_FUNCTIONS.get(over.input.function)
    if function is not None and (function.needs_order or over.frame is None):
        return True
    return over.frame is not None and (over.frame.start, over.frame.end) != (None, None)


def _no_order(expr: plan.Expr, over: plan.Over) -> PlanError:
    agg = over.input
    if (call := call_around((expr,), agg)) is not None:
        given = ", ".join([*map(column_text, over.partition_by), 'order_by="..."'])
        return PlanError(
            f"{call.name} needs an order, rows have none by themselves; write for example: "
            f"{call.text()}.over({given}) with the column to order by"
        )
    text = expr_text(_ordered(expr))
    known = agg.function in WINDOW_FUNCTIONS
    named = agg.function if known else "a value over some rows (.cum_sum, .rolling_mean)"
    return PlanError(
        f"{named} needs an order, rows have none by themselves; write for example: "
        f"{text if len(text) <= 200 else expr_text(_ordered(agg))} with the column to order by"
    )


def _ordered(expr: plan.Expr) -> plan.Expr:
    """`expr` with an order for the user to fill in, wherever one is needed."""
    order = (plan.SortKey(plan.Column("..."), False, False),)
    inside = {id(part.input) for part in walk_expr(expr) if isinstance(part, plan.Over)}

    def one(part: plan.Expr, below: tuple[plan.Expr, ...]) -> plan.Expr:
        whole = with_expr_children(part, below)
        if isinstance(whole, plan.Over) and not whole.order_by and _needs_order(whole):
            return replace(whole, order_by=order)
        if isinstance(whole, plan.Agg) and whole.function in WINDOW_FUNCTIONS:
            return whole if id(part) in inside else plan.Over(whole, (), order)
        return whole

    return fold(expr, one)


def _innermost(exprs: Sequence[plan.Expr]) -> list[plan.Over]:
    """The different window functions that have none inside them, in reading order."""
    found: dict[plan.Over, None] = {}
    for expr in exprs:

        def inside(part: plan.Expr, below: tuple[bool, ...]) -> bool:
            has = any(below)
            if isinstance(part, plan.Over) and not has:
                found.setdefault(part)
            return has or isinstance(part, plan.Over)

        fold(expr, inside)
    return list(found)


def _by_partition(names: dict[plan.Over, str]) -> list[tuple[plan.Expr, ...]]:
    groups: dict[tuple[plan.Expr, ...], list[plan.Expr]] = {}
    for over, name in names.items():
        groups.setdefault(over.partition_by, []).append(plan.Alias(over, name))
    return [tuple(group) for group in groups.values()]


def _replaced(expr: plan.Expr, names: dict[plan.Over, str]) -> plan.Expr:
    """`expr` with columns for window functions, under the name it had."""
    if not has_window(expr):
        return expr
    name = plan.output_name(expr)

    def swap(part: plan.Expr, below: tuple[plan.Expr, ...]) -> plan.Expr:
        if isinstance(part, plan.Over) and part in names:
            return plan.Column(names[part])
        return moved_call(part, with_expr_children(part, below))

    inner = expr.input if isinstance(expr, plan.Alias) else expr
    return plan.Alias(fold(inner, swap), name)
