"""Rows of files from a row number on, in pieces.

One job: `rows_of_file`, which begins in the middle without reading what lies before (where the
format can: row groups and record batches are left out whole), and `Pieces`, which hands batches out
in slices and knows how many rows went out.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from fabric.errors import DataError
from fabric.io.blocking import outside
from fabric.io.files import csv, ipc, ndjson, parquet
from fabric.plan.sources import OptionValue

FORMATS = {"parquet": parquet, "csv": csv, "ipc": ipc, "ndjson": ndjson}


def rows_of_file(
    format: str, path: str, options: dict[str, OptionValue], schema: pa.Schema, row: int
) -> Iterator[pa.RecordBatch]:
    """The rows of one file from `row` on, with the columns and types of `schema`."""
    return outside(_rows(format, path, options, schema, row), path)


def _rows(
    format: str, path: str, options: dict[str, OptionValue], schema: pa.Schema, row: int
) -> Iterator[pa.RecordBatch]:
    module = FORMATS[format]
    if format in ("parquet", "ipc"):
        _check_columns(path, module.file_schema(path, options), schema)
    begin, left = 0, row
    units = module.units(path, options)
    while begin < len(units) and 0 < units[begin].n_rows <= left:
        left -= units[begin].n_rows
        begin += 1
    if begin == len(units):
        return
    end = 0 if not begin else len(units)
    for batch in module.read_units(path, options, schema, begin, end):
        if left >= batch.num_rows:
            left -= batch.num_rows
            continue
        rest = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        yield rest.slice(left)
        left = 0


def _check_columns(path: str, found: pa.Schema, schema: pa.Schema) -> None:
    for field in schema:
        if field.name not in found.names:
            raise DataError(f"{path} has no column {field.name!r}; the stream's files have")
        dtype = found.field(field.name).type
        if not dtype.equals(field.type):
            raise DataError(f"column {field.name!r} of {path} is {dtype}, expected {field.type}")


class Pieces:
    """Batches in slices of at most so many rows; `row` counts what was handed out.

    >>> pieces = Pieces(iter([pa.record_batch({"a": [1, 2, 3]})]), row=10)
    >>> pieces.next(2).num_rows, pieces.next(2).num_rows, pieces.next(2), pieces.row
    (2, 1, None, 13)
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], row: int = 0) -> None:
        self._batches, self.row = batches, row
        self._rest: pa.RecordBatch | None = None

    def next(self, rows_max: int) -> pa.RecordBatch | None:
        """At least one row, or None at the end."""
        rest = self.peek()
        if rest is None:
            return None
        piece = rest.slice(0, rows_max)
        self._rest = rest.slice(piece.num_rows)
        self.row += piece.num_rows
        return piece

    def peek(self) -> pa.RecordBatch | None:
        """What `next` hands out of, or None at the end; nothing is taken."""
        while self._rest is None or not self._rest.num_rows:
            self._rest = next(self._batches, None)
            if self._rest is None:
                return None
        return self._rest
