"""Files that are in order already, as streams: one split a file, read row by row.

One job: the cursor of a `ReplayStream` with `by_file`. Nothing but the batch in work is in memory,
and a row that goes back in the order is an error that names it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from fabric.errors import DataError
from fabric.io.streams.ordered import Pieces, rows_of_file
from fabric.io.streams.protocol import Later
from fabric.io.streams.reader import Plain, selected, whole
from fabric.io.streams.replay import LAST, Tempo, places
from fabric.plan.sources import FileSource, ReplayStream

_ROWS_MIN, _ROWS_AHEAD = 1_024, 65_536


class FileReplayCursor(Plain):
    """One file; see `Cursor`."""

    def __init__(
        self, source: ReplayStream, schema: pa.Schema, full: pa.Schema, path: str, tempo: Tempo
    ) -> None:
        assert isinstance(source.source, FileSource)
        self._path, self._names, self._order_by = path, schema.names, source.order_by
        self._files, self._tempo = source.source, tempo
        self._read_schema = pa.schema(
            [full.field(name) for name in dict.fromkeys([*self._names, source.order_by])]
        )
        self._row = 0
        self._pieces: Pieces | None = None
        self._last = -LAST
        self._checked_to = 0
        tempo.join(self)

    def read(self, rows_max: int) -> pa.RecordBatch | Later | None:
        """See `Cursor.read`."""
        found = self._places(rows_max)
        if not found.size:
            return None
        due = int(np.searchsorted(found, self._tempo.due_us(), side="right"))
        if not due:
            return Later(self._tempo.wait_s(float(found[0])))
        beside = int(np.searchsorted(found, self._tempo.limit(self), side="right"))
        assert self._pieces is not None
        batch = self._pieces.next(min(due, max(beside, _ROWS_MIN)))
        assert batch is not None
        self._row = self._pieces.row
        return selected(batch, self._names)

    def head(self) -> float:
        """The place of the next row."""
        found = self._places(1)
        return float(found[0]) if found.size else LAST

    def position(self) -> dict[str, Any]:
        """How many rows are out."""
        return {"row": self._row}

    def seek(self, position: dict[str, Any]) -> None:
        """See `Cursor.seek`."""
        self._row = self._checked_to = whole(position, "row")
        self._pieces, self._last = None, -LAST
        self._tempo.restart()

    def close(self) -> None:
        """Close the file."""
        self._pieces = None

    def _places(self, rows_max: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The places of the next rows, checked."""
        if self._pieces is None:
            options = dict(self._files.options)
            batches = rows_of_file(
                self._files.format, self._path, options, self._read_schema, self._row
            )
            self._pieces = Pieces(batches, self._row)
        ahead = self._pieces.peek()
        if ahead is None:
            return np.empty(0)
        n_rows = min(rows_max, _ROWS_AHEAD)
        column = ahead.slice(0, n_rows).column(self._order_by)
        found = places(pa.chunked_array([column]))
        self._check(found)
        return found

    def _check(self, found: np.ndarray[Any, np.dtype[np.float64]]) -> None:
        fresh = self._checked_to - self._row
        if fresh >= found.size:
            return
        with_last = np.concatenate(([self._last], found[max(0, fresh) :]))
        back = np.flatnonzero(with_last[1:] < with_last[:-1])
        if back.size:
            raise DataError(
                f"{self._path} is not in order: row {self._row + max(0, fresh) + int(back[0])} has "
                f"a smaller {self._order_by!r} than the one before; sort the file, or replay it "
                "without by_file"
            )
        self._checked_to, self._last = self._row + found.size, float(found[-1])
