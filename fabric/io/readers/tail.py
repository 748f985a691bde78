"""One text file that grows, by whole lines.

One job: the cursor of `FollowedFiles` that `grows`. A position is where a block of lines begins and
how many of its rows are out, so that it means the same however the file has grown since, and what
the file begins with, so that it is never taken for a place in another file. A file that is moved,
replaced or cut fails the job, whatever `on_bad` says; what was there is read to its end first. What
is written over in place behind its first KB is not noticed.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

import pyarrow as pa

from fabric.errors import DataError, NotFoundError
from fabric.io import local_files
from fabric.io.files import csv, ndjson
from fabric.io.local_files import first_line, reading
from fabric.io.readers.ordered_files import Pieces
from fabric.io.readers.protocol import Cursor, Later, Unreadable
from fabric.io.readers.reader import whole
from fabric.plan.sources import FollowedFiles

BLOCK_BYTES, LINE_BYTES_MAX = 4 << 20, 64 << 20
HEAD_BYTES_MAX = 1 << 10
DATA_BYTES_MAX = 64 << 10
"""Of a line that can't be read so much is told."""


class GrowingCursor(Cursor):
    """The only split; see `Cursor`."""

    def __init__(self, source: FollowedFiles, schema: pa.Schema) -> None:
        self._source, self._schema = source, schema
        self._options = dict(source.options)
        self._has_header = source.format == "csv" and csv.has_header(self._options)
        self._fd = -1
        self._header: bytes | None = None
        self._end: int | None = None
        self._begin = self._skip = self._n_bytes = 0
        """The block in work begins at byte `_begin`, `_skip` of its rows are out."""
        self._told = 0
        """Lines of it that can't be read and were told of."""
        self._n_head, self._head = 0, ""
        """The first bytes, which were read and so never change, and their digest."""
        self._unreadable: list[Unreadable] = []
        self._pieces: Pieces | None = None

    def read(self, rows_max: int) -> pa.RecordBatch | Later | None:
        """See `Cursor.read`."""
        with reading(self._source.path, self._source.format):
            while True:
                if self._pieces is None and not self._next_block():
                    if self._is_over():
                        return None
                    moved = self._moved()
                    if moved is None:
                        return Later(self._source.poll_s)
                    if not self._next_block():  # else it came just before
                        raise moved
                assert self._pieces is not None
                batch = self._pieces.next(rows_max)
                if batch is not None:
                    self._skip = self._pieces.row
                    return batch
                self._begin, self._skip, self._pieces = self._begin + self._n_bytes, 0, None
                self._told = 0

    def position(self) -> dict[str, Any]:
        """Byte and row, and where it ends; a block may have grown when it is read again."""
        position: dict[str, Any] = {"byte": self._begin, "rows": self._skip}
        if self._n_head:
            position |= {"head_bytes": self._n_head, "head": self._head}
        if self._told:
            position["told"] = self._told
        if self._source.until:
            position["end"] = self._last_byte()
        return position

    def seek(self, position: dict[str, Any]) -> None:
        """See `Cursor.seek`."""
        self._begin, self._skip = whole(position, "byte"), whole(position, "rows")
        self._told = whole(position, "told") if "told" in position else 0
        self._end = whole(position, "end") if self._source.until else None
        if "head" in position:
            self._n_head, self._head = whole(position, "head_bytes"), position["head"]

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _next_block(self) -> bool:
        """Read and parse the next whole lines; whether there were any."""
        if not self._open():
            return False
        if self._has_header and self._header is None and not self._read_header():
            return False
        data = self._lines(self._begin, self._last_byte() if self._source.until else None)
        if not data:
            return False
        self._n_bytes = len(data)
        try:
            table = self._salvaged(data)
        except pa.ArrowKeyError as error:  # no line of it is to blame
            raise DataError(
                f"{self._source.path} has other columns than the stream: {first_line(error)}"
            ) from error
        if table.num_rows < self._skip:
            raise DataError(
                f"{self._source.path} has {table.num_rows} rows from byte {self._begin} on, "
                f"{self._skip} were read there before; was it replaced?"
            )
        self._pieces = Pieces(iter(table.slice(self._skip).to_batches()), self._skip)
        if self._n_head < HEAD_BYTES_MAX:
            self._n_head = min(self._begin + len(data), HEAD_BYTES_MAX)
            self._head = self._digest()
        return True

    def _open(self) -> bool:
        if self._fd < 0:
            try:
                self._fd = local_files.descriptor(self._source.path)
            except FileNotFoundError:
                if self._source.until:
                    raise
                if self._n_head:
                    raise self._replaced("was moved or deleted") from None
                return False
        n_bytes = os.fstat(self._fd).st_size
        if n_bytes < max(self._begin, self._n_head):
            raise self._replaced(f"has {n_bytes} bytes, {self._begin} were read before: it was cut")
        if self._digest() != self._head:
            raise self._replaced("begins with other bytes than were read before: it was replaced")
        return True

    def _digest(self) -> str:
        data = os.pread(self._fd, self._n_head, 0)
        return hashlib.blake2b(data, digest_size=8).hexdigest() if data else ""

    def _moved(self) -> DataError | None:
        """The error to raise when the path names another file than the one that is open."""
        if self._fd < 0:
            return None
        try:
            now = os.stat(self._source.path)
        except FileNotFoundError:
            return self._replaced("was moved or deleted")
        if os.path.samestat(now, os.fstat(self._fd)):
            return None
        return self._replaced("was replaced by another file")

    def _replaced(self, what: str) -> DataError:
        return DataError(
            f"{self._source.path} {what}, after it was read up to byte {self._begin}; a growing "
            "file must stay: follow a folder of files instead, or start anew without the checkpoint"
        )

    def _read_header(self) -> bool:
        end = self._last_byte() if self._source.until else None
        begin = 0
        while line := self._lines(begin, end, first_only=True):
            begin += len(line)
            if line.strip(b"\r\n"):  # blank lines before it are no rows
                self._header = line
                self._begin = max(self._begin, begin)
                return True
        return False

    def _lines(self, begin: int, end: int | None, *, first_only: bool = False) -> bytes:
        """Whole lines from `begin` on; what follows the last newline counts only up to `end`."""
        n_wanted = BLOCK_BYTES
        while True:
            n_bytes = n_wanted if end is None else min(n_wanted, end - begin)
            data = os.pread(self._fd, n_bytes, begin)
            cut = (data.find(b"\n") if first_only else data.rfind(b"\n")) + 1
            if cut:
                return data[:cut]
            if len(data) < n_wanted:  # the file's end
                return data if end is not None else b""
            if n_wanted >= LINE_BYTES_MAX:
                raise DataError(
                    f"{self._source.path} has a line of more than {LINE_BYTES_MAX} bytes at byte "
                    f"{begin}; is it a text file?"
                )
            n_wanted *= 4

    def _salvaged(self, data: bytes) -> pa.Table:
        """The rows of the lines that can be read; the others are told of, each once."""
        found: list[Unreadable] = []
        table = pa.concat_tables(self._good(data, self._begin, found))
        self._unreadable += found[self._told :]
        self._told = max(self._told, len(found))
        return table

    def _good(self, data: bytes, begin: int, found: list[Unreadable]) -> list[pa.Table]:
        """Parse it whole, else each half of its lines, down to single ones."""
        try:
            return [self._parsed(data, begin)]
        except DataError as error:
            cut = data.rfind(b"\n", 0, len(data) // 2) + 1 or data.find(b"\n") + 1
            if cut in (0, len(data)):
                if self._source.on_bad == "fail":
                    raise
                line = data[:DATA_BYTES_MAX]
                found.append(Unreadable(self._source.path, begin, line, error.message))
                return [self._schema.empty_table()]
        first = self._good(data[:cut], begin, found)
        return first + self._good(data[cut:], begin + cut, found)

    def _parsed(self, data: bytes, begin: int) -> pa.Table:
        try:
            if self._source.format == "ndjson":
                return ndjson.parse(data, self._schema, ndjson.texts_given(self._options))
            header = self._header or b""
            block = pa.py_buffer(header + data)
            return csv.parse(block, self._options, self._schema)
        except (ValueError, DataError) as error:  # ArrowInvalid is one
            why = error.message if isinstance(error, DataError) else first_line(error)
            raise DataError(
                f"{self._source.path} can't be read behind byte {begin}: {why}"
            ) from error

    def _last_byte(self) -> int:
        """With `until` "now": the length at the start."""
        if self._end is None:
            if not self._open():
                raise NotFoundError(f"there is no file {self._source.path}")
            self._end = os.fstat(self._fd).st_size
        return self._end

    def _is_over(self) -> bool:
        return bool(self._source.until) and self._begin >= self._last_byte()
