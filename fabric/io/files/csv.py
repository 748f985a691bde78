"""CSV files, read by Arrow's parser a block at a time.

One job: read CSV. Types come from the first `sample_bytes` of a file; a later value that does not
fit its column's type is a `DataError` that names the file. A unit is the whole file.

An empty field is null, also in columns of text; a quoted empty one is the text "". `null_values`
are null besides, unless they are quoted. That is how Polars reads, and what Spark, Polars and
DuckDB write (readers of the other two take both for null). Options:

    delimiter      one character; default ","
    quote          one character, or empty for no quoting; default '"'
    escape         one character that takes the next one as it is, inside quotes; default none
    header         whether the first line names the columns; default True, False with `names`
    names          the columns' names, in place of the header's; without both: f0, f1, ...
    null_values    texts that mean null, as the empty field does
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

from collections.abc import Iterator
from io import BytesIO
from os import stat
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
from pyarrow import types as t

from fabric.errors import ConfigError, DataError
from fabric.io.faults import first_line, reading
from fabric.io.files.csv_lines import LineRules, Lines
from fabric.io.files.units import Given, Unit

OPTIONS: dict[str, type] = {
    "delimiter": str, "quote": str, "escape": str, "header": bool, "names": tuple,
    "null_values": tuple, "encoding": str, "skip_rows": int, "n_rows": int, "comment": str,
    "ragged": str, "decimal": str, "date_format": str, "sample_bytes": int, "types": pa.Schema,
    "schema": pa.Schema,
}  # fmt: skip
_SAMPLE_BYTES, _BLOCK_BYTES, _HEADER_BYTES = 8 << 20, 4 << 20, 64 << 10
_RAGGED = ("error", "fill", "skip")
_TIME_OF_DAY = ("%H", "%I", "%M", "%S", "%T", "%R", "%c", "%s", "%X")


def check(options: Given) -> None:
    """Refuse values that mean nothing."""
    for name in ("delimiter", "quote", "escape", "decimal"):
        value = str(options.get(name, ","))
        if len(value.encode()) != 1 and (value or name not in ("quote", "escape")):
            raise ConfigError(f"option {name} must be one character, got {value!r}")
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
            if t.is_nested(field.type) or t.is_dictionary(field.type):
                raise ConfigError(
                    f"option {name}: a column of a CSV file can't be a {field.type} "
                    f"({field.name!r}); read it as string"
                )


def file_schema(path: str, options: Given) -> pa.Schema:
    """Columns and types as the head of the file shows them; null: it shows no value."""
    given, types = _schema(options, "schema"), _schema(options, "types")
    sample = options.get("sample_bytes", _SAMPLE_BYTES) if given is None else _HEADER_BYTES
    assert isinstance(sample, int)
    with reading(path, "CSV"), _Ragged(path), _open(path, options, None, sample) as reader:
        found = reader.schema
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


def _type_of(field: pa.Field, types: pa.Schema | None, options: Given) -> pa.DataType:
    if types is not None and field.name in types.names:
        return types.field(field.name).type
    if t.is_timestamp(field.type) and "date_format" in options and not _has_time(options):
        return pa.date32()
    return field.type


def units(path: str, options: Given) -> list[Unit]:
    """One unit; the number of its rows is unknown."""
    with reading(path, "CSV"):
        return [Unit(0, stat(path).st_size)]


def read_units(
    path: str,
    options: Given,
    schema: pa.Schema,
    begin: int,
    end: int,
) -> Iterator[pa.RecordBatch]:
    """All rows with the columns and types of `schema`."""
    with reading(path, "CSV"), _Ragged(path):
        try:
            with _open(path, options, schema, _BLOCK_BYTES) as reader:
                yield from _cut(reader, options, schema)
        except pa.ArrowKeyError as error:
            with _open(path, options, None, _HEADER_BYTES) as reader:
                found = reader.schema.names
            missing = next(name for name in schema.names if name not in found)
            raise DataError(
                f"{path} has no column {missing!r}; it has {', '.join(found)}"
            ) from error
        except pa.ArrowInvalid as error:
            if "conversion error" not in str(error):
                raise
            raise DataError(
                f"a value of {path} does not fit its column, whose type was given, or found from "
                f"the file's head: {first_line(error)}; name the type: "
                f'types={{"column": "string"}}, or what means null: null_values=[…]'
            ) from error


class _Ragged:
    """Says what to do about a line of too few or too many fields."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, pa.ArrowInvalid) and "columns, got" in str(error):
            raise DataError(
                f"{self._path} is not a whole CSV file: {first_line(error)}; write it anew, or "
                'read it with ragged="fill" (missing fields null, others cut off) or "skip"'
            ) from error


def has_header(options: Given) -> bool:
    """Whether the first line names the columns."""
    return bool(options.get("header", "names" not in options))


def parse(data: pa.Buffer, options: Given, schema: pa.Schema) -> pa.Table:
    """Whole lines as rows with the columns and types of `schema`."""
    with _open(pa.BufferReader(data), options, schema, max(1, data.size)) as reader:
        return pa.Table.from_batches(_cut(reader, options, schema), schema)


def _cut(
    reader: pc.CSVStreamingReader, options: Given, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """As many rows as are wanted, in the types of `schema`."""
    left = options.get("n_rows")
    for batch in reader:
        rows = batch
        if isinstance(left, int):
            rows = batch.slice(0, left)
            left -= rows.num_rows
        yield rows.cast(schema) if "date_format" in options else rows
        if left == 0:
            return


def _open(
    file: str | pa.NativeFile, options: Given, schema: pa.Schema | None, block_bytes: int
) -> pc.CSVStreamingReader:
    text: dict[str, str] = {
        name: value for name, value in options.items() if isinstance(value, str)
    }
    header, names = has_header(options), _names(options)
    quote, escape = text.get("quote", '"'), text.get("escape", "")
    date_format = text.get("date_format")
    nulls = options.get("null_values", ())
    assert isinstance(nulls, tuple)
    convert = pc.ConvertOptions(
        column_types=_read_types(schema, date_format),
        include_columns=None if schema is None else schema.names,
        null_values=["", *nulls],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        decimal_point=text.get("decimal", "."),
        timestamp_parsers=[date_format] if date_format else None,
    )
    parse = pc.ParseOptions(
        delimiter=text.get("delimiter", ","),
        quote_char=quote or False,
        escape_char=escape or False,
        newlines_in_values=bool(quote),
    )
    skip, encoding = options.get("skip_rows", 0), text.get("encoding", "utf8")
    assert isinstance(skip, int)
    if text.get("comment") or text.get("ragged", "error") != "error":
        n_fields = len(names or ())
        rules = LineRules(
            parse.delimiter, quote, escape, skip, text.get("comment", ""),
            text.get("ragged", "error"), n_fields,
        )  # fmt: skip
        file, skip, encoding = _mended(file, rules, encoding), 0, "utf8"
    read = pc.ReadOptions(
        block_size=block_bytes,
        column_names=names,
        autogenerate_column_names=not header and names is None,
        skip_rows=skip + (header and names is not None),
        encoding=encoding,
    )
    return pc.open_csv(file, read_options=read, parse_options=parse, convert_options=convert)


def _names(options: Given) -> list[str] | None:
    names = options.get("names")
    given = _schema(options, "schema")
    if names is None and given is not None and not has_header(options):
        names = tuple(given.names)
    return list(names) if isinstance(names, tuple) else None


def _mended(file: str | pa.NativeFile, rules: LineRules, encoding: str) -> pa.PythonFile:
    opened: Any = pa.input_stream(file) if isinstance(file, str) else BytesIO(file.readall())
    if encoding.lower().replace("-", "") != "utf8":
        opened = pa.transcoding_input_stream(opened, encoding, "utf8")
    from io import BufferedReader

    buffered = BufferedReader(opened) if isinstance(opened, pa.NativeFile) else opened
    return pa.PythonFile(Lines(buffered, rules), mode="r")


def _read_types(schema: pa.Schema | None, date_format: str | None) -> pa.Schema | None:
    """Types that the parser converts to: it knows formats of timestamps, not of dates."""
    if schema is None or date_format is None:
        return schema
    return pa.schema([(f.name, pa.timestamp("s") if t.is_date(f.type) else f.type) for f in schema])


def _has_time(options: Given) -> bool:
    return any(directive in str(options["date_format"]) for directive in _TIME_OF_DAY)


def _schema(options: Given, name: str) -> pa.Schema | None:
    value = options.get(name)
    return value if isinstance(value, pa.Schema) else None
