"""Windows of so many rows of a key, in the order they come.

One job: `CountWindows`. Keys whose window is not filled by a batch are added up in place; for the
others the batch is cut into windows, of which the first goes on from the state and the last is it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fabric.operators.contract import Batches
from fabric.operators.streams.accumulators import Ids, RowGroups
from fabric.operators.streams.group_values import spans
from fabric.operators.streams.windows.window_operator import WindowOperator
from fabric.plan.event_windows import Count
from fabric.plan.nodes import StreamAggregate

_ROWS = "rows"


class CountWindows(WindowOperator):
    """A result for each key after every `n_rows` of its rows; what is over at the end is lost."""

    def __init__(self, node: StreamAggregate, output: pa.Schema, source: pa.Schema) -> None:
        assert isinstance(node.window, Count)
        self._n_rows = node.window.n_rows
        super().__init__(node, output, source, notes=[_ROWS])

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """Add rows up; returns the windows that are full."""
        if not batch.num_rows:
            return []
        rows = RowGroups(self._number(batch))
        held = self.state.notes[_ROWS].values
        total = held[rows.touched] + np.diff(rows.offsets)
        fills = total >= self._n_rows
        if not fills.any():
            self.state.aggregates.update(rows, batch)
            held[rows.touched] = total
            self.state.make_room()
            return []
        filling = fills[rows.local]
        self._add(rows.among(~filling), batch.filter(pa.array(~filling)))
        found = self._fill(rows.among(filling), batch.filter(pa.array(filling)))
        self.state.make_room()
        return found

    def now(self) -> Batches:
        """See `WindowOperator`."""
        ids = self.state.ids()
        return self.shape.rows(self.state.keys(ids), self.state.aggregates.results(ids))

    def watermark(self, time_us: int) -> int:
        """As it came."""
        return time_us

    def _number(self, batch: pa.RecordBatch) -> Ids:
        if len(self.shape.keys):
            return self.state.number(self.state.key_columns(batch), {})
        return self.state.one(batch.num_rows)

    def _add(self, rows: RowGroups, batch: pa.RecordBatch) -> None:
        self.state.aggregates.update(rows, batch)
        np.add.at(self.state.notes[_ROWS].values, rows.ids, 1)

    def _fill(self, rows: RowGroups, batch: pa.RecordBatch) -> Batches:
        """All keys of `rows` fill at least one window."""
        touched, n = rows.touched, self._n_rows
        held = self.state.notes[_ROWS].values
        nth = np.empty(len(rows), np.int64)  # of each row among those of its window's key
        nth[rows.order] = np.arange(len(rows)) - np.repeat(rows.offsets[:-1], np.diff(rows.offsets))
        number = (nth + held[rows.ids]) // n
        total = held[touched] + np.diff(rows.offsets)
        n_windows = -(-total // n)  # of each key, the last perhaps not full
        begins = np.cumsum(n_windows) - n_windows
        cut = self.state.aggregates.fresh()
        cut.resize(int(n_windows.sum()))
        cut.merge(RowGroups(begins), self.state.aggregates.states(touched))
        cut.update(RowGroups(begins[rows.local] + number), batch)
        n_full = total // n
        full = spans(begins, n_full)
        found = self.shape.rows(self.state.keys(np.repeat(touched, n_full)), cut.results(full))
        held[touched] = total % n
        self.state.aggregates.clear(touched)
        is_left = total % n > 0
        rest = (begins + n_full)[is_left]
        self.state.aggregates.merge(RowGroups(touched[is_left]), cut.states(rest))
        self.state.remove(touched[~is_left])
        return found
