"""Files with a JSON object a line, or one array of objects, read a block at a time.

One job: read JSON by Arrow's parser. Types come from the first `sample_bytes` of a file; a later
value that does not fit its column's type is a `DataError` that names the file, as is a field that
comes first behind them. Missing fields are null. A unit is the whole file. Texts that are ISO 8601
dates or times are timestamps, see `json_types`; in a column that is given as text, other values are
text as they are written. Options:

    sample_bytes   how much is looked at for types; default 8388608
    types          types of some columns
    schema         all columns to read and their types: other fields are left out

Lines are looked at before Arrow's parser has them: pyarrow 25 dies of a ``null`` that comes first,
and makes a row of nulls of a later one; where it finds types it dies of values nested too deep.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from io import BufferedReader

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyarrow import types as t

from fabric.errors import ConfigError, DataError
from fabric.io import local_files
from fabric.io.files import Given, Unit, store_of
from fabric.io.files.csv_faults import zone_way
from fabric.io.files.json_input import as_texts, objects
from fabric.io.files.json_types import found_types, leaves
from fabric.io.files.options import check_zones
from fabric.io.files.text_values import decimal_beyond
from fabric.io.local_files import first_line, reading

OPTIONS: dict[str, type] = {"sample_bytes": int, "types": pa.Schema, "schema": pa.Schema}
_SAMPLE_BYTES, _BLOCK_BYTES, _LINE_BYTES_MAX = 8 << 20, 4 << 20, 64 << 20
_DEPTH_MAX, _PEEK_BYTES = 100, 1 << 10
_BOM = b"\xef\xbb\xbf"
_OBJECT = re.compile(rb"^[ \t\r]*\{", re.MULTILINE)
_CHANGED = re.compile(r"Column\((.*)\) (changed from .*)")
_TWICE = re.compile(r"Column\((.*)\) was specified twice")
_UNFIT = re.compile(r"Failed to convert JSON to (.*?), couldn't parse:\s*(.*)")
_NOT_UTF8 = "has bytes that are not valid UTF-8, which JSON is; write the file anew in UTF-8"
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
        check_zones(name, given if isinstance(given, pa.Schema) else ())


def file_schema(path: str, options: Given) -> pa.Schema:
    """Columns and types as the head of the file shows them; null: it shows no value."""
    if (given := options.get("schema")) is not None:
        with reading(path, "JSON"):
            local_files.n_bytes(path, store_of(options))
        assert isinstance(given, pa.Schema)
        return given
    types, n_bytes = options.get("types"), options.get("sample_bytes", _SAMPLE_BYTES)
    assert isinstance(n_bytes, int)
    with reading(path, "JSON"):
        head = next(_blocks(path, options, n_bytes), b"")
        if not head or head.isspace():
            return types or pa.schema([])
        try:
            return _found(head, options)
        except ValueError as error:
            bad = _first_bad(head, options, error)
            raise DataError(f"{path} can't be read from line {bad.line} on: {bad.why}") from error


def _found(head: bytes, options: Given) -> pa.Schema:
    """Columns and types of whole lines; those that were given have the given ones."""
    types = options.get("types")
    given = types if isinstance(types, pa.Schema) else pa.schema([])
    _n_objects(head)
    _check_depth(head)
    table = _rows(head, given, "infer", texts_given(options))
    names = [name for name in table.schema.names if name not in given.names]  # decodes names
    found = found_types(head, table.select(names), lambda some: _rows(head, some, "ignore"))
    columns = [given.field(n) if n in given.names else found.field(n) for n in table.schema.names]
    return pa.schema([(field.name, field.type) for field in columns])


def texts_given(options: Given) -> tuple[str, ...]:
    """Columns that are text because the user says so: other values are as they are written."""
    given = options.get("types", options.get("schema"))
    tests = (t.is_string, t.is_large_string, t.is_string_view)
    fields = given if isinstance(given, pa.Schema) else ()
    return tuple(field.name for field in fields if any(test(field.type) for test in tests))


def units(path: str, options: Given) -> list[Unit]:
    """One unit; the number of its rows is unknown."""
    with reading(path, "JSON"):
        return [Unit(0, local_files.n_bytes(path, store_of(options)))]


def read_units(
    path: str, options: Given, schema: pa.Schema, begin: int, end: int, *, strict: bool = False
) -> Iterator[pa.RecordBatch]:
    """All rows with the columns and types of `schema`; an error names the line.

    Other fields are left out; when `strict`, they are an error.
    """
    n_lines, texts = 0, texts_given(options)
    with reading(path, "JSON"):
        for data in _blocks(path, options, _BLOCK_BYTES):
            try:
                table, bad = parse(data, schema, texts, strict=strict), None
            except ValueError as error:
                table, bad = _until_bad(data, schema, error, (texts, strict))
            yield from table.to_batches()
            if bad is not None:
                at = n_lines + bad.line
                raise DataError(f"{path} can't be read from line {at} on: {bad.why}")
            n_lines += data.count(b"\n")


def parse(
    data: bytes, schema: pa.Schema, texts: Collection[str] = (), *, strict: bool = False
) -> pa.Table:
    """Whole lines as rows with the columns and types of `schema`; `ValueError` for anything else.

    In columns named in `texts` any value is text.

    >>> parse(b'{"a": 1}\\nnull\\n', pa.schema([("a", pa.int64())]))
    Traceback (most recent call last):
    ValueError: 'null' is not a JSON object
    """
    if not data or data.isspace():
        return schema.empty_table()
    n_objects = _n_objects(data)
    table = _rows(data, schema, "error" if strict else "ignore", texts).select(schema.names)
    if table.num_rows != n_objects:
        lines = "1 line holds" if n_objects == 1 else f"{n_objects} lines hold"
        raise ValueError(f"{lines} {table.num_rows} values; write one a line")
    if not data.isascii():
        _check_utf8(table)  # the parser takes any bytes for text
    return table


def _check_utf8(table: pa.Table) -> None:
    for name in table.schema.names:
        try:
            table[name].validate(full=True)
        except pa.ArrowInvalid as error:
            raise ValueError(f"a text of column {name!r} {_NOT_UTF8}") from error


def _rows(data: bytes, schema: pa.Schema, others: str, texts: Collection[str] = ()) -> pa.Table:
    """With fields that are not in `schema` as pyarrow's `unexpected_field_behavior` says."""
    block = pj.ReadOptions(block_size=max(1, len(data)), use_threads=False)
    parsed = pa.schema([(field.name, _parsed(field.type)) for field in schema])
    known = pj.ParseOptions(explicit_schema=parsed, unexpected_field_behavior=others)
    try:
        table = pj.read_json(pa.BufferReader(data), read_options=block, parse_options=known)
    except pa.ArrowInvalid as error:
        if not texts or "changed from" not in str(error):
            raise
        return _rows(as_texts(data, texts), schema, others)
    _check_decimals(table, parsed.names)
    if parsed.equals(schema):
        return table
    for number, name in enumerate(table.schema.names):
        if name in schema.names and parsed.field(name).type != schema.field(name).type:
            column = _converted(name, table.column(number), schema.field(name).type)
            table = table.set_column(number, name, column)
    return table


def _converted(name: str, column: pa.ChunkedArray, dtype: pa.DataType) -> pa.ChunkedArray:
    try:
        found = column.cast(dtype)
    except pa.ArrowInvalid as error:
        text = first_line(error).split(". If these", 1)[0]
        way = zone_way(name, dtype, text) or f'name its type: types={{"{name}": "string"}}'
        raise ValueError(f"column {name!r}: {text}; {way}") from error
    for before, after in zip(column.chunks, found.chunks, strict=True):
        for wide, narrow in zip(leaves(before), leaves(after), strict=True):
            if t.is_float16(narrow.type) and _n_inf(narrow) > _n_inf(wide):
                raise ValueError(
                    f"column {name!r}: a value is too large for {narrow.type}; name a wider type"
                )
    return found


def _n_inf(column: pa.Array) -> int:
    return int(pc.sum(pc.is_inf(column)).as_py() or 0)


def _check_decimals(table: pa.Table, names: Collection[str]) -> None:
    """The parser takes more digits than a type has, where it adds zeros behind the point."""
    for name in names:
        for leaf in (leaf for chunk in table[name].chunks for leaf in leaves(chunk)):
            if t.is_decimal(leaf.type) and (wide := decimal_beyond(leaf, leaf.type)) is not None:
                raise ValueError(
                    f"column {name!r}: {wide} has more digits than {leaf.type}; name a wider type"
                )


def _parsed(dtype: pa.DataType) -> pa.DataType:
    """The type that Arrow's parser reads what becomes `dtype` as."""
    if t.is_date(dtype) or t.is_timestamp(dtype):  # it knows no dates, and loses zones
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
        line = other[1].rstrip().decode(errors="backslashreplace")
        raise ValueError(f"{line!r} is not a JSON object")
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
    data: bytes, schema: pa.Schema, error: ValueError, how: tuple[Collection[str], bool]
) -> tuple[pa.Table, _Bad]:
    """The rows before the first line that can't be read, and that line."""
    lines, (texts, strict) = data.split(b"\n"), how
    good, error = _searched(
        lambda good, end: parse(b"\n".join(lines[good:end]), schema, texts, strict=strict),
        len(lines), error,
    )  # fmt: skip
    table = parse(b"\n".join(lines[:good]), schema, texts, strict=strict)
    return table, _Bad(good + 1, _why(error))


def _first_bad(head: bytes, options: Given, error: ValueError) -> _Bad:
    """The first line of the head that does not go with those before it."""
    lines = head.split(b"\n")
    good, error = _searched(
        lambda _, end: _found(b"\n".join(lines[:end]), options), len(lines), error
    )
    return _Bad(good + 1, _why(error))


def _searched(
    read: Callable[[int, int], object], n_lines: int, error: ValueError
) -> tuple[int, ValueError]:
    """How many lines can be read, and why not the next; `read` tries some behind good ones."""
    good, bad = 0, n_lines
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            read(good, middle)
            good = middle
        except ValueError as found:
            bad, error = middle, found
    return good, error


def _why(error: ValueError) -> str:
    """What Arrow's parser says, by column, and what to do; it counts rows from anywhere."""
    if isinstance(error, UnicodeDecodeError):
        return f"it {_NOT_UTF8}"
    if not isinstance(error, pa.ArrowInvalid):
        return str(error)
    why = re.sub(r" in row \d+$", "", first_line(error)).removeprefix("JSON parse error: ")
    why = why.removesuffix(".")
    if match := _TWICE.match(why):
        return f"key {_dotted(match[1])!r} is there twice; write each key once"
    if match := _CHANGED.match(why):
        name = _dotted(match[1])
        top = name.split(".", 1)[0]
        return f'column {name!r} {match[2]}; read it as text: types={{"{top}": "string"}}'
    if match := _UNFIT.match(why):
        why = f"{match[2]!r} is not a valid {match[1]}; name the type of its column in types={{…}}"
    if "unexpected field" in why:
        why += "; it is not in the file's head, so name it: types={…}, or raise sample_bytes="
    return why


def _dotted(path: str) -> str:
    return ".".join(part for part in path.split("/") if part not in ("", "[]"))


def _blocks(path: str, options: Given, n_bytes: int) -> Iterator[bytes]:
    """Whole lines, about `n_bytes` at a time; unpacked where the file's ending says so."""
    store = store_of(options)
    with local_files.unpacked(path, store) as opened, BufferedReader(opened) as file:
        head = file.peek(_PEEK_BYTES).removeprefix(_BOM).lstrip()
        if head.startswith(b"["):
            yield from objects(file, n_bytes)
            return
        while data := file.read(n_bytes):
            rest = file.readline(_LINE_BYTES_MAX)
            if len(rest) == _LINE_BYTES_MAX and not rest.endswith(b"\n"):
                raise ValueError(f"it has a line of more than {_LINE_BYTES_MAX} bytes")
            yield data + rest
