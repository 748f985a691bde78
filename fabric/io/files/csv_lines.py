"""Lines of CSV that Arrow's parser would refuse, mended before it sees them.

One job: `Lines`, a file without its first lines, its comments, and lines of too few or too many
fields. Only files read with one of these options go through here; it is Python, a line at a time.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

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
        self._file, self._rules = file, rules
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
        comment = rules.comment.encode()
        for record in self._whole():
            if comment and record.startswith(comment):
                continue
            if rules.ragged != "error" and record.strip():
                n_found = self._n_fields(record)
                n_fields = n_fields or n_found
                if n_found != n_fields:
                    if rules.ragged == "fill":
                        yield self._fitted(record, n_found, n_fields)
                    continue
            yield record

    def _whole(self) -> Iterator[bytes]:
        """Records: lines, with those that follow while a quote is open."""
        for _ in range(self._rules.skip_rows):
            self._file.readline()
        record, is_open, is_first = b"", False, not self._rules.skip_rows
        while line := self._file.readline():
            if is_first:
                line, is_first = line.removeprefix(b"\xef\xbb\xbf"), False
            is_comment = not record and line.startswith(self._rules.comment.encode() or b"\n\n")
            record += line
            is_open ^= not is_comment and self._is_odd(line)
            if is_open and len(record) > _LINE_BYTES_MAX:
                raise ValueError("a quote is opened and never closed")
            if not is_open:
                yield record
                record = b""
        if record:
            yield record

    def _is_odd(self, line: bytes) -> bool:
        quote, escape = self._rules.quote.encode(), self._rules.escape.encode()
        if not quote or quote not in line:
            return False
        n_escaped = line.count(escape + quote) if escape and escape != quote else 0
        return bool((line.count(quote) - n_escaped) % 2)

    def _n_fields(self, record: bytes) -> int:
        """Counted fast where no letter takes the next one as it is."""
        delimiter, quote = self._rules.delimiter.encode(), self._rules.quote.encode()
        if not quote or quote not in record:
            return record.count(delimiter) + 1
        if self._rules.escape:
            return len(self._cuts(record)) + 1
        outside = record.split(quote)[::2]  # a doubled quote is two, with nothing in between
        return sum(part.count(delimiter) for part in outside) + 1

    def _cuts(self, record: bytes) -> list[int]:
        """Where the delimiters outside quotes are."""
        delimiter, quote = self._rules.delimiter.encode(), self._rules.quote.encode()
        if not quote or quote not in record:
            return [match.start() for match in re.finditer(re.escape(delimiter), record)]
        escape = self._rules.escape.encode()
        cuts, inside, escaped = [], False, False
        for at, letter in enumerate(record):
            if escaped:
                escaped = False
            elif escape and letter == escape[0]:
                escaped = True
            elif letter == quote[0]:
                inside = not inside
            elif letter == delimiter[0] and not inside:
                cuts.append(at)
        return cuts

    def _fitted(self, record: bytes, n_found: int, n_fields: int) -> bytes:
        """Missing fields added empty, those too many cut off."""
        body = record.rstrip(b"\r\n")
        end = record[len(body) :]
        if n_found > n_fields:
            return body[: self._cuts(record)[n_fields - 1]] + end
        return body + self._rules.delimiter.encode() * (n_fields - n_found) + end
