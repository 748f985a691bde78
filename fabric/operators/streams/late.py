"""Rows that come when their group is already complete.

One job: `Late`, for groups that close by a time among their keys. A row is late iff that time and
the allowed lateness are not after the watermark that the row carries, else the operator's own.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fabric.event_time import BEGINNING, END_OF_TIME
from fabric.operators.contract import Batches
from fabric.operators.streams.columns import Ints, row_watermarks, rows_of, shown, us
from fabric.plan.stream import LATE


class Late:
    """Takes late rows out of batches; they are counted, and kept for a side output if `aside`."""

    def __init__(self, closes: str, lateness_us: int, *, aside: bool) -> None:
        self._closes = closes
        self._lateness_us = lateness_us
        self._aside = aside
        self._rows: Batches = []
        self.n_rows = 0
        """How many were late since the start of this attempt."""

    def split(self, batch: pa.RecordBatch, watermark: int) -> pa.RecordBatch:
        """The rows that are on time.

        >>> late = Late("end", 0, aside=True)
        >>> batch = pa.record_batch({"end": pa.array([5, 6], pa.timestamp("us"))})
        >>> late.split(batch, 5).num_rows, late.take()["late"][0].num_rows, late.n_rows
        (1, 1, 1)
        """
        own = row_watermarks(batch)
        known = np.int64(watermark) if own is None else own
        mask = us(batch.column(self._closes)) <= self.passed(known)
        n_late = int(np.count_nonzero(mask))
        if not n_late:
            return batch
        self.n_rows += n_late
        if self._aside:
            self._rows.append(rows_of(batch, mask).select(shown(batch.schema).names))
        return rows_of(batch, ~mask)

    def passed(self, watermark: Ints | np.int64) -> Ints | np.int64:
        """Groups that end at this time or before are complete; at the end of time all are."""
        lateness = self._lateness_us
        found = np.maximum(watermark, BEGINNING + lateness) - lateness
        return np.where(watermark == END_OF_TIME, END_OF_TIME, found)

    def take(self) -> dict[str, Batches]:
        """The late rows since the last call, under their tag."""
        rows, self._rows = self._rows, []
        return {LATE: rows} if rows else {}
