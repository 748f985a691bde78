"""CSV files, read by Arrow's parser a block at a time.

One job: read CSV. Types come from the first `sample_bytes` of the first file; a later value that
does not fit its column's type is a `DataError` that names the file. A unit is the whole file.
Options:

    delimiter      one character; default ","
    quote          one character, or empty for no quoting; default '"'
    header         "true" (default) or "false": columns are then called f0, f1, ...
    null_values    texts that mean null, separated by commas; default is an empty field, NA, N/A,
                   NULL and null in columns of numbers and dates, and nothing in text columns
    encoding       default utf8
    sample_bytes   how much is looked at for types; default 8388608
    types          "name:type" pairs separated by commas, e.g. "flight:int64,tailnum:string"
"""

from __future__ import annotations

from collections.abc import Iterator
from os import stat

import pyarrow as pa
import pyarrow.csv as pc

from fabric.errors import ConfigError, DataError
from fabric.io.faults import first_line, reading
from fabric.io.files.units import Unit

OPTIONS = frozenset(
    ("delimiter", "quote", "header", "null_values", "encoding", "sample_bytes", "types")
)
_SAMPLE_BYTES = 8 << 20
_NULLS = ["", "NA", "N/A", "NULL", "null"]
_BLOCK_BYTES = 4 << 20


def file_schema(path: str, options: dict[str, str]) -> pa.Schema:
    """Columns and types as the head of the file shows them; a column of only nulls is a string."""
    sample = _number(options, "sample_bytes", _SAMPLE_BYTES)
    with reading(path, "CSV"), _open(path, options, None, None, sample) as reader:
        found = reader.schema
    types = _types(options)
    unknown = [name for name in types if name not in found.names]
    if unknown:
        raise ConfigError(f"option types names {unknown[0]!r}, which {path} does not have")
    fields = []
    for field in found:
        dtype = types.get(field.name, field.type)
        fields.append((field.name, pa.string() if pa.types.is_null(dtype) else dtype))
    return pa.schema(fields)


def units(path: str, options: dict[str, str]) -> list[Unit]:
    """One unit; the number of its rows is unknown."""
    with reading(path, "CSV"):
        return [Unit(0, stat(path).st_size)]


def read_units(
    path: str,
    options: dict[str, str],
    schema: pa.Schema,
    begin: int,
    end: int,
) -> Iterator[pa.RecordBatch]:
    """All rows with the columns and types of `schema`."""
    with reading(path, "CSV"):
        try:
            with _open(path, options, schema, schema.names, _BLOCK_BYTES) as reader:
                yield from reader
        except pa.ArrowKeyError as error:
            found = file_schema(path, options).names
            missing = next(name for name in schema.names if name not in found)
            raise DataError(
                f"{path} has no column {missing!r}; it has {', '.join(found)}"
            ) from error
        except pa.ArrowInvalid as error:
            if "conversion error" not in str(error):
                raise
            raise DataError(
                f"a value of {path} does not fit its column, whose type was found from the file's "
                f'head: {first_line(error)}; name the type, as in types="column:string"'
            ) from error


def has_header(options: dict[str, str]) -> bool:
    """Whether the first line names the columns."""
    return _flag(options, "header", True)


def parse(data: pa.Buffer, options: dict[str, str], schema: pa.Schema) -> pa.Table:
    """Whole lines as rows with the columns and types of `schema`."""
    with _open(pa.BufferReader(data), options, schema, schema.names, max(1, data.size)) as reader:
        return reader.read_all()


def _open(
    file: str | pa.NativeFile,
    options: dict[str, str],
    schema: pa.Schema | None,
    columns: list[str] | None,
    block_bytes: int,
) -> pc.CSVStreamingReader:
    header = _flag(options, "header", True)
    nulls = options.get("null_values")
    convert = pc.ConvertOptions(
        column_types=schema,
        include_columns=columns,
        null_values=_NULLS if nulls is None else nulls.split(","),
        strings_can_be_null=nulls is not None,
    )
    quote = options.get("quote", '"')
    parse = pc.ParseOptions(
        delimiter=_character("delimiter", options.get("delimiter", ",")),
        quote_char=_character("quote", quote) if quote else False,
    )
    read = pc.ReadOptions(
        block_size=block_bytes,
        autogenerate_column_names=not header,
        encoding=options.get("encoding", "utf8"),
    )
    return pc.open_csv(file, read_options=read, parse_options=parse, convert_options=convert)


def _flag(options: dict[str, str], name: str, default: bool) -> bool:
    value = options.get(name, "true" if default else "false").lower()
    if value not in ("true", "false"):
        raise ConfigError(f"option {name} must be true or false, got {value!r}")
    return value == "true"


def _character(name: str, value: str) -> str:
    if len(value.encode()) != 1:
        raise ConfigError(f"option {name} must be one character, got {value!r}")
    return value


def _number(options: dict[str, str], name: str, default: int) -> int:
    value = options.get(name, str(default))
    if not value.isdigit() or int(value) <= 0:
        raise ConfigError(f"option {name} must be a positive number, got {value!r}")
    return int(value)


def _types(options: dict[str, str]) -> dict[str, pa.DataType]:
    types = {}
    for pair in filter(None, options.get("types", "").split(",")):
        name, _, text = pair.rpartition(":")
        try:
            types[name] = pa.type_for_alias(text)
        except ValueError:
            raise ConfigError(
                f"option types has {pair!r}; write name:type, as in flight:int64"
            ) from None
    return types
