"""CSV files, read by Arrow's parser a block at a time.

One job: read CSV. Types come from the first `sample_bytes` of a file; a later value that does not
fit its column's type is a `DataError` that names the file. A unit is the whole file.

An empty field is null, also in columns of text; a quoted empty one is the text "". So a blank line
is a row of nulls, but for those before a header; the end of the last line is no row. `null_values`
are null besides, quoted or not. That is how Polars reads, and what Spark, Polars and DuckDB write
(readers of the other two take both for null). Integers beyond int64 are uint64, decimal(38,0) or
text, whichever holds all of the sample first; beside numbers with a point they are doubles.
Options:

    delimiter      one character; default ","
    quote          one character, or empty for no quoting; default '"'
    escape         one character that takes the next one as it is, inside quotes; default none
    header         whether the first line names the columns; default True, False with `names`
    names          the columns' names, in place of the header's; without both: f0, f1, ...
    null_values    texts that mean null in quotes, too; the unquoted empty field always does
    encoding       default utf8
    skip_rows      lines to leave out at the beginning, before the header
    n_rows         how many rows to read at most
    comment        lines that begin with this are left out
    ragged         lines of too few or too many fields: "error" (default), "fill" (missing ones are
                   null, further ones cut off), "skip"
    decimal        the decimal point; default "."
    date_format    of dates and timestamps, in place of ISO 8601, as in "%d.%m.%Y"
    sample_bytes   how much is looked at for types; default 8388608
    types          types of some columns
    schema         all columns to read and their types: nothing is looked at for types
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
from pyarrow import types as t

from fabric.errors import ConfigError, DataError
from fabric.io import local_files
from fabric.io.files import Given, Unit, store_of
from fabric.io.files.csv_faults import told
from fabric.io.files.csv_input import Dialect, opened
from fabric.io.files.options import check_encoding, check_zones
from fabric.io.files.text_values import (
    check_format,
    decimal_beyond,
    exact_type,
    has_time,
    is_by_format,
    may_be_rounded,
    times,
)
from fabric.io.local_files import reading

OPTIONS: dict[str, type] = {
    "delimiter": str, "quote": str, "escape": str, "header": bool, "names": tuple,
    "null_values": tuple, "encoding": str, "skip_rows": int, "n_rows": int, "comment": str,
    "ragged": str, "decimal": str, "date_format": str, "sample_bytes": int, "types": pa.Schema,
    "schema": pa.Schema,
}  # fmt: skip
_SAMPLE_BYTES, _BLOCK_BYTES, _HEADER_BYTES = 8 << 20, 4 << 20, 64 << 10
_RAGGED = ("error", "fill", "skip")


def check(options: Given) -> None:
    """Refuse values that mean nothing."""
    for name in ("delimiter", "quote", "escape", "decimal"):
        value = str(options.get(name, ","))
        if len(value.encode()) != 1 and (value or name not in ("quote", "escape")):
            raise ConfigError(f"option {name} must be one ASCII character, got {value!r}")
    for name, least in (("sample_bytes", 1), ("skip_rows", 0), ("n_rows", 0)):
        number = options.get(name, least)
        if isinstance(number, int) and number < least:
            kind = "a positive number" if least else "a number that is not negative"
            raise ConfigError(f"option {name} must be {kind}, got {number}")
    if options.get("ragged", "error") not in _RAGGED:
        raise ConfigError(
            f"option ragged must be one of {', '.join(_RAGGED)}, got {options['ragged']!r}"
        )
    if "types" in options and "schema" in options:
        raise ConfigError("read_csv takes types= (of some columns) or schema= (all), not both")
    for name in ("types", "schema"):
        for field in _schema(options, name) or ():
            if not _is_parsed(field.type):
                raise ConfigError(
                    f"option {name}: a column of a CSV file can't be read as {field.type} "
                    f"({field.name!r}); read it as string, or as a number, and cast"
                )
            if "date_format" in options:
                check_format(name, field, str(options["date_format"]))
        check_zones(name, _schema(options, name) or ())
    check_encoding(str(options.get("encoding", "utf8")))


def _is_parsed(dtype: pa.DataType) -> bool:
    """Whether Arrow's parser converts texts to the type."""
    tests = (
        t.is_nested, t.is_dictionary, t.is_float16, t.is_string_view, t.is_binary_view,
        t.is_interval, t.is_decimal32, t.is_decimal64, t.is_decimal256,
    )  # fmt: skip
    return not any(test(dtype) for test in tests)


def file_schema(path: str, options: Given) -> pa.Schema:
    """Columns and types as the head of the file shows them; null: it shows no value."""
    given, types = _schema(options, "schema"), _schema(options, "types")
    with reading(path, "CSV"), _telling(path, options, None):
        if given is not None:
            found = pa.schema([(name, pa.null()) for name in _header(path, options)])
        else:
            found = _found(path, options, () if types is None else types.names)
    for name in (given or types or pa.schema([])).names:
        if name not in found.names:
            which = "types" if given is None else "schema"
            raise ConfigError(
                f"option {which} names {name!r}, which {path} does not have; it has "
                f"{', '.join(found.names)}"
            )
    if given is not None:
        return given
    return pa.schema([(field.name, _type_of(field, types, options)) for field in found])


def _header(source: str | pa.Buffer, options: Given) -> list[str]:
    with _open(source, options, None, _HEADER_BYTES) as reader:
        names: list[str] = reader.schema.names
    return names


def _found(path: str, options: Given, given: Sequence[str]) -> pa.Schema:
    """Columns with the types of their first values; those `given` don't matter."""
    sample = options.get("sample_bytes", _SAMPLE_BYTES)
    assert isinstance(sample, int)
    with _open(path, options, None, sample) as reader:
        schema = reader.schema
        has_doubles = any(t.is_float64(f.type) and f.name not in given for f in schema)
        head = next(iter(reader), None) if has_doubles else None
    rounded = []
    for field in schema:
        if field.name in given or schema.names.count(field.name) > 1:
            continue
        if t.is_binary(field.type):
            raise DataError(
                f"column {field.name!r} of {path} has bytes that are not UTF-8; name the encoding "
                f'of its texts, as in encoding="latin-1", or types={{"{field.name}": "binary"}}'
            )
        if head is not None and t.is_float64(field.type) and may_be_rounded(head[field.name]):
            rounded.append(field.name)
    if not rounded:
        return schema
    as_text = pa.schema([(name, pa.string()) for name in rounded])
    with _open(path, options, as_text, sample) as reader:
        texts = next(iter(reader))
    for name in rounded:
        if (dtype := exact_type(texts[name])) is not None:
            schema = schema.set(schema.get_field_index(name), pa.field(name, dtype))
    return schema


def _type_of(field: pa.Field, types: pa.Schema | None, options: Given) -> pa.DataType:
    if types is not None and field.name in types.names:
        return types.field(field.name).type
    if t.is_timestamp(field.type) and "date_format" in options:
        return field.type if has_time(str(options["date_format"])) else pa.date32()
    return field.type


def units(path: str, options: Given) -> list[Unit]:
    """One unit; the number of its rows is unknown."""
    with reading(path, "CSV"):
        return [Unit(0, local_files.n_bytes(path, store_of(options)))]


def read_units(
    path: str,
    options: Given,
    schema: pa.Schema,
    begin: int,
    end: int,
) -> Iterator[pa.RecordBatch]:
    """All rows with the columns and types of `schema`."""
    with reading(path, "CSV"), _telling(path, options, schema):
        try:
            with _open(path, options, schema, _BLOCK_BYTES) as reader:
                yield from _cut(reader, options, schema, path)
        except pa.ArrowKeyError as error:
            found = _header(path, options)
            missing = next(name for name in schema.names if name not in found)
            raise DataError(
                f"{path} has no column {missing!r}; it has {', '.join(found)}"
            ) from error


def _telling(
    source: str | pa.Buffer, options: Given, schema: pa.Schema | None
) -> AbstractContextManager[None]:
    """Around every reading of `source`: errors of values name the column."""

    def texts(name: str) -> Iterator[pa.RecordBatch]:
        with _open(source, options, pa.schema([(name, pa.string())]), _BLOCK_BYTES) as reader:
            yield from reader

    path = source if isinstance(source, str) else "it"
    names = options.get("names", ())
    assert isinstance(names, tuple)
    return told(path, schema, partial(_header, source, options), texts, len(names))


def has_header(options: Given) -> bool:
    """Whether the first line names the columns."""
    return bool(options.get("header", "names" not in options))


def parse(data: pa.Buffer, options: Given, schema: pa.Schema) -> pa.Table:
    """Whole lines as rows with the columns and types of `schema`, which are all that they have."""
    if not has_header(options) and "names" not in options and "schema" not in options:
        options = {**options, "names": tuple(schema.names), "header": False}
    with (
        _telling(data, options, schema),
        _open(data, options, schema, max(1, data.size)) as reader,
    ):
        return pa.Table.from_batches(_cut(reader, options, schema, "it"), schema)


def _cut(
    reader: pc.CSVStreamingReader, options: Given, schema: pa.Schema, path: str
) -> Iterator[pa.RecordBatch]:
    """As many rows as are wanted, in the types of `schema`."""
    left, n_rows = options.get("n_rows"), 0
    for batch in reader:
        rows = batch
        if isinstance(left, int):
            rows = batch.slice(0, left)
            left -= rows.num_rows
        if "date_format" in options:
            rows = _dated(rows, schema, str(options["date_format"]), (path, n_rows))
        _check_decimals(rows, schema, path)
        yield rows
        n_rows += rows.num_rows
        if left == 0:
            return


def _check_decimals(rows: pa.RecordBatch, schema: pa.Schema, path: str) -> None:
    """The parser takes more digits than a type has, where it adds zeros behind the point."""
    for name, dtype in zip(schema.names, schema.types, strict=True):
        if t.is_decimal(dtype) and (wide := decimal_beyond(rows[name], dtype)) is not None:
            raise DataError(
                f"a value of {path} does not fit its column {name!r} of type {dtype}: {wide} has "
                f'too many digits; name the type: types={{"{name}": "string"}}, or a wider one'
            )


def _dated(
    rows: pa.RecordBatch, schema: pa.Schema, format: str, at: tuple[str, int]
) -> pa.RecordBatch:
    columns = list(rows.columns)
    for number, field in enumerate(schema):
        if not is_by_format(field.type):
            continue
        columns[number], bad = times(rows.column(number), field.type, format)
        if bad is not None:
            path, n_rows = at
            raise DataError(
                f"{rows.column(number)[bad].as_py()!r} in row {n_rows + bad + 1} of {path} (column "
                f"{field.name!r}) is not a time of the format {format!r} that there is; correct "
                f'it, or read texts: types={{"{field.name}": "string"}}'
            )
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _open(
    source: str | pa.Buffer, options: Given, schema: pa.Schema | None, block_bytes: int
) -> pc.CSVStreamingReader:
    dialect, date_format = _dialect(options), options.get("date_format")
    assert date_format is None or isinstance(date_format, str)
    convert = pc.ConvertOptions(
        column_types=_read_types(schema, date_format),
        include_columns=None if schema is None else schema.names,
        null_values=["", *dialect.null_values],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        decimal_point=options.get("decimal", "."),
        timestamp_parsers=[date_format] if date_format else None,
    )
    file, read = opened(source, dialect)
    read_options = pc.ReadOptions(block_size=_no_larger(block_bytes, file), **read)
    return pc.open_csv(
        file, read_options=read_options, parse_options=dialect.parse, convert_options=convert
    )


def _no_larger(block_bytes: int, file: pa.NativeFile) -> int:
    """A block is allocated whole, which costs more than reading a small file. What is decompressed
    has no size yet, what is decoded may be larger than its file."""
    if not isinstance(file, pa.OSFile):
        return block_bytes
    n_bytes: int = file.size()
    return min(block_bytes, 4096 + 4 * n_bytes)


def _dialect(options: Given) -> Dialect:
    known = {each.name for each in fields(Dialect)}
    given: dict[str, Any] = {name: value for name, value in options.items() if name in known}
    schema, given["header"] = _schema(options, "schema"), has_header(options)
    given["store"] = store_of(options)
    if schema is not None and not given["header"]:
        given.setdefault("names", tuple(schema.names))
    return Dialect(**given)


def _read_types(schema: pa.Schema | None, date_format: str | None) -> pa.Schema | None:
    """Types that the parser converts to: what has a format is text, which is read by itself."""
    if schema is None or date_format is None:
        return schema
    return pa.schema([(f.name, pa.string() if is_by_format(f.type) else f.type) for f in schema])


def _schema(options: Given, name: str) -> pa.Schema | None:
    value = options.get(name)
    return value if isinstance(value, pa.Schema) else None
