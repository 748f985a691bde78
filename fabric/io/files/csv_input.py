"""The bytes of a CSV file as Arrow's parser is given them.

One job: `opened`: what lies before the first row, and lines that the parser can't take as they are.
A blank line is a row of nulls, but for those before a header: how many there are, and the names of
a file that begins with one and has no header, are looked up before the file is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc

from fabric.io import regular
from fabric.io.files.csv_lines import LineRules, Lines, NullRules, PlainNulls

_HEAD_BYTES = 64 << 10
_BOM = b"\xef\xbb\xbf"
_BLANK = re.compile(rb"[\r\n]*")
_LINE_END = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Request:
    """What options say of a file's lines; `rules`: they are mended by them."""

    header: bool
    names: tuple[str, ...] | None
    skip_rows: int
    encoding: str
    rules: LineRules | None
    nulls: tuple[str, ...]
    parse: pc.ParseOptions


def opened(source: str | pa.Buffer, request: Request) -> tuple[pa.NativeFile, dict[str, Any]]:
    """The file, and pyarrow's options for reading it."""
    encoding, skip, names = request.encoding, request.skip_rows, request.names
    if request.rules is not None:
        encoding, skip = "utf8", 0
    n_blank = _n_blank(_file(source, request), encoding, skip)
    if request.header:
        skip += n_blank
    elif n_blank and names is None:
        names = _generated(_file(source, request), encoding, skip + n_blank, request.parse)
    file = _file(source, request)
    if any(request.nulls) and request.parse.quote_char:
        rules = NullRules(
            request.parse.delimiter, request.parse.quote_char, request.nulls, skip + request.header
        )
        file = _python(PlainNulls(BufferedReader(_decoded(file, encoding)), rules))
        encoding = "utf8"
    return file, {
        "column_names": None if names is None else list(names),
        "autogenerate_column_names": not request.header and names is None,
        "skip_rows": skip + (request.header and names is not None),
        "encoding": encoding,
    }


def _file(source: str | pa.Buffer, request: Request) -> pa.NativeFile:
    file = regular.unpacked(source) if isinstance(source, str) else pa.BufferReader(source)
    if request.rules is None:
        return file
    return _python(Lines(BufferedReader(_decoded(file, request.encoding)), request.rules))


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
