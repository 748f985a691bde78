"""Each row once for each window that it lies in.

One job: the operator of `AssignWindows`. It has no state and knows nothing of lateness.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fabric.event_time import BEGINNING
from fabric.operators.contract import Batches, Operator
from fabric.operators.streams.columns import shown
from fabric.operators.streams.windows.frames import Frames, expanded
from fabric.operators.streams.windows.shape import event_times, sliced
from fabric.plan.streams import AssignWindows
from fabric.plan.windowing import WINDOW_END, WINDOW_START


class AssignWindowsOperator(Operator):
    """Rows with the start and the end of a window behind the columns that users see."""

    def __init__(self, node: AssignWindows, output: pa.Schema, source: pa.Schema) -> None:
        self._output, self._time = output, node.time
        self._frames = Frames(node.window, 0)
        names = shown(source).names
        self._names = [*names, *(name for name in source.names if name not in names)]
        self._n_shown = len(names)

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """The rows of each row's windows, in order of their ends."""
        spans = self._frames.spans(event_times(batch, self._time), np.int64(BEGINNING))
        rows, ends = expanded(spans.first, spans.last, self._frames.step)
        if len(rows) != batch.num_rows:
            batch = batch.take(pa.array(rows))
        columns = batch.select(self._names).columns
        for place, (name, times) in enumerate(
            ((WINDOW_START, self._frames.starts(ends)), (WINDOW_END, ends)), self._n_shown
        ):
            columns.insert(place, pa.array(times).view(self._output.field(name).type))
        return sliced(pa.RecordBatch.from_arrays(columns, schema=self._output))
