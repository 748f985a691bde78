"""When the groups of a `StreamAggregate` are complete: by windows in time, or by a key.

One job: the spans of rows, and rows that come too late for all of theirs. A row is late by its own
watermark where it carries one, and never counts in what the operator has put out already.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fabric.errors import InternalError
from fabric.event_time import BEGINNING, END_OF_TIME
from fabric.event_time.windows import Clock, Framed, Spans, closed, closed_at, spans, step, waits_us
from fabric.operators.snapshots import GroupTimes
from fabric.operators.streams.columns import (
    Ints,
    event_times,
    hashes_of_rows,
    row_watermarks,
    us,
)
from fabric.operators.streams.lifetime import LateRows
from fabric.plan.event_windows import Cumulative, Sliding, Tumbling, clock_zone
from fabric.plan.expr import output_name
from fabric.plan.nodes import StreamAggregate


class Ends:
    """How far an operator has come in time, and which rows are in what it has not put out."""

    def __init__(self, node: StreamAggregate, source: pa.Schema) -> None:
        self._time, self._closes = node.time, node.closes
        self.by_clock = not node.time and not node.closes
        """Whether windows go by processing time."""
        self.lateness_us = 0 if self.by_clock else node.lateness_us
        self.waits_us = waits_us(node.window, self.lateness_us)
        """How long after its end a group may take rows."""
        self.window: Framed | None = None
        if isinstance(node.window, Tumbling | Sliding | Cumulative):
            self.window = node.window
        time = source.field(node.time).type if node.time else None
        self.clock = Clock(None if time is None else clock_zone(node.window, time))
        """By which the ends of windows are counted; times of groups that close by a key are UTC."""
        self.step = 1 if self.window is None else step(self.window)
        self.late = LateRows(aside=node.late == "side")
        self.reached_by = GroupTimes(BEGINNING)
        """The operator's watermark, or the clock; see `GroupTimes` for those of key groups."""
        self._keys = [output_name(key) for key in node.keys]

    @property
    def time_us(self) -> int:
        """The operator's watermark, or the clock."""
        return self.reached_by.least

    def restore(self, times: GroupTimes) -> None:
        """Go on from the times of old tasks; by the clock, from the latest, as rows come later."""
        self.reached_by = GroupTimes(times.most) if self.by_clock else times

    @property
    def passed(self) -> int:
        """Groups that end then or before, by the clock, are complete."""
        return self._shown(closed_at(self.time_us, self.waits_us))

    @property
    def reached(self) -> int:
        """`time_us` by the clock."""
        return self._shown(self.time_us)

    def advance(self, time_us: int) -> bool:
        """Time has come to `time_us`; whether that is news."""
        if time_us <= self.time_us:
            return False
        self.reached_by = self.reached_by.raised(time_us)
        return True

    def next_us(self) -> int:
        """The watermark with which the next window is complete; `BEGINNING` where any may complete
        a group or put rows aside."""
        window = self.window
        if window is None or self.by_clock or self.clock.zoned or self.late.aside:
            return BEGINNING
        return min(self.next_end(self.passed) + self.waits_us, END_OF_TIME)

    def next_end(self, after: int) -> int:
        """The first time after `after` that is an end, by the clock."""
        window = self.window
        if window is None:
            return after + 1
        return after + self.step - (after - window.offset_us - window.size_us) % self.step

    def on_time(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Spans]:
        """The rows that are in some window, and which; the others are set aside."""
        found = self._spans(batch)
        if not found.n_late:
            return batch, found
        late = found.first > found.last
        self.late.put(batch, late)
        return batch.filter(pa.array(~late)), Spans(found.first[~late], found.last[~late], 0)

    def on_time_at(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Ints]:
        """The rows whose window has not been over when it ends right after them, and their times.

        For sessions: a row by itself is a window as long as the gap, which `waits_us` holds.
        """
        times = self.times(batch)
        late = times <= closed(self._known(batch), self.waits_us)
        if not late.any():
            return batch, times
        self.late.put(batch, late)
        return batch.filter(pa.array(~late)), times[~late]

    def times(self, batch: pa.RecordBatch) -> Ints:
        """When each row happened; by the clock, the time it is."""
        if not self.by_clock:
            return event_times(batch, self._time)
        if self.time_us == BEGINNING:
            raise InternalError("rows came before the operator was told the processing time")
        return np.full(batch.num_rows, self.time_us)

    def _spans(self, batch: pa.RecordBatch) -> Spans:
        if self.window is not None:
            carried = self._carried(batch)
            if carried is not None:
                carried = self.clock.shown(np.asarray(closed(carried, self.lateness_us)))
            times = self.clock.shown(self.times(batch))
            reached = self._shown(closed_at(self.time_us, self.lateness_us))
            return spans(self.window, times, carried, reached, 0)
        ends = us(batch.column(self._closes))
        late = ends <= closed(self._known(batch), self.lateness_us)
        n_late = int(np.count_nonzero(late))
        return Spans(np.where(late, ends + 1, ends) if n_late else ends, ends, n_late)

    def _shown(self, time_us: int) -> int:
        return int(self.clock.shown(np.array([time_us]))[0]) if self.clock.zoned else time_us

    def _carried(self, batch: pa.RecordBatch) -> Ints | None:
        """The watermarks that rows carry, or of their key groups where those are further."""
        carried = None if self.by_clock else row_watermarks(batch)
        if not self.reached_by.by_group:
            return carried
        reached = np.asarray(self.reached_by.of(lambda: hashes_of_rows(batch, self._keys)))
        return reached if carried is None else np.maximum(carried, reached)

    def _known(self, batch: pa.RecordBatch) -> Ints | np.int64:
        """What each row is late by."""
        own, carried = np.int64(self.time_us), self._carried(batch)
        return own if carried is None else np.maximum(carried, own)
