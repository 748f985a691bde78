"""Files that are in order already, as streams: one split a file, read row by row.

One job: the cursor of a `ReplayStream` with `by_file`. Nothing but the batch in work is in memory,
and a row that goes back in the order is an error that names it.

`rows_of_file` begins in the middle without reading what lies before (where the format can: row
groups and record batches are left out whole); `Pieces` hands batches out in slices and knows how
many rows went out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from fabric.errors import DataError
from fabric.io.files import Given, csv, ipc, ndjson, parquet, with_store
from fabric.io.read_threads import outside
from fabric.io.readers.ordered_rows import LAST, Places, Tempo, places
from fabric.io.readers.protocol import Cursor, Later
from fabric.io.readers.reader import selected, whole
from fabric.io.sources.file import is_plain, read_split
from fabric.plan.sources import FileSource, ReplayStream, Split

_ROWS_AHEAD = 65_536
"""The order of so many rows is known at once."""


class FileReplayCursor(Cursor):
    """One file; see `Cursor`."""

    def __init__(
        self, source: ReplayStream, schema: pa.Schema, full: pa.Schema, path: str, tempo: Tempo
    ) -> None:
        assert isinstance(source.source, FileSource)
        self._path, self._names, self._order_by = path, schema.names, source.order_by
        self._files, self._full, self._tempo = source.source, full, tempo
        self._read_schema = pa.schema(
            [full.field(name) for name in dict.fromkeys([*self._names, source.order_by])]
        )
        self._row = 0
        self._pieces: Pieces | None = None
        self._ahead: Places = np.empty(0)
        """The places of the next rows; none: not looked at yet, or the end."""
        self._last = -LAST
        tempo.join(self)

    def read(self, rows_max: int) -> pa.RecordBatch | Later | None:
        """See `Cursor.read`."""
        ahead = self._places()
        if not ahead.size:
            return None
        n_rows = self._tempo.n_rows(self, ahead[:rows_max])
        if not n_rows:
            return Later(self._tempo.wait_s(float(ahead[0])))
        assert self._pieces is not None
        batch = self._pieces.next(n_rows)
        assert batch is not None
        self._row, self._ahead = self._pieces.row, ahead[batch.num_rows :]
        return selected(batch, self._names)

    def head(self) -> float:
        """The place of the next row."""
        ahead = self._places()
        return float(ahead[0]) if ahead.size else LAST

    def position(self) -> dict[str, Any]:
        """How many rows are out."""
        return {"row": self._row}

    def seek(self, position: dict[str, Any]) -> None:
        """See `Cursor.seek`."""
        self._row = whole(position, "row")
        self._pieces, self._ahead, self._last = None, np.empty(0), -LAST
        self._tempo.restart()

    def close(self) -> None:
        """Close the file."""
        self._pieces = None

    def _places(self) -> Places:
        """The places of rows that come next, checked when they are first looked at."""
        if self._ahead.size:
            return self._ahead
        if self._pieces is None:
            self._pieces = Pieces(self._rows(), self._row)
        rows = self._pieces.peek()
        if rows is not None:
            column = rows.slice(0, _ROWS_AHEAD).column(self._order_by)
            self._ahead = places(pa.chunked_array([column]))
            self._check()
        return self._ahead

    def _rows(self) -> Iterator[pa.RecordBatch]:
        """The rows of the file from where it is."""
        source, names = self._files, self._read_schema.names
        if source.format in FORMATS and is_plain(source, self._full, [self._path]):
            options = with_store(source.options, source)
            yield from rows_of_file(
                source.format, self._path, options, self._read_schema, self._row
            )
            return
        left = self._row
        for batch in read_split(source, self._full, Split(self._path), names):
            yield batch.slice(left)
            left = max(0, left - batch.num_rows)

    def _check(self) -> None:
        with_last = np.concatenate(([self._last], self._ahead))
        back = np.flatnonzero(with_last[1:] < with_last[:-1])
        if back.size:
            raise DataError(
                f"{self._path} is not in order: row {self._row + int(back[0])} has a smaller "
                f"{self._order_by!r} than the one before; sort the file, or replay it without "
                "by_file"
            )
        self._last = float(self._ahead[-1])


FORMATS = {"parquet": parquet, "csv": csv, "ipc": ipc, "ndjson": ndjson}


def rows_of_file(
    format: str, path: str, options: Given, schema: pa.Schema, row: int
) -> Iterator[pa.RecordBatch]:
    """The rows of one file from `row` on, with the columns and types of `schema`."""
    return outside(_rows(format, path, options, schema, row), path)


def _rows(
    format: str, path: str, options: Given, schema: pa.Schema, row: int
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
