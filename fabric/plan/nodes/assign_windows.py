"""Rows with their windows: `AssignWindows`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.columns import hidden_of, time_type, visible, window_type
from fabric.plan.event_windows import (
    WINDOW_END,
    WINDOW_START,
    Cumulative,
    Sliding,
    Tumbling,
    clock_zone,
    window_text,
)
from fabric.plan.faults import quoted
from fabric.plan.node import Columns, Names, Unary
from fabric.plan.stream import Stream


@dataclass(frozen=True, slots=True)
class AssignWindows(Unary):
    """Each row once for each window that its `time` lies in, with that window's start and end."""

    time: str
    window: Tumbling | Sliding | Cumulative

    WIRE: ClassVar[str] = "assign_windows"
    OF_STREAM: ClassVar[bool] = True
    STREAM_ONLY: ClassVar[tuple[str, str] | None] = (
        "assign_windows", 'write: .group_by_dynamic("time", every="15 minutes")',
    )  # fmt: skip

    def output(self, *inputs: pa.Schema) -> Columns:
        """The columns of the input, then start and end."""
        (schema,) = inputs
        time_type(self, "time", schema, "the time of a window")
        dtype = window_type(self.time, schema)
        clock_zone(self.window, dtype)  # refuses what has none
        for name in (WINDOW_START, WINDOW_END):
            if name in schema.names:
                raise PlanError(
                    f"there is a column {quoted(name)} already; rename it before windows"
                )
        ends = [(WINDOW_START, dtype), (WINDOW_END, dtype)]
        return [*visible(schema), *ends, *hidden_of(schema)]

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """What is wanted of the input, and the time."""
        return ((wanted - {WINDOW_START, WINDOW_END}) | {self.time},)

    def stream(self, *below: Any) -> Stream:
        """The ends of windows are times, too."""
        (stream,) = below
        stream.check_append_only("assign_windows")
        stream.check_timed("a window")
        stream.check_time(self.time)
        found: Stream = replace(stream, ends=stream.ends | {WINDOW_END}, split=False)
        return found

    def text(self) -> str:
        """``.assign_windows(tumbling("1 hour"))``."""
        return f".assign_windows({window_text(self.window)})"
