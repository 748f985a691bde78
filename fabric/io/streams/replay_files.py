"""Files that are in order already, as streams: one split a file, read row by row.

One job: the cursor of a `ReplayStream` with `by_file`. Nothing but the batch in work is in memory,
and a row that goes back in the order is an error that names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from fabric.errors import DataError
from fabric.io.files.source import is_plain, read_split
from fabric.io.streams.ordered import FORMATS, Pieces, rows_of_file
from fabric.io.streams.protocol import Later
from fabric.io.streams.reader import Plain, selected, whole
from fabric.io.streams.replay import LAST, Places, Tempo, places
from fabric.plan.sources import FileSource, ReplayStream, Split

_ROWS_AHEAD = 65_536
"""The order of so many rows is known at once."""


class FileReplayCursor(Plain):
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
            options = dict(source.options)
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
