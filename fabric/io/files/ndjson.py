"""Files with a JSON object a line, read by Arrow's parser a block at a time.

One job: read NDJSON. Types come from the first `sample_bytes` of the first file; a later value that
does not fit its column's type is a `DataError` that names the file. Fields that nobody asked for
are left out, missing ones are null. A unit is the whole file. Options:

    sample_bytes   how much is looked at for types; default 8388608

Lines are looked at before Arrow's parser has them: pyarrow 25 dies of a ``null`` that comes first,
and makes a row of nulls of a later one; where it finds types it dies of values nested too deep.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from os import stat

import pyarrow as pa
import pyarrow.json as pj

from fabric.errors import ConfigError, DataError
from fabric.io.faults import first_line, reading
from fabric.io.files.units import Unit

OPTIONS = frozenset(("sample_bytes",))
_SAMPLE_BYTES, _BLOCK_BYTES, _LINE_BYTES_MAX = 8 << 20, 4 << 20, 64 << 20
_DEPTH_MAX = 100
_BOM = b"\xef\xbb\xbf"
_OBJECT = re.compile(rb"^[ \t\r]*\{", re.MULTILINE)
_OTHER = re.compile(rb"^[ \t\r]*([^{ \t\r\n].{,40})", re.MULTILINE)


def file_schema(path: str, options: dict[str, str]) -> pa.Schema:
    """Columns and types as the head of the file shows them; a column of only nulls is a string."""
    text = options.get("sample_bytes", str(_SAMPLE_BYTES))
    if not text.isdigit() or not int(text):
        raise ConfigError(f"option sample_bytes must be a positive number, got {text!r}")
    with reading(path, "NDJSON"):
        head = next(_blocks(path, int(text)), b"")
        _n_objects(head)
        _check_depth(head)
        found = _rows(head, None).schema
        types = [pa.string() if pa.types.is_null(dtype) else dtype for dtype in found.types]
        return pa.schema(list(zip(found.names, types, strict=True)))


def units(path: str, options: dict[str, str]) -> list[Unit]:
    """One unit; the number of its rows is unknown."""
    with reading(path, "NDJSON"):
        return [Unit(0, stat(path).st_size)]


def read_units(
    path: str, options: dict[str, str], schema: pa.Schema, begin: int, end: int
) -> Iterator[pa.RecordBatch]:
    """All rows with the columns and types of `schema`; an error names the line."""
    n_lines = 0
    with reading(path, "NDJSON"):
        for data in _blocks(path, _BLOCK_BYTES):
            try:
                table, bad = parse(data, schema), None
            except ValueError as error:
                table, bad = _until_bad(data, schema, error)
            yield from table.to_batches()
            if bad is not None:
                at = n_lines + bad.line
                raise DataError(f"{path} can't be read from line {at} on: {bad.why}")
            n_lines += data.count(b"\n")


def parse(data: bytes, schema: pa.Schema) -> pa.Table:
    """Whole lines as rows with the columns and types of `schema`; `ValueError` for anything else.

    >>> parse(b'{"a": 1}\\nnull\\n', pa.schema([("a", pa.int64())]))
    Traceback (most recent call last):
    ValueError: b'null' is no JSON object
    """
    if not data or data.isspace():
        return schema.empty_table()
    n_objects = _n_objects(data)
    table = _rows(data, schema).select(schema.names)
    if table.num_rows != n_objects:
        raise ValueError(f"{n_objects} lines hold {table.num_rows} values; write one a line")
    if not data.isascii():
        table.validate(full=True)  # the parser takes any bytes for text
    return table


def _rows(data: bytes, schema: pa.Schema | None) -> pa.Table:
    block = pj.ReadOptions(block_size=max(1, len(data)), use_threads=False)
    known = pj.ParseOptions(
        explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore"
    )
    return pj.read_json(pa.BufferReader(data), read_options=block, parse_options=known)


def _n_objects(data: bytes) -> int:
    """The number of lines that begin with an object; raises `ValueError` for others, not blank."""
    data = data.removeprefix(_BOM)
    n_found = data.count(b"\n{") + data.startswith(b"{")
    if n_found == data.count(b"\n") + (not data.endswith(b"\n")):
        return n_found
    if other := _OTHER.search(data):
        raise ValueError(f"{other[1].rstrip()!r} is no JSON object")
    return len(_OBJECT.findall(data))


def _check_depth(data: bytes) -> None:
    for line in data.split(b"\n"):
        if line.count(b"[") + line.count(b"{") > _DEPTH_MAX:
            opened = deepest = 0
            for char in re.findall(rb"[\[{\]}]", line):
                opened += 1 if char in b"[{" else -1
                deepest = max(deepest, opened)
            if deepest > _DEPTH_MAX:
                raise ValueError(f"{line[:40]!r} is nested deeper than {_DEPTH_MAX} levels")


@dataclass(frozen=True, slots=True)
class _Bad:
    """The first line that can't be read, counted from 1."""

    line: int
    why: str


def _until_bad(data: bytes, schema: pa.Schema, error: ValueError) -> tuple[pa.Table, _Bad]:
    """The rows before the first line that can't be read, and that line."""
    lines = data.split(b"\n")
    good, bad = 0, len(lines)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            parse(b"\n".join(lines[good:middle]), schema)
            good = middle
        except ValueError as found:
            bad, error = middle, found
    table = parse(b"\n".join(lines[:good]), schema)
    # Arrow counts rows from wherever this part of the file began.
    return table, _Bad(good + 1, re.sub(r" in row \d+$", "", first_line(error)))


def _blocks(path: str, n_bytes: int) -> Iterator[bytes]:
    """Whole lines, about `n_bytes` at a time; unpacked where the file's ending says so."""
    with pa.input_stream(path) as opened, BufferedReader(opened) as file:
        while data := file.read(n_bytes):
            rest = file.readline(_LINE_BYTES_MAX)
            if len(rest) == _LINE_BYTES_MAX and not rest.endswith(b"\n"):
                raise ValueError(f"it has a line of more than {_LINE_BYTES_MAX} bytes")
            yield data + rest
