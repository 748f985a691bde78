"""Values in Arrow IPC format, each with any number of rows.

One job: decode and encode such values with the interface of native codecs. A value is a stream (its
schema, then batches) or one record batch message of the known schema. A value is validated
completely before any of its rows is used: a corrupt offset could crash the process.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from fabric._cython.codecs.codec import flat_type, in_layout
from fabric._cython.codecs.results import Bad, Decoded
from fabric.io.local_files import first_line

_ROWS_MAX = 1 << 24
_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)


class IpcDecoder:
    """Decodes values in Arrow IPC format into rows of `schema`.

    A column that a value lacks is null, an additional one is ignored. A null value has no rows. A
    value is rejected as a whole if it is not valid IPC, has more than 16,777,216 rows, or has a
    column of another type; views and dictionaries are converted.

    >>> rows = pa.record_batch({"a": [1, 2]})
    >>> values = IpcEncoder(rows.schema).encode_whole(rows)
    >>> found = IpcDecoder(rows.schema).decode(pa.array([values, b"no"]))
    >>> found.batch.num_rows, found.origin.tolist(), [bad.row for bad in found.bad]
    (2, [0, 0], [1])
    """

    is_native = False
    """Native code cannot call this codec: it is written in Python."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def decode(self, values: pa.Array | pa.ChunkedArray) -> Decoded:
        """The rows of all values; `origin` has the index of each row's value."""
        batches: list[pa.RecordBatch] = []
        bad: list[Bad] = []
        counts = np.zeros(len(values), np.int64)
        for number, value in enumerate(values.to_pylist()):
            if value is None:
                continue
            try:
                found = [self._columns(batch) for batch in self._checked(value)]
            except (pa.ArrowException, ValueError, MemoryError, OSError) as error:
                bad.append(Bad(number, first_line(error).removesuffix(".") or "not enough memory"))
                continue
            batches += found
            counts[number] = sum(batch.num_rows for batch in found)
        table = pa.Table.from_batches(batches, self.schema).combine_chunks()
        columns = [_one_chunk(column) for column in table.columns]
        batch = (
            pa.RecordBatch.from_arrays(columns, schema=self.schema)
            if columns
            else _rows_alone(int(counts.sum()))
        )
        return Decoded(batch, tuple(bad), np.repeat(np.arange(len(values)), counts))

    def _checked(self, value: bytes | str) -> list[pa.RecordBatch]:
        """The fully validated batches of a value."""
        data = pa.py_buffer(value.encode() if isinstance(value, str) else value)
        batches, n_rows = [], 0
        for batch in self._batches(data):
            n_rows += batch.num_rows
            if n_rows > _ROWS_MAX:
                raise ValueError(f"the value has more than {_ROWS_MAX} rows")
            batch.validate(full=True)
            batches.append(batch)
        return batches

    def _batches(self, data: pa.Buffer) -> Iterator[pa.RecordBatch]:
        if not data.size:
            raise ValueError("the value is empty, expected Arrow IPC")
        message = pa.ipc.read_message(data)
        if message.type == "record batch":
            yield pa.ipc.read_record_batch(message, self.schema)
            return
        with pa.ipc.open_stream(data, options=_OPTIONS) as stream:
            yield from stream

    def _columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The wanted columns of a valid batch, in the wanted layout."""
        columns = []
        for field in self.schema:
            if (place := batch.schema.get_field_index(field.name)) < 0:
                column = pa.nulls(batch.num_rows, field.type)
            else:
                column = batch.column(place)
            if flat_type(column.type) != flat_type(field.type):
                raise ValueError(f"column {field.name!r} is {column.type}, expected {field.type}")
            if column.null_count and not field.nullable:
                raise ValueError(f"column {field.name!r}: null is not allowed")
            if column.type != field.type:
                column = in_layout(in_layout(column, flat_type(field.type)), field.type)
            columns.append(column)
        if not columns:
            return _rows_alone(batch.num_rows)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


class IpcEncoder:
    """Encodes rows of `schema` as Arrow IPC streams, which contain their schema.

    >>> rows = pa.record_batch({"a": [1, 2]})
    >>> [pa.ipc.open_stream(v.as_buffer()).read_all()["a"].to_pylist()
    ...  for v in IpcEncoder(rows.schema).encode(rows)]
    [[1], [2]]
    """

    is_native = False
    """Native code cannot call this codec: it is written in Python."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """One stream per row, binary; each has an overhead of some hundred bytes."""
        rows = (batch.slice(row, 1) for row in range(batch.num_rows))
        return pa.array([self.encode_whole(row) for row in rows], pa.binary())

    def encode_whole(self, batch: pa.RecordBatch) -> bytes:
        """One stream with all rows."""
        if not batch.schema.equals(self.schema):
            raise ValueError(
                f"the encoder expects the columns {self.schema.names}, got {batch.schema.names}"
            )
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, self.schema) as stream:
            stream.write_batch(batch)
        return bytes(out.getvalue().to_pybytes())


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.nulls(0, column.type)


def _rows_alone(n_rows: int) -> pa.RecordBatch:
    """Rows without a column."""
    rows = pa.record_batch({"": pa.nulls(n_rows)})
    return rows.select([])
