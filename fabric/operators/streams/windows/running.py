"""Aggregates over all rows of a key: without a window, or in the one global window.

One job: `Running`. Without a window the results of the keys in a batch are shown after it, unless a
trigger says when; the global window shows by its trigger alone; both when the input ends.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from fabric.event_time import END_OF_TIME
from fabric.operators.contract import Batches
from fabric.operators.streams.windows.changing import UNSHOWN, Changing
from fabric.plan.nodes import StreamAggregate


class Running(Changing):
    """Groups that never close."""

    def __init__(self, node: StreamAggregate, output: pa.Schema, source: pa.Schema) -> None:
        super().__init__(node, output, source, notes=[UNSHOWN])
        waits = node.trigger.count is not None or node.trigger.early_us is not None
        self._at_once = node.window is None and not waits

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """Add rows up; show what the trigger says."""
        if not batch.num_rows:
            return []
        if len(self.shape.keys):
            ids = self.state.number(self.shape.key_columns(batch), {})
        else:
            ids = self.state.one(batch.num_rows)
        touched = self.add(ids, batch).touched
        is_shown = np.ones(len(touched), np.bool_) if self._at_once else self.after_rows(touched)
        found = self.show(touched[is_shown])
        self.make_room()
        return found

    def passed_time(self) -> Batches:
        """See `Windowed`; the input's end shows all."""
        if self.ends.time_us != END_OF_TIME:
            return []
        found = self.show(self.state.ids())
        return found + self.gradually(self._show_cold()) if self.state.has_cold else found

    def _show_cold(self) -> Iterator[Batches]:
        """What no result shows yet of groups below memory; nobody will ask for them again."""
        for rows in self.state.below.due(END_OF_TIME):
            ids = self.state.take(rows)
            yield self.show(ids)
            self.state.remove(ids)
        self.state.below.expire(END_OF_TIME)

    def watermark(self, time_us: int) -> int:
        """As it came."""
        return time_us
