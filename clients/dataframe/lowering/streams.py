"""Groups of a stream: by window, or with results that change.

    group_by(k).window("1 hour").agg(rate=sum(a) / sum(b))

    Select(k, window_start, window_end, a0 / a1 as rate)
      StreamAggregate(k; sum(a) as a0, sum(b) as a1; 1 hour)

One job: `stream_aggregate`, the aggregate of a stream for an aggregate of a table. Which column is
event time and which groups end is read off the plan below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from fabric.clients.dataframe.aggregates import aggregate
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.event_windows import (
    WINDOW_END,
    WINDOW_START,
    Count,
    Global,
    Trigger,
    Window,
)
from fabric.plan.nodes import Domain, Late, StreamAggregate
from fabric.plan.stream import Stream, closing
from fabric.plan.stream_facts import stream_of

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
