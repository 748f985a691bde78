"""Windows of fixed length that give results before they close, or again when late rows come.

One job: `ChangingWindows`. Each row is added up once in each of its windows, because each of them
may be shown by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.event_time import BEGINNING, END_OF_TIME
from fabric.event_time.windows import expanded, starts
from fabric.operators.contract import Batches
from fabric.operators.streams.accumulators import Ids
from fabric.operators.streams.windows.changing import UNSHOWN, Changing
from fabric.plan.nodes import StreamAggregate

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
        found = self.show(touched[self.after_rows(touched, self._ends(touched))])
        self.make_room(_END)
        return found

    def passed_time(self) -> Batches:
        """See `Windowed`."""
        reached = self.ends.reached if self._each else self.ends.passed
        if self._next > reached:
            return []
        found = self._end(self.state.ids(), reached)
        if self.state.has_cold:
            return found + self.gradually(self._end_cold(reached))
        self._plan(reached)
        return found

    def restored(self) -> None:
        """See `Windowed`."""
        self._plan(BEGINNING)

    def _end(self, ids: Ids, reached: int) -> Batches:
        """Show those of some groups that end up to `reached`; forget those that are complete."""
        ends = self._ends(ids)
        found = self.show(ids[ends <= reached])
        self.state.remove(ids[ends <= self.ends.passed])
        return found

    def _end_cold(self, reached: int) -> Iterator[Batches]:
        """The same of those below memory; what may still change stays above."""
        for rows in self.state.below.due(reached):
            yield self._end(self.state.take(rows), reached)
        self.state.below.expire(reached)
        self.make_room(_END)
        self._plan(reached)

    def _plan(self, reached: int) -> None:
        """Note when time has something to do with a window again."""
        ends = self._ends(self.state.ids())
        self._next = int(ends.min()) if len(ends) else END_OF_TIME
        if self.state.has_cold:
            self._next = min(self._next, self.ends.next_end(reached))

    def _ends(self, ids: Ids) -> Ints:
        return self.state.marks[_END].values[ids]
