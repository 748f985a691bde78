"""Files with a JSON object a line, or one array of objects, read a block at a time.

One job: read JSON by Arrow's parser. Types come from the first `sample_bytes` of a file; a later
value that does not fit its column's type is a `DataError` that names the file, as is a field that
comes first behind them. Missing fields are null. A unit is the whole file. Options:

    sample_bytes   how much is looked at for types; default 8388608
    types          types of some columns
    schema         all columns to read and their types: other fields are left out

Lines are looked at before Arrow's parser has them: pyarrow 25 dies of a ``null`` that comes first,
and makes a row of nulls of a later one; where it finds types it dies of values nested too deep.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from os import stat
from typing import Any

import pyarrow as pa
import pyarrow.json as pj
from pyarrow import types as t

from fabric.errors import ConfigError, DataError
from fabric.io.faults import first_line, reading
from fabric.io.files.json_arrays import objects
from fabric.io.files.units import Given, Unit

OPTIONS: dict[str, type] = {"sample_bytes": int, "types": pa.Schema, "schema": pa.Schema}
_SAMPLE_BYTES, _BLOCK_BYTES, _LINE_BYTES_MAX = 8 << 20, 4 << 20, 64 << 20
_DEPTH_MAX, _PEEK_BYTES = 100, 1 << 10
_BOM = b"\xef\xbb\xbf"
_OBJECT = re.compile(rb"^[ \t\r]*\{", re.MULTILINE)
_OTHER = re.compile(rb"^[ \t\r]*([^{ \t\r\n].{,40})", re.MULTILINE)


def check(options: Given) -> None:
    """Refuse values that mean nothing."""
    number = options.get("sample_bytes", 1)
    if isinstance(number, int) and number < 1:
        raise ConfigError(f"option sample_bytes must be a positive number, got {number}")
    if "types" in options and "schema" in options:
        raise ConfigError("read_json takes types= (of some columns) or schema= (all), not both")
    for name in ("types", "schema"):
        given = options.get(name)
        for field in given if isinstance(given, pa.Schema) else ():
            if (bad := _unreadable(field.type)) is not None:
                raise ConfigError(
                    f"option {name}: a column of a JSON file can't be read as {bad} "
                    f"({field.name!r}); read it as string, a number, a list or a struct, and cast"
                )


def file_schema(path: str, options: Given) -> pa.Schema:
    """Columns and types as the head of the file shows them; null: it shows no value."""
    if (given := options.get("schema")) is not None:
        with reading(path, "JSON"):
            stat(path)
        assert isinstance(given, pa.Schema)
        return given
    types, n_bytes = options.get("types"), options.get("sample_bytes", _SAMPLE_BYTES)
    assert isinstance(n_bytes, int)
    with reading(path, "JSON"):
        head = next(_blocks(path, n_bytes), b"")
        if not head or head.isspace():
            return types or pa.schema([])
        _n_objects(head)
        _check_depth(head)
        found = _rows(head, types, "infer").schema
        return pa.schema(list(zip(found.names, found.types, strict=True)))  # decodes names


def units(path: str, options: Given) -> list[Unit]:
    """One unit; the number of its rows is unknown."""
    with reading(path, "JSON"):
        return [Unit(0, stat(path).st_size)]


def read_units(
    path: str, options: Given, schema: pa.Schema, begin: int, end: int, *, strict: bool = False
) -> Iterator[pa.RecordBatch]:
    """All rows with the columns and types of `schema`; an error names the line.

    Other fields are left out; when `strict`, they are an error.
    """
    n_lines = 0
    with reading(path, "JSON"):
        for data in _blocks(path, _BLOCK_BYTES):
            try:
                table, bad = parse(data, schema, strict=strict), None
            except ValueError as error:
                table, bad = _until_bad(data, schema, error, strict)
            yield from table.to_batches()
            if bad is not None:
                at = n_lines + bad.line
                raise DataError(f"{path} can't be read from line {at} on: {bad.why}")
            n_lines += data.count(b"\n")


def parse(data: bytes, schema: pa.Schema, *, strict: bool = False) -> pa.Table:
    """Whole lines as rows with the columns and types of `schema`; `ValueError` for anything else.

    >>> parse(b'{"a": 1}\\nnull\\n', pa.schema([("a", pa.int64())]))
    Traceback (most recent call last):
    ValueError: b'null' is no JSON object
    """
    if not data or data.isspace():
        return schema.empty_table()
    n_objects = _n_objects(data)
    table = _rows(data, schema, "error" if strict else "ignore").select(schema.names)
    if table.num_rows != n_objects:
        raise ValueError(f"{n_objects} lines hold {table.num_rows} values; write one a line")
    if not data.isascii():
        table.validate(full=True)  # the parser takes any bytes for text
    return table


def _rows(data: bytes, schema: Any, others: str) -> pa.Table:
    """With fields that are not in `schema` as pyarrow's `unexpected_field_behavior` says."""
    block = pj.ReadOptions(block_size=max(1, len(data)), use_threads=False)
    parsed = schema and pa.schema([(field.name, _parsed(field.type)) for field in schema])
    known = pj.ParseOptions(explicit_schema=parsed, unexpected_field_behavior=others)
    table = pj.read_json(pa.BufferReader(data), read_options=block, parse_options=known)
    if parsed is None or parsed.equals(schema):
        return table
    wanted = [schema.field(f.name) if f.name in schema.names else f for f in table.schema]
    return table.cast(pa.schema(wanted))


def _parsed(dtype: pa.DataType) -> pa.DataType:
    """The type that Arrow's parser reads what becomes `dtype` as: it knows no dates, for one."""
    if t.is_date(dtype):
        return pa.string()
    if t.is_float16(dtype):
        return pa.float32()
    if t.is_struct(dtype):
        fields = [dtype.field(place) for place in range(dtype.num_fields)]
        return pa.struct([(field.name, _parsed(field.type)) for field in fields])
    if t.is_list(dtype) or t.is_large_list(dtype) or t.is_fixed_size_list(dtype):
        return pa.list_(_parsed(dtype.value_type))
    return dtype


def _unreadable(dtype: pa.DataType) -> pa.DataType | None:
    """What of a type has no form in JSON that is read, or None."""
    if t.is_struct(dtype):
        inner = (_unreadable(dtype.field(place).type) for place in range(dtype.num_fields))
        return next((bad for bad in inner if bad is not None), None)
    if t.is_list(dtype) or t.is_large_list(dtype) or t.is_fixed_size_list(dtype):
        return _unreadable(dtype.value_type)
    bad = (t.is_time, t.is_duration, t.is_interval, t.is_nested, t.is_dictionary)
    return dtype if any(test(dtype) for test in bad) else None


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


def _until_bad(
    data: bytes, schema: pa.Schema, error: ValueError, strict: bool
) -> tuple[pa.Table, _Bad]:
    """The rows before the first line that can't be read, and that line."""
    lines = data.split(b"\n")
    good, bad = 0, len(lines)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            parse(b"\n".join(lines[good:middle]), schema, strict=strict)
            good = middle
        except ValueError as found:
            bad, error = middle, found
    table = parse(b"\n".join(lines[:good]), schema, strict=strict)
    # Arrow counts rows from wherever this part of the file began.
    why = re.sub(r" in row \d+$", "", first_line(error))
    if "unexpected field" in why:
        why += "; it is not in the file's head, so name it: types={…}, or raise sample_bytes="
    return table, _Bad(good + 1, why)


def _blocks(path: str, n_bytes: int) -> Iterator[bytes]:
    """Whole lines, about `n_bytes` at a time; unpacked where the file's ending says so."""
    with pa.input_stream(path) as opened, BufferedReader(opened) as file:
        head = file.peek(_PEEK_BYTES).removeprefix(_BOM).lstrip()
        if head.startswith(b"["):
            yield from objects(file, n_bytes)
            return
        while data := file.read(n_bytes):
            rest = file.readline(_LINE_BYTES_MAX)
            if len(rest) == _LINE_BYTES_MAX and not rest.endswith(b"\n"):
                raise ValueError(f"it has a line of more than {_LINE_BYTES_MAX} bytes")
            yield data + rest
