"""When the groups of a `StreamAggregate` are complete: by windows in time, or by a key.

One job: the spans of rows, and rows that come too late for all of theirs. A row is late by its own
watermark where it carries one, and never counts in what the operator has put out already.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.errors import InternalError
from fabric.event_time import BEGINNING
from fabric.operators.contract import Batches
from fabric.operators.streams.columns import row_watermarks, shown, us
from fabric.operators.streams.windows.frames import Frames, Ints, Spans, closed
from fabric.operators.streams.windows.shape import Shape
from fabric.plan.streams import LATE, StreamAggregate
from fabric.plan.windowing import Cumulative, Sliding, Tumbling


class Ends:
    """The ends of the windows of rows, for windows of fixed length and for groups that close."""

    def __init__(self, node: StreamAggregate, shape: Shape) -> None:
        self._shape, self._closes = shape, node.closes
        self._by_clock = not node.time and not node.closes
        self.lateness_us = 0 if self._by_clock else node.lateness_us
        self.frames: Frames | None = None
        if isinstance(node.window, Tumbling | Sliding | Cumulative):
            self.frames = Frames(node.window, self.lateness_us)
        self._late = LateRows(aside=node.late == "side")
        self.time_us = BEGINNING
        """How far the operator has come: its watermark, or the clock."""

    @property
    def by_clock(self) -> bool:
        """Whether windows go by processing time."""
        return self._by_clock

    @property
    def late(self) -> LateRows:
        """Rows that were late for all their windows."""
        return self._late

    @property
    def passed(self) -> int:
        """Windows that end then or before are complete."""
        return int(closed(np.int64(self.time_us), self.lateness_us))

    @property
    def step(self) -> int:
        """From one window's end to the next."""
        return 1 if self.frames is None else self.frames.step

    def advance(self, time_us: int) -> bool:
        """Time has come to `time_us`; whether that is news."""
        if time_us <= self.time_us:
            return False
        self.time_us = time_us
        return True

    def on_time(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Spans]:
        """The rows that are in some window, and which; the others are set aside."""
        spans = self._spans(batch)
        late = spans.first > spans.last
        if not late.any():
            return batch, spans
        kept = ~late
        self._late.put(batch, late)
        return batch.filter(pa.array(kept)), Spans(spans.first[kept], spans.last[kept])

    def _spans(self, batch: pa.RecordBatch) -> Spans:
        known = self.watermarks(batch)
        if self.frames is not None:
            return self.frames.spans(self.times(batch), known)
        ends = us(batch.column(self._closes))
        late = ends <= closed(known, self.lateness_us)
        return Spans(np.where(late, 1, ends), np.where(late, 0, ends)) if late.any() else Spans(
            ends, ends)  # fmt: skip

    def watermarks(self, batch: pa.RecordBatch) -> Ints | np.int64:
        """What each row is late by."""
        own = np.int64(self.time_us)
        carried = None if self._by_clock else row_watermarks(batch)
        return own if carried is None else np.maximum(carried, own)

    def times(self, batch: pa.RecordBatch) -> Ints:
        """When each row happened; by the clock, the time it is."""
        if not self._by_clock:
            return self._shape.times(batch)
        if self.time_us == BEGINNING:
            raise InternalError("rows came before the operator was told the processing time")
        return np.full(batch.num_rows, self.time_us)


class LateRows:
    """Rows that came too late: counted, and kept for a side output if `aside`."""

    def __init__(self, *, aside: bool) -> None:
        self._aside, self._rows = aside, list[pa.RecordBatch]()
        self.n_rows = 0

    def put(self, batch: pa.RecordBatch, late: NDArray[np.bool_]) -> None:
        """The rows of a mask."""
        self.n_rows += int(np.count_nonzero(late))
        if self._aside:
            self._rows.append(batch.filter(pa.array(late)).select(shown(batch.schema).names))

    def take(self) -> dict[str, Batches]:
        """Those since the last call, under their tag."""
        rows, self._rows = self._rows, []
        return {LATE: rows} if rows else {}
