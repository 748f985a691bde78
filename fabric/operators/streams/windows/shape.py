"""From groups and results to the rows of a windowed aggregate.

One job: `Shape`: the columns that a `StreamAggregate` reads and puts out, in the order of the plan.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.errors import DataError
from fabric.operators.contract import Batches
from fabric.operators.streams.columns import us
from fabric.plan.expr import Column
from fabric.plan.nodes import StreamAggregate
from fabric.plan.stream import KIND

Ints = NDArray[np.int64]
ROWS_MAX = 65_536
"""Rows of one batch that is put out."""
INSERT, BEFORE, AFTER, DELETE = range(4)
"""Kinds, as positions in `fabric.plan.stream.KINDS`."""


class Shape:
    """What a `StreamAggregate` over rows of `source` reads, and how it puts out `output`."""

    def __init__(self, node: StreamAggregate, output: pa.Schema, source: pa.Schema) -> None:
        self.output = output
        self._names = [_column(key) for key in node.keys]
        self.keys = pa.schema([source.field(name) for name in self._names])
        self.has_windows = node.has_window_columns
        """Whether starts and ends of windows are put out."""
        self.changes = KIND in output.names
        """Whether results may be replaced by later ones."""
        self._time = node.time
        self.time_type = source.field(node.time).type if node.time else None

    def key_columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The keys of rows."""
        return [batch.column(name) for name in self._names]

    def times(self, batch: pa.RecordBatch) -> Ints:
        """The event time of rows; see `event_times`."""
        return event_times(batch, self._time)

    def rows(
        self,
        keys: pa.RecordBatch,
        columns: Sequence[pa.Array],
        kinds: NDArray[np.int8] | None = None,
    ) -> Batches:
        """Batches of keys, then `columns` (starts and ends of windows, results), then kinds."""
        columns = [*keys.columns, *columns]
        if self.changes:
            new = np.full(len(keys), INSERT, np.int8)
            columns.append(pa.array(new if kinds is None else kinds))
        typed = [
            _typed(column, field.type) for column, field in zip(columns, self.output, strict=True)
        ]
        return sliced(pa.RecordBatch.from_arrays(typed, schema=self.output))


def event_times(batch: pa.RecordBatch, name: str) -> Ints:
    """The time of each row in microseconds.

    Raises
    ------
    DataError
        If a row has none.
    """
    column = batch.column(name)
    if column.null_count:
        raise DataError(
            f"{column.null_count} rows have no time in {name!r}, so they are in no window; "
            f"filter them with col({name!r}).is_not_null(), or fill the time in"
        )
    return us(column)


def sliced(rows: pa.RecordBatch) -> Batches:
    """The rows in batches of at most `ROWS_MAX`; none for no rows."""
    return [rows.slice(begin, ROWS_MAX) for begin in range(0, rows.num_rows, ROWS_MAX)]


def _column(key: object) -> str:
    assert isinstance(key, Column), "the planner computes keys below the exchange"
    return key.name


def _typed(values: pa.Array, dtype: pa.DataType) -> pa.Array:
    if values.type.equals(dtype):
        return values
    if pa.types.is_timestamp(dtype) and pa.types.is_int64(values.type):
        return values.view(dtype)
    return values.cast(dtype)
