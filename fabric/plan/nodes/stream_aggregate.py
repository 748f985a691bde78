"""Aggregates of a stream, with and without windows: `StreamAggregate`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.columns import (
    check_different,
    hidden,
    key_columns,
    read_by,
    time_type,
    wanted_of,
    window_type,
)
from fabric.plan.durations import lengths_text
from fabric.plan.event_windows import (
    WINDOW_END,
    WINDOW_START,
    Count,
    Global,
    Trigger,
    Window,
    clock_zone,
    window_text,
)
from fabric.plan.expr import Agg, Alias, Expr, output_name
from fabric.plan.faults import ExprFault
from fabric.plan.infer import infer, infer_agg
from fabric.plan.node import Columns, Names, Node
from fabric.plan.nodes.groups import Groups, Late
from fabric.plan.python import columns_text
from fabric.plan.stream import KIND, Stream
from fabric.plan.types import is_nested, plain

ON_CLOSE = Trigger()


@dataclass(frozen=True, slots=True)
class StreamAggregate(Groups):
    """Group by `keys` and `window`, and compute `aggs` (`Agg` or `Alias` of `Agg`).

    `time` is the column that windows go by; "" is the processing time. Output: keys, then for
    windows in time their start and end, then the aggregates. A window takes rows until its end and
    `lateness_us` more; later ones are dropped and counted, or go to side `LATE`.

    Without a window results change as rows come, unless `closes` names a key that is a time, such
    as the end of a window below: its groups are put out once, when the watermark reaches it. Where
    results change, the planner sets `kinds`: then rows have their `KIND`.
    """

    keys: tuple[Expr, ...]
    aggs: tuple[Expr, ...]
    window: Window | None = None
    time: str = ""
    trigger: Trigger = ON_CLOSE
    lateness_us: int = 0
    late: Late = "drop"
    closes: str = ""
    kinds: bool = False

    WIRE: ClassVar[str] = "stream_aggregate"
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("keys", "aggs")
    STREAM_ONLY: ClassVar[tuple[str, str] | None] = (
        "a window", 'write: .group_by_dynamic("time", every="15 minutes")',
    )  # fmt: skip

    @property
    def has_window_columns(self) -> bool:
        """Whether it puts out the start and the end of its windows."""
        return self.window is not None and not isinstance(self.window, Count | Global)

    @property
    def changes_results(self) -> bool:
        """See `Node.changes_results`."""
        if self.window is None:
            return not self.closes
        return self.trigger.emits_changes(self.window, self.lateness_us)

    def output(self, *inputs: pa.Schema) -> Columns:
        """The keys, the window, the results."""
        (schema,) = inputs
        if not self.keys and not self.aggs:
            raise PlanError("an aggregate needs a key or an aggregate, for example .agg(count())")
        columns = key_columns(self.keys, schema, "group_by")
        if self.has_window_columns:
            if self.time:
                time_type(self, "time", schema, "the time of a window")
            dtype = window_type(self.time, schema)
            clock_zone(self.window, dtype)
            columns += [(WINDOW_START, dtype), (WINDOW_END, dtype)]
        for expr in self.aggs:
            inner = expr.input if isinstance(expr, Alias) else expr
            if not isinstance(inner, Agg):
                raise ExprFault("agg takes aggregates only; compute the rest before or after", expr)
            _check_counted(inner, schema)
            columns.append((output_name(expr), infer_agg(inner, schema)))
        check_different(columns)
        self.check_closes([name for name, _ in columns[: len(self.keys)]])
        return columns + hidden(KIND, self.kinds)

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """What the keys and the wanted aggregates read, and the time."""
        read = read_by(self.keys) | read_by(wanted_of(self.aggs, wanted))
        return (read | {self.time} if self.time else read,)

    def without_unwanted(self, wanted: Names) -> Node:
        """Only the wanted aggregates."""
        aggs = wanted_of(self.aggs, wanted)
        return self if aggs is self.aggs else replace(self, aggs=aggs)

    def stream(self, *below: Any) -> Stream:
        """Results are as old as their window; those that change are told apart by their keys."""
        (stream,) = below
        stream.check_append_only("an aggregate")
        window = self.window
        if isinstance(window, Count | Global) and self.time:
            raise PlanError("a window of rows has no time")
        if self.time:
            stream.check_timed("a window of event time")
            stream.check_time(self.time)
        self.check_waits(stream)
        if window is not None and self.closes:
            raise PlanError("a window closes by itself; leave closes out")
        after = Stream(timed=stream.timed, changes=self.changes_results)
        if after.changes:
            windowed = (WINDOW_START, WINDOW_END) if self.has_window_columns else ()
            return replace(after, keys=(*map(output_name, self.keys), *windowed))
        if self.has_window_columns and self.time:
            return replace(after, time=WINDOW_END, ends=frozenset((WINDOW_END,)))
        return replace(after, time=self.closes, ends=frozenset(filter(None, (self.closes,))))

    def text(self) -> str:
        """``.group_by("key").window(tumbling("1 hour")).agg(count())``."""
        text = f".group_by({columns_text(self.keys)})"
        if self.window is not None:
            text += f".window({', '.join(self._window_arguments(self.window))})"
        return f"{text}.agg({columns_text(self.aggs)}){self.results_text()}"

    def _window_arguments(self, window: Window) -> list[str]:
        parts = [window_text(window)]
        if not self.time and not isinstance(window, Count | Global):
            parts.append('time="processing"')
        trigger = self.trigger
        parts += [] if trigger.early_us is None else [f"early={lengths_text(trigger.early_us)}"]
        parts += [] if trigger.count is None else [f"early_rows={trigger.count}"]
        parts += ["updates=True"] if trigger.late == "each" else []
        return parts + self.waiting_text()


def _check_counted(agg: Agg, schema: pa.Schema) -> None:
    if agg.function not in ("count_distinct", "approx_distinct") or agg.input is None:
        return
    dtype = infer(agg.input, schema)
    if is_nested(plain(dtype)):
        raise PlanError(
            f"on a stream {agg.function} takes no lists or structs, got {dtype}; count their "
            "parts, or a text made of them"
        )
