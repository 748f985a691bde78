"""Lines of CSV that Arrow's parser would refuse, mended before it sees them.

One job: `Lines`, a file without its first lines, its comments, and lines of too few or too many
fields. Only files read with one of these options go through here; it is Python, a line at a time.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

_LINE_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class LineRules:
    """What to do with lines. `n_fields` 0: as many as the first line has; `ragged`: see `csv`."""

    delimiter: str
    quote: str
    escape: str
    skip_rows: int
    comment: str
    ragged: str
    n_fields: int


class Lines(io.RawIOBase):
    """The bytes of `file` (UTF-8) by the rules; closes it."""

    def __init__(self, file: io.BufferedIOBase, rules: LineRules) -> None:
        self._file, self._rules, self._marks = file, rules, _Marks(rules)
        self._records, self._rest = self._mended(), b""

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        """Fill `buffer` with as much as there is."""
        pieces, n_bytes = [self._rest], len(self._rest)
        while n_bytes < len(buffer) and (record := next(self._records, None)) is not None:
            pieces.append(record)
            n_bytes += len(record)
        data = b"".join(pieces)
        n_read = min(len(data), len(buffer))
        buffer[:n_read], self._rest = data[:n_read], data[n_read:]
        return n_read

    def close(self) -> None:
        """Close the file below, too."""
        self._file.close()
        super().close()

    def _mended(self) -> Iterator[bytes]:
        rules, n_fields = self._rules, self._rules.n_fields
        for record, fields in self._whole():
            if rules.ragged != "error" and record.rstrip(b"\r\n"):
                n_found = self._marks.n_fields(record) if fields is None else len(fields.cuts) + 1
                n_fields = n_fields or n_found
                if n_found != n_fields:
                    if rules.ragged == "fill":
                        yield self._fitted(record, n_fields)
                    continue
            yield record

    def _whole(self) -> Iterator[tuple[bytes, _Fields | None]]:
        """Records, which are lines, with those that follow while a quote is open; no comments.

        None: each delimiter ends a field.
        """
        comment = self._rules.comment.encode()
        record, fields = b"", _Fields(self._marks)
        for line in islice(self._lines(), self._rules.skip_rows, None):
            if not record:
                if comment and line.startswith(comment):
                    continue
                if not self._marks.special.search(line):
                    yield line, None
                    continue
            record += line
            if fields.read(record):
                yield record, fields
                record, fields = b"", _Fields(self._marks)
            elif len(record) > _LINE_BYTES_MAX:
                raise ValueError("a quote is opened and never closed")
        if record:
            yield record, fields

    def _lines(self) -> Iterator[bytes]:
        r"""All lines; a ``\r`` alone ends one, too."""
        is_first = True
        while read := self._file.readline():
            if is_first:
                read, is_first = read.removeprefix(b"\xef\xbb\xbf"), False
            yield from read.splitlines(keepends=True)

    def _fitted(self, record: bytes, n_fields: int) -> bytes:
        """Missing fields added empty, those too many cut off."""
        fields = _Fields(self._marks)
        fields.read(record)
        end, n_missing = record[fields.end :], n_fields - len(fields.cuts) - 1
        if n_missing < 0:
            return record[: fields.cuts[n_fields - 1]] + end
        return record[: fields.end] + self._marks.delimiter * n_missing + end


class _Marks:
    """The letters that mean something, and patterns that find the next one."""

    def __init__(self, rules: LineRules) -> None:
        self.delimiter, self.quote = rules.delimiter.encode(), rules.quote.encode()
        self.escape = rules.escape.encode()
        self.outside = _any_of(self.delimiter + self.escape + b"\r\n")
        self.quoted = self.special = _any_of(self.quote + self.escape)

    def n_fields(self, line: bytes) -> int:
        """Of a line without quotes and escapes."""
        return line.count(self.delimiter) + 1


def _any_of(letters: bytes) -> re.Pattern[bytes]:
    return re.compile(b"[" + re.escape(letters) + b"]" if letters else b"(?!)")


class _Fields:
    """Where the fields of a record end, as Arrow's parser has it.

    A quote opens only where a field begins and is a letter elsewhere; while it is open, two are
    one. An escape takes the next letter as it is, inside quotes or not.
    """

    __slots__ = ("_at", "_begins", "_is_quoted", "_marks", "cuts", "end")

    def __init__(self, marks: _Marks) -> None:
        self._marks, self._at, self._begins, self._is_quoted = marks, 0, True, False
        self.cuts: list[int] = []
        """Where the delimiters are."""
        self.end = 0
        """Where the end of the line begins."""

    def read(self, record: bytes) -> bool:
        """Go on in `record`, which may have grown; whether the end of its line was found."""
        marks = self._marks
        while True:
            if self._begins and marks.quote and record.startswith(marks.quote, self._at):
                self._at, self._is_quoted = self._at + 1, True
            self._begins = False
            pattern = marks.quoted if self._is_quoted else marks.outside
            if (found := pattern.search(record, self._at)) is None:
                self._at = max(self._at, len(record))
                self.end = len(record)
                return False
            letter, self._at = found.group(), found.end()
            if letter == marks.escape:
                self._at += 1
            elif self._is_quoted:
                is_doubled = record.startswith(marks.quote, self._at)
                self._at, self._is_quoted = self._at + is_doubled, is_doubled
            elif letter == marks.delimiter:
                self.cuts.append(found.start())
                self._begins = True
            else:
                self.end = found.start()
                return True
