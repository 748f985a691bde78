"""Event time of a stream: `Watermark`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.columns import time_type, visible
from fabric.plan.durations import DURATION_US_MAX, duration_text, lengths_text
from fabric.plan.expr import Udf
from fabric.plan.faults import quoted
from fabric.plan.node import Names, Role, Unary
from fabric.plan.stream import BAD, WATERMARK, OnBad, Stream

BOUND_US, EMIT_US = 5_000_000, 200_000
Strategy = Literal["bounded", "monotonic", "custom"]


@dataclass(frozen=True, slots=True)
class Watermark(Unary):
    """Say that `column` is the time of each row, and how far behind rows may come, by split.

    "bounded": the most time so far less `bound_us`; "monotonic": rows come in order; "custom":
    `function` says. A split without rows for `idle_us` holds nothing back (None: it does).
    `drift_us` holds back splits that are that far ahead of the slowest.

    A row without a time, or more than `future_us` ahead of all earlier rows of its split, is bad:
    "fail", "skip" or "side" (tag `BAD`). It moves event time on by `future_us` at most; a split's
    first row is compared with the clock. With `rows`, which only the planner sets, each row carries
    its own watermark.
    """

    column: str
    bound_us: int = BOUND_US
    idle_us: int | None = None
    future_us: int | None = None
    strategy: Strategy = "bounded"
    function: Udf | None = None
    on_bad: OnBad = "fail"
    emit_us: int = EMIT_US
    drift_us: int | None = None
    rows: bool = False

    WIRE: ClassVar[str] = "watermark"
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("function",)
    OF_STREAM: ClassVar[bool] = True
    ROLE: ClassVar[Role] = "time"
    CHOICES: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "rows": (False,),
        "strategy": get_args(Strategy),
        "on_bad": get_args(OnBad),
    }
    BOUNDS: ClassVar[Mapping[str, float]] = dict.fromkeys(
        ("bound_us", "idle_us", "future_us", "emit_us", "drift_us"), DURATION_US_MAX
    )
    STREAM_ONLY: ClassVar[tuple[str, str] | None] = (
        "with_watermark", "leave it out, or read them with fabric.streams.replay(…)",
    )  # fmt: skip

    def output(self, *inputs: pa.Schema) -> pa.Schema:
        """The columns of the input."""
        (schema,) = inputs
        time_type(self, "column", schema, "event time")
        for name, us, least in (
            ("bound", self.bound_us, 0), ("idle", self.idle_us, 1), ("future", self.future_us, 0),
            ("drift", self.drift_us, 0), ("every", self.emit_us, 1),
        ):  # fmt: skip
            if us is not None and us < least:
                raise PlanError(
                    f"with_watermark needs {name} of at least {duration_text(least)}, got "
                    f"{duration_text(us)}"
                )
        if (self.strategy == "custom") != (self.function is not None):
            raise PlanError("a custom watermark needs a function, and only a custom one takes it")
        return schema.append(pa.field(WATERMARK, pa.int64())) if self.rows else schema

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """What is wanted, and event time."""
        return (wanted | {self.column},)

    def side_schemas(self, rows: pa.Schema) -> Mapping[str, pa.Schema]:
        """Bad rows, if they go aside."""
        return {BAD: pa.schema(visible(rows))} if self.on_bad == "side" else {}

    def stream(self, *below: Any) -> Stream:
        """From here on rows have event time."""
        (stream,) = below
        if stream.timed:
            raise PlanError(
                f"event time is {quoted(stream.time)} already; leave one with_watermark out"
                if stream.time
                else "there is a with_watermark already; leave one out"
            )
        if not stream.split:
            raise PlanError(
                "with_watermark goes by the splits of a source, and they are mixed here; write it "
                "right after each read_stream, before union, exchange and group_by"
            )
        found: Stream = replace(stream, time=self.column, timed=True)
        return found

    def text(self) -> str:
        """``.with_watermark("ts", "5 seconds")``."""
        parts = [quoted(self.column)]
        if self.strategy == "bounded" and self.bound_us != BOUND_US:
            parts.append(lengths_text(self.bound_us))
        elif self.strategy == "monotonic":
            parts.append('strategy="monotonic"')
        elif self.function is not None:
            parts.append(f"strategy={self.function.name}")
        for name, us in (
            ("idle", self.idle_us), ("future", self.future_us), ("drift", self.drift_us),
        ):  # fmt: skip
            parts += [] if us is None else [f"{name}={lengths_text(us)}"]
        parts += [f"on_bad={quoted(self.on_bad)}"] if self.on_bad != "fail" else []
        parts += [f"every={lengths_text(self.emit_us)}"] if self.emit_us != EMIT_US else []
        return f".with_watermark({', '.join(parts)})"
