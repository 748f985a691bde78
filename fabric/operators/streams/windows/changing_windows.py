"""Windows of fixed length that give results before they close, or again when late rows come.

One job: `ChangingWindows`. Each row is added up once in each of its windows, because each of them
may be shown by itself.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.event_time import END_OF_TIME
from fabric.event_time.windows import expanded, starts
from fabric.operators.contract import Batches
from fabric.operators.streams.accumulators import Ids
from fabric.operators.streams.windows.changing import UNSHOWN, Changing
from fabric.plan.streams import StreamAggregate

Ints = NDArray[np.int64]
_END = "end"


class ChangingWindows(Changing):
    """Tumbling, sliding and cumulative windows with a trigger that shows them more than once."""

    def __init__(self, node: StreamAggregate, output: pa.Schema, source: pa.Schema) -> None:
        super().__init__(node, output, source, marks=[_END], notes=[UNSHOWN])
        self._each = node.trigger.late == "each"
        self._next = END_OF_TIME  # no window that time has something to do with ends before

    def windows(self, ids: Ids) -> tuple[Ints, Ints]:
        """See `Changing`."""
        assert self.ends.window is not None
        ends = self._ends(ids)
        clock = self.ends.clock
        return clock.instants(starts(self.ends.window, ends)), clock.instants(ends)

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """Add rows up; show what the trigger says."""
        batch, spans = self.ends.on_time(batch)
        if not batch.num_rows:
            return []
        rows, ends = expanded(spans.first, spans.last, self.ends.step)
        if len(rows) != batch.num_rows:
            batch = batch.take(pa.array(rows))
        ids = self.state.number(self.shape.key_columns(batch), {_END: ends})
        self._next = min(self._next, int(ends.min()))
        touched = self.add(ids, batch).touched
        return self.show(touched[self.after_rows(touched, self._ends(touched))])

    def passed_time(self) -> Batches:
        """See `Windowed`."""
        passed, reached = self.ends.passed, self.ends.reached
        if self._next > (reached if self._each else passed):
            return []
        ids = self.state.ids()
        ends = self._ends(ids)
        is_closed = ends <= passed
        is_shown = ends <= reached if self._each else is_closed
        found = self.show(ids[is_shown])
        self.state.remove(ids[is_closed])
        self._plan(ends[~is_closed])
        return found

    def restored(self) -> None:
        """See `Windowed`."""
        self._plan(self._ends(self.state.ids()))

    def _plan(self, ends: Ints) -> None:
        self._next = int(ends.min()) if len(ends) else END_OF_TIME

    def _ends(self, ids: Ids) -> Ints:
        return self.state.marks[_END].values[ids]
