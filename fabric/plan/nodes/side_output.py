"""Rows that a step put out aside: `SideOutput`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.faults import listed, nearest, quoted
from fabric.plan.mend import mended
from fabric.plan.node import Unary
from fabric.plan.nodes.groups import Groups
from fabric.plan.nodes.keyed_process import KeyedProcess
from fabric.plan.nodes.map_async import MapAsync
from fabric.plan.nodes.match import Match
from fabric.plan.nodes.stream_join import TwoStreams
from fabric.plan.schema import sides_at
from fabric.plan.stream import BAD, ERRORS, LATE, LATE_LEFT, LATE_RIGHT, TIMEOUT, UNREADABLE, Stream

_LATE_OF_JOIN = ', .join_interval(…, late="side") makes it'
_WAYS = {
    LATE: ', late rows are dropped unless it says late="side"',
    LATE_LEFT: _LATE_OF_JOIN,
    LATE_RIGHT: _LATE_OF_JOIN,
    TIMEOUT: ', .match(…, within=…, timeout="side") makes it',
    BAD: ', .with_watermark(…, on_bad="side") makes it',
    ERRORS: ', .process(…, on_error="side") and .map_async(…, on_error="side") make it',
    UNREADABLE: ', streams.files(…, on_bad="side") and read_kafka(…, on_bad="side") make it',
}


@dataclass(frozen=True, slots=True)
class SideOutput(Unary):
    """The rows that its input puts out aside, under `tag`."""

    tag: str

    WIRE: ClassVar[str] = "side_output"
    OF_STREAM: ClassVar[bool] = True
    STREAM_ONLY: ClassVar[tuple[str, str] | None] = (
        "side_output", "there is none without a stream",
    )  # fmt: skip

    def output(self, *inputs: pa.Schema) -> pa.Schema:
        """The columns of the side."""
        sides = sides_at(self.input)
        if self.tag not in sides:
            raise self._no_side(sides)
        return sides[self.tag]

    def _no_side(self, sides: Mapping[str, pa.Schema]) -> PlanError:
        near = nearest(self.tag, sides)
        line = None if near is None else replace(self, tag=near)
        has = f"it has {listed(sides)}" if sides else "it has none"
        message = f"the step before has no side output {quoted(self.tag)}; {has}"
        return mended(message + (_WAYS.get(self.tag, "") if line is None else ""), line)

    def stream(self, *below: Any) -> Stream:
        """Rows without event time, some of which were behind a watermark."""
        steps = Groups | KeyedProcess | MapAsync | Match | TwoStreams
        return Stream(timed=isinstance(self.input, steps))

    def text(self) -> str:
        """``.side_output("late")``."""
        return f".side_output({quoted(self.tag)})"
