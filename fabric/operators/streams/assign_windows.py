"""Each row once for each window that it lies in.

One job: the operator of `AssignWindows`. It has no state and knows nothing of lateness.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.event_time.windows import Clock, assign
from fabric.operators.contract import Batches, Operator
from fabric.operators.streams.columns import shown
from fabric.operators.streams.windows.shape import event_times, sliced
from fabric.plan.event_windows import WINDOW_END, WINDOW_START, clock_zone
from fabric.plan.nodes import AssignWindows


class AssignWindowsOperator(Operator):
    """Rows with the start and the end of a window behind the columns that users see."""

    def __init__(self, node: AssignWindows, output: pa.Schema, source: pa.Schema) -> None:
        self._output, self._node = output, node
        self._clock = Clock(clock_zone(node.window, source.field(node.time).type))
        self._shown = shown(source).names
        self._hidden = [name for name in source.names if name not in self._shown]

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """The rows of each row's windows, in order of rows."""
        found = assign(self._node.window, self._clock.shown(event_times(batch, self._node.time)))
        if len(found.rows) != batch.num_rows:
            batch = batch.take(pa.array(found.rows))
        windows = [
            pa.array(self._clock.instants(times)).view(self._output.field(name).type)
            for name, times in ((WINDOW_START, found.starts), (WINDOW_END, found.ends))
        ]
        hidden = batch.select(self._hidden).columns
        columns = [*batch.select(self._shown).columns, *windows, *hidden]
        return sliced(pa.RecordBatch.from_arrays(columns, schema=self._output))
