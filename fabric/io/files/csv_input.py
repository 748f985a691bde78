"""The bytes of a CSV file as Arrow's parser is given them.

One job: `opened`: what lies before the first row, and lines that the parser can't take as they are.
A blank line is a row of nulls, but for those before a header: how many there are, and the names of
a file that begins with one and has no header, are looked up before the file is read.

Lines that the parser would refuse or misread are mended before it sees them. `Lines` is a file
without its first lines, its comments, and lines of too few or too many fields. Only files read with
one of these options go through it; it is Python, a line at a time. `PlainNulls` is a file whose
quoted nulls are empty fields: a block at a time, with `null_values`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc

from fabric.io import local_files
from fabric.plan.places import Settings

_HEAD_BYTES = 64 << 10
_BOM = b"\xef\xbb\xbf"
_BLANK = re.compile(rb"[\r\n]*")
_LINE_END = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Dialect:
    """What options say of a file's lines, see `csv`; `names` are None where the file has them."""

    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    header: bool = True
    names: tuple[str, ...] | None = None
    skip_rows: int = 0
    encoding: str = "utf8"
    comment: str = ""
    ragged: str = "error"
    null_values: tuple[str, ...] = ()
    store: Settings = ()
    """With which options the store of an object is opened."""

    @property
    def is_mended(self) -> bool:
        """Whether lines are left out or changed before the parser sees them, see `Lines`."""
        return bool(self.comment) or self.ragged != "error"

    @property
    def parse(self) -> pc.ParseOptions:
        """The same for Arrow's parser."""
        return pc.ParseOptions(
            delimiter=self.delimiter,
            quote_char=self.quote or False,
            escape_char=self.escape or False,
            newlines_in_values=bool(self.quote),
            ignore_empty_lines=False,
        )


def opened(source: str | pa.Buffer, dialect: Dialect) -> tuple[pa.NativeFile, dict[str, Any]]:
    """The file, and pyarrow's options for reading it."""
    encoding, skip, names = dialect.encoding, dialect.skip_rows, dialect.names
    if dialect.is_mended:
        encoding, skip = "utf8", 0
    n_blank = _n_blank(_file(source, dialect), encoding, skip)
    if dialect.header:
        skip += n_blank
    elif n_blank and names is None:
        names = _generated(_file(source, dialect), encoding, skip + n_blank, dialect.parse)
    file = _file(source, dialect)
    if any(dialect.null_values) and dialect.quote:
        below = BufferedReader(_decoded(file, encoding))
        file = _python(PlainNulls(below, dialect, skip + dialect.header))
        encoding = "utf8"
    return file, {
        "column_names": None if names is None else list(names),
        "autogenerate_column_names": not dialect.header and names is None,
        "skip_rows": skip + (dialect.header and names is not None),
        "encoding": encoding,
    }


def _file(source: str | pa.Buffer, dialect: Dialect) -> pa.NativeFile:
    if isinstance(source, str):
        file = local_files.unpacked(source, dialect.store)
    else:
        file = pa.BufferReader(source)
    if not dialect.is_mended:
        return file
    return _python(Lines(BufferedReader(_decoded(file, dialect.encoding)), dialect))


def _python(file: Any) -> pa.NativeFile:
    return pa.PythonFile(file, mode="r")


def _decoded(file: pa.NativeFile, encoding: str) -> Any:
    return file if is_utf8(encoding) else pa.transcoding_input_stream(file, encoding, "utf8")


def is_utf8(encoding: str) -> bool:
    """Whether this is a name of UTF-8, which the parser reads as it is."""
    return encoding.lower().replace("-", "").replace("_", "") == "utf8"


def _n_blank(file: pa.NativeFile, encoding: str, skip_rows: int) -> int:
    """How many blank lines follow the first `skip_rows`."""
    with BufferedReader(_decoded(file, encoding), _HEAD_BYTES) as lines:
        for _ in range(skip_rows):
            lines.readline()
        head = lines.peek().removeprefix(b"" if skip_rows else _BOM)
    blank = _BLANK.match(head)
    return len(_LINE_END.findall(blank[0])) if blank else 0


def _generated(
    file: pa.NativeFile, encoding: str, skip_rows: int, parse: pc.ParseOptions
) -> tuple[str, ...]:
    """f0, f1, ... for each field of the first line that is not blank."""
    read = pc.ReadOptions(
        block_size=_HEAD_BYTES, skip_rows=skip_rows, autogenerate_column_names=True,
        encoding=encoding,
    )  # fmt: skip
    try:
        with pc.open_csv(file, read_options=read, parse_options=parse) as reader:
            return tuple(reader.schema.names)
    except pa.ArrowInvalid as error:
        if "Empty CSV file" not in str(error):
            raise
        return ("f0",)


_LINE_BYTES_MAX, _BLOCK_BYTES = 64 << 20, 1 << 20


class _Records(io.RawIOBase):
    """A file of bytes that are made from those of another; closes it."""

    def __init__(self, file: io.BufferedIOBase) -> None:
        self._file, self._rest = file, b""
        self._records = self._mended()

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
        raise NotImplementedError


class PlainNulls(_Records):
    """The bytes of `file` (UTF-8) with an empty field for each quoted null behind `n_lines` lines.

    Inside a quoted field no quote stands alone, so one between delimiters begins and ends a field.
    """

    def __init__(self, file: io.BufferedIOBase, dialect: Dialect, n_lines: int) -> None:
        quote = dialect.quote.encode()
        texts = (null.encode().replace(quote, quote * 2) for null in dialect.null_values if null)
        fields = [quote + text + quote for text in texts]
        ends = re.escape(dialect.delimiter.encode()) + rb"\r\n"
        self._nulls = [(field, _whole_field(re.escape(field), ends)) for field in fields]
        self._n_lines = n_lines
        super().__init__(file)

    def _mended(self) -> Iterator[bytes]:
        for _ in range(self._n_lines):
            yield self._file.readline()
        rest = b""
        while data := self._file.read(_BLOCK_BYTES):
            cut = data.rfind(b"\n") + 1
            if not cut:
                rest += data
                continue
            yield self._without(rest + data[:cut])
            rest = data[cut:]
        yield self._without(rest)

    def _without(self, block: bytes) -> bytes:
        for field, pattern in self._nulls:
            if field in block:
                block = pattern.sub(b"", block)
        return block


def _whole_field(field: bytes, ends: bytes) -> re.Pattern[bytes]:
    """It begins with plain text, so that it is looked for fast."""
    return re.compile(b"%b(?<![^%b]%b)(?=[%b]|\\Z)" % (field, ends, field, ends))


class Lines(_Records):
    """The bytes of `file` (UTF-8) without comments, and with as many fields in each line."""

    def __init__(self, file: io.BufferedIOBase, dialect: Dialect) -> None:
        self._dialect, self._marks = dialect, _Marks(dialect)
        super().__init__(file)

    def _mended(self) -> Iterator[bytes]:
        ragged, n_fields = self._dialect.ragged, len(self._dialect.names or ())
        for record, fields in self._whole():
            if ragged != "error" and record.rstrip(b"\r\n"):
                n_found = self._marks.n_fields(record) if fields is None else len(fields.cuts) + 1
                n_fields = n_fields or n_found
                if n_found != n_fields:
                    if ragged == "fill":
                        yield self._fitted(record, n_fields)
                    continue
            yield record

    def _whole(self) -> Iterator[tuple[bytes, _Fields | None]]:
        """Records, which are lines, with those that follow while a quote is open; no comments.

        None: each delimiter ends a field.
        """
        comment = self._dialect.comment.encode()
        record, fields = b"", _Fields(self._marks)
        for line in islice(self._lines(), self._dialect.skip_rows, None):
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

    def __init__(self, dialect: Dialect) -> None:
        self.delimiter, self.quote = dialect.delimiter.encode(), dialect.quote.encode()
        self.escape = dialect.escape.encode()
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
