"""Nodes of streams as the method calls that make them.

One job: one line of Python for each, for `node_text.py`. In brackets after it stands what follows
from the call: that results change, or that groups are complete at the end of a window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fabric.plan.durations import duration_text
from fabric.plan.expr import Expr
from fabric.plan.faults import quoted
from fabric.plan.place_text import stream_source_text
from fabric.plan.python import column_text, dtype_text, sort_key_text
from fabric.plan.stream_kinds import changes_results
from fabric.plan.streams import (
    BOUND_US,
    EMIT_US,
    AssignWindows,
    Branches,
    Changes,
    Deduplicate,
    KeyedProcess,
    SideOutput,
    StreamAggregate,
    StreamScan,
    TopN,
    Watermark,
)
from fabric.plan.windowing import (
    Count,
    Cumulative,
    Global,
    Session,
    Sliding,
    Tumbling,
    Window,
)


def window_text(window: Window) -> str:
    """A window as `fabric.tumbling` and its like make it.

    >>> print(window_text(Sliding(3_600_000_000, 60_000_000)))
    sliding("1 hour", "1 minute")
    """
    match window:
        case Tumbling(size_us=size, offset_us=offset):
            return f"tumbling({_lengths(size)}{_offset(offset)})"
        case Sliding(size_us=size, slide_us=slide, offset_us=offset):
            return f"sliding({_lengths(size, slide)}{_offset(offset)})"
        case Cumulative(size_us=size, step_us=step, offset_us=offset):
            return f"cumulative({_lengths(size, step)}{_offset(offset)})"
        case Session(gap_us=gap):
            return f"session({_lengths(gap)})"
        case Count(n_rows=n_rows):
            return f"count_window({n_rows})"
        case Global():
            return "global_window()"


def _lengths(*lengths_us: int) -> str:
    return ", ".join(quoted(duration_text(us)) for us in lengths_us)


def _offset(offset_us: int) -> str:
    return f", offset={_lengths(offset_us)}" if offset_us else ""


def _scan(node: StreamScan) -> str:
    text = stream_source_text(node.source)
    if node.columns is None:
        return text
    return f"{text}.select({', '.join(map(quoted, node.columns))})"


def _watermark(node: Watermark) -> str:
    parts = [quoted(node.column)]
    if node.strategy == "bounded" and node.bound_us != BOUND_US:
        parts.append(_lengths(node.bound_us))
    elif node.strategy == "monotonic":
        parts.append('strategy="monotonic"')
    elif node.function is not None:
        parts.append(f"strategy={node.function.name}")
    for name, us in (("idle", node.idle_us), ("future", node.future_us), ("drift", node.drift_us)):
        parts += [] if us is None else [f"{name}={_lengths(us)}"]
    parts += [f"on_bad={quoted(node.on_bad)}"] if node.on_bad != "fail" else []
    parts += [f"every={_lengths(node.emit_us)}"] if node.emit_us != EMIT_US else []
    return f".with_watermark({', '.join(parts)})"


def _aggregate(node: StreamAggregate) -> str:
    text = f".group_by({_columns(node.keys)})"
    if node.window is not None:
        text += f".window({', '.join(_window_arguments(node))})"
    return f"{text}.agg({_columns(node.aggs)}){_results(node)}"


def _window_arguments(node: StreamAggregate) -> list[str]:
    assert node.window is not None
    parts = [window_text(node.window)]
    if not node.time and not isinstance(node.window, Count | Global):
        parts.append('time="processing"')
    trigger = node.trigger
    parts += [] if trigger.early_us is None else [f"early={_lengths(trigger.early_us)}"]
    parts += [] if trigger.count is None else [f"early_rows={trigger.count}"]
    parts += ["updates=True"] if trigger.late == "each" else []
    return parts + _waiting(node)


def _waiting(node: StreamAggregate | Deduplicate | TopN) -> list[str]:
    parts = [f"lateness={_lengths(node.lateness_us)}"] if node.lateness_us else []
    return parts + ([f"late={quoted(node.late)}"] if node.late != "drop" else [])


def _results(node: StreamAggregate | Deduplicate | TopN) -> str:
    if node.closes:
        return f" [complete at {node.closes}]"
    return " [changes]" if changes_results(node) else ""


def _deduplicate(node: Deduplicate) -> str:
    parts = [_columns(node.keys)]
    parts += [] if node.keep == "first" else [f"keep={quoted(node.keep)}"]
    parts += [f"by={quoted(node.by)}"] if node.by else []
    parts += [f"ttl={_lengths(node.ttl_us)}"] if node.ttl_us else []
    return f".deduplicate({', '.join(parts + _waiting(node))}){_results(node)}"


def _top_n(node: TopN) -> str:
    parts = [str(node.n), f"by={_one_or_list([sort_key_text(key) for key in node.by])}"]
    parts += [f"keys={_one_or_list([column_text(k) for k in node.keys])}"] if node.keys else []
    parts += ["ties=True"] if node.ties else []
    parts += [f"rank={quoted(node.rank)}"] if node.rank else []
    return f".top_n({', '.join(parts + _waiting(node))}){_results(node)}"


def _process(node: KeyedProcess) -> str:
    keys = _one_or_list([column_text(key) for key in node.keys])
    columns = ", ".join(f"{quoted(f.name)}: {dtype_text(f.type)}" for f in node.schema)
    parts = [node.function.name, f"keys={keys}", f"schema={{{columns}}}"]
    if node.states:
        parts.append(f"state={{{', '.join(f'{quoted(s.name)}: {s.kind}' for s in node.states)}}}")
    parts += [f"timers={_one_or_list(map(quoted, node.timers))}"] if node.timers else []
    parts += [f"time={quoted(node.time)}"] if node.time else []
    parts += [f"sides={_one_or_list(quoted(t) for t, _ in node.sides)}"] if node.sides else []
    parts += [f"on_error={quoted(node.on_error)}"] if node.on_error != "fail" else []
    return f".process({', '.join(parts)})"


def _columns(exprs: Iterable[Expr]) -> str:
    return ", ".join(column_text(expr) for expr in exprs)


def _one_or_list(texts: Iterable[str]) -> str:
    listed = list(texts)
    return listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]"


def _changes(node: Changes) -> str:
    return f".changes({'' if node.column == 'row_kind' else quoted(node.column)})"


STREAM_TEXT: dict[type, Callable[[Any], str]] = {
    StreamScan: _scan,
    Watermark: _watermark,
    AssignWindows: lambda node: f".assign_windows({window_text(node.window)})",
    StreamAggregate: _aggregate,
    Deduplicate: _deduplicate,
    TopN: _top_n,
    KeyedProcess: _process,
    SideOutput: lambda node: f".side_output({quoted(node.tag)})",
    Changes: _changes,
    Branches: lambda node: f"branches({len(node.inputs)})",
}
