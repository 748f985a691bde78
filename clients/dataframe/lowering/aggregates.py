"""Aggregates inside larger expressions: ``(sum("a") / sum("b")).alias("rate")``.

One job: an aggregate node computes aggregates only, so what surrounds them becomes a select above.

    Select(k, a0 / a1 as rate)
      Aggregate(k; sum(a) as a0, sum(b) as a1)
        X

Groups of a stream are the same over a `StreamAggregate`, by window, or with results that change;
which column is event time and which groups end is read off the plan below.

    group_by(k).window("1 hour").agg(rate=sum(a) / sum(b))

    Select(k, window_start, window_end, a0 / a1 as rate)
      StreamAggregate(k; sum(a) as a0, sum(b) as a1; 1 hour)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

from fabric.clients.dataframe.expressions.over import WindowSpec, over
from fabric.clients.dataframe.names import unknown_name
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.columns import twice_called
from fabric.plan.event_windows import (
    WINDOW_END,
    WINDOW_START,
    Count,
    Global,
    Trigger,
    Window,
)
from fabric.plan.faults import quoted
from fabric.plan.mend import free_name, mended
from fabric.plan.nodes import Domain, Late, StreamAggregate
from fabric.plan.python import column_text, expr_text
from fabric.plan.schema import schema_of
from fabric.plan.stream import Stream, closing
from fabric.plan.stream_facts import stream_of
from fabric.plan.walk import walk_expr


def has_aggregate(expr: plan.Expr) -> bool:
    """Whether an aggregate is anywhere in `expr`."""
    return any(isinstance(part, plan.Agg) for part in walk_expr(expr))


def aggregate(
    source: nodes.Node, keys: tuple[plan.Expr, ...], exprs: Sequence[plan.Expr]
) -> nodes.Node:
    """Group `source` by `keys` and put out the keys and `exprs`."""
    names = [plan.output_name(key) for key in keys]
    for expr in exprs:
        _refuse_plain(expr, keys, schema_of(source).names)
        _refuse_mixed(expr, names, schema_of(source).names)
    if all(_is_plain_aggregate(expr) for expr in exprs):
        return nodes.Aggregate(source, keys, tuple(exprs))
    if (twice := twice_called((*keys, *exprs), names)) is not None:
        texts = ", ".join(map(expr_text, twice[1][len(keys) :]))
        raise mended(f"two columns would be called {quoted(twice[0])}", f".agg({texts})")
    found: dict[plan.Agg, str] = {}
    outer = tuple(_above(expr, found) for expr in exprs)
    aggs = tuple(plan.Alias(agg, name) for agg, name in found.items())
    inner = nodes.Aggregate(source, keys, aggs)
    kept = tuple(plan.Column(plan.output_name(key)) for key in keys)
    return nodes.Select(inner, (*kept, *outer))


def _is_plain_aggregate(expr: plan.Expr) -> bool:
    return isinstance(expr.input if isinstance(expr, plan.Alias) else expr, plan.Agg)


def refuse_windows(exprs: Sequence[plan.Expr]) -> None:
    """Refuse window functions as outputs of groups, before they become columns below."""
    for expr in exprs:
        over = {id(part.input) for part in walk_expr(expr) if isinstance(part, plan.Over)}
        aggs = {id(part) for part in walk_expr(expr) if isinstance(part, plan.Agg)}
        if over and aggs <= over:
            raise _one_a_row(expr, "agg")


def _refuse_plain(expr: plan.Expr, keys: tuple[plan.Expr, ...], there: Sequence[str]) -> None:
    """Refuse an output that is no aggregate of the group's rows."""
    if not has_aggregate(expr):
        if missing := sorted(plan.columns_of(expr) - {*there}):
            raise unknown_name(missing[0], there, "agg")
        raise _one_a_row(expr, "agg" if keys else "select with aggregates")


def _one_a_row(expr: plan.Expr, place: str) -> PlanError:
    inner = expr.input if isinstance(expr, plan.Alias) else expr
    most = plan.Agg("max", inner)
    return PlanError(
        f"{place}: {expr_text(inner)} has one value a row, not one a group; aggregate it, for "
        f"example {expr_text(most)}, or make it a key: group_by({column_text(expr)})"
    )


def _refuse_mixed(expr: plan.Expr, keys: Sequence[str], taken: Sequence[str]) -> None:
    """Refuse a row's value beside a group's: ``col("x") - col("x").mean()``."""
    inner = expr.input if isinstance(expr, plan.Alias) else expr
    found: dict[plan.Agg, str] = {}
    rest = _replaced(inner, found)
    for name in sorted(plan.columns_of(rest) - {*keys, *found.values()}):
        column = expr_text(plan.Column(name))
        label = free_name(plan.output_name(expr), taken)
        beside = expr_text(plan.Alias(over(inner, WindowSpec()), label))
        raise PlanError(
            f"{expr_text(inner)} puts a row's {column} beside a value of many rows; for that value "
            f"in every row write: with_columns({beside}); for one row a group aggregate the "
            f"column, for example {column}.max()"
        )


def _above(expr: plan.Expr, found: dict[plan.Agg, str]) -> plan.Expr:
    """`expr` with each aggregate replaced by the column that will hold it; keeps its name."""
    name = plan.output_name(expr)
    return plan.Alias(_replaced(expr.input if isinstance(expr, plan.Alias) else expr, found), name)


def _replaced(expr: plan.Expr, found: dict[plan.Agg, str]) -> plan.Expr:
    match expr:
        case plan.Agg():
            return plan.Column(found.setdefault(expr, f"__agg_{len(found)}"))
        case plan.Call(args=args):
            return replace(expr, args=tuple(_replaced(arg, found) for arg in args))
        case plan.Case(branches=branches, otherwise=otherwise):
            mended = tuple((_replaced(c, found), _replaced(v, found)) for c, v in branches)
            return plan.Case(mended, _replaced(otherwise, found))
        case plan.Cast(input=source) | plan.IsIn(input=source):
            return replace(expr, input=_replaced(source, found))
        case _:
            return expr


DOMAINS: tuple[str, ...] = get_args(Domain)


@dataclass(frozen=True, slots=True)
class Windows:
    """What ``.window(…)`` was given."""

    window: Window
    time: str
    lateness_us: int
    late: Late
    trigger: Trigger


def stream_aggregate(
    source: nodes.Node,
    keys: tuple[plan.Expr, ...],
    exprs: Sequence[plan.Expr],
    windows: Windows | None,
    sets: Sequence[Sequence[bool]] | None = None,
) -> nodes.Node:
    """Group the stream `source` by `keys` and `windows`, and put out both and `exprs`."""
    if sets is not None:
        raise PlanError(
            "rollup, cube and grouping sets are for rows with an end; give a stream one "
            "group_by(…) for each set, and union them"
        )
    made = aggregate(source, keys, exprs)
    inner = made.input if isinstance(made, nodes.Select) else made
    assert isinstance(inner, nodes.Aggregate)
    step = _grouped(inner, windows)
    if not isinstance(made, nodes.Select):
        return step
    shown = [WINDOW_START, WINDOW_END] if step.has_window_columns else []
    n_keys = len(keys)
    columns = map(plan.Column, shown)
    return nodes.Select(step, (*made.exprs[:n_keys], *columns, *made.exprs[n_keys:]))


def _grouped(node: nodes.Aggregate, windows: Windows | None) -> StreamAggregate:
    stream = stream_of(node.input)
    if windows is None:
        stream = stream or Stream()
        closes = closing(node.keys, stream) if stream.timed else ""
        return StreamAggregate(node.input, node.keys, node.aggs, closes=closes)
    return StreamAggregate(
        node.input,
        node.keys,
        node.aggs,
        windows.window,
        event_time(stream, StreamAggregate) if _by_event_time(windows) else "",
        windows.trigger,
        windows.lateness_us,
        windows.late,
    )


def _by_event_time(windows: Windows) -> bool:
    return windows.time == "event" and not isinstance(windows.window, Count | Global)


def event_time(stream: Stream | None, step: type[nodes.Node]) -> str:
    """The column of event time for a `step`; refuses a stream that has none, and a table (None)."""
    if stream is None:
        raise step.needs_stream()
    if stream.time:
        return stream.time
    if stream.timed:
        raise PlanError(
            "the column of event time was left out or changed by an earlier step; keep it as it is"
        )
    raise PlanError(
        "a window of event time needs one; write, right after read_stream: "
        '.with_watermark("ts", "5 seconds") with the column of times; or go by the clock: '
        'time="processing"'
    )
