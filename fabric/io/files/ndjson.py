"""Files with a JSON object a line, read by Arrow's parser a block at a time.

One job: read NDJSON. Types come from the first `sample_bytes` of the first file; a later value that
does not fit its column's type is a `DataError` that names the file. Fields that nobody asked for
are left out, missing ones are null. A unit is the whole file. Options:

    sample_bytes   how much is looked at for types; default 8388608
"""

from __future__ import annotations

from collections.abc import Iterator
from os import stat

import pyarrow as pa
import pyarrow.json as pj

from fabric.errors import ConfigError
from fabric.io.faults import reading
from fabric.io.files.units import Unit

OPTIONS = frozenset(("sample_bytes",))
_SAMPLE_BYTES, _BLOCK_BYTES = 8 << 20, 4 << 20


def file_schema(path: str, options: dict[str, str]) -> pa.Schema:
    """Columns and types as the head of the file shows them; a column of only nulls is a string."""
    text = options.get("sample_bytes", str(_SAMPLE_BYTES))
    if not text.isdigit() or not int(text):
        raise ConfigError(f"option sample_bytes must be a positive number, got {text!r}")
    block = pj.ReadOptions(block_size=int(text), use_threads=False)
    with reading(path, "NDJSON"), pj.open_json(path, read_options=block) as reader:
        found = reader.schema
    return pa.schema(
        [
            (field.name, pa.string() if pa.types.is_null(field.type) else field.type)
            for field in found
        ]
    )


def units(path: str, options: dict[str, str]) -> list[Unit]:
    """One unit; the number of its rows is unknown."""
    with reading(path, "NDJSON"):
        return [Unit(0, stat(path).st_size)]


def read_units(
    path: str, options: dict[str, str], schema: pa.Schema, begin: int, end: int
) -> Iterator[pa.RecordBatch]:
    """All rows with the columns and types of `schema`."""
    with reading(path, "NDJSON"):
        if not stat(path).st_size:
            return
        block = pj.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False)
        with pj.open_json(path, read_options=block, parse_options=_parse(schema)) as reader:
            for batch in reader:
                yield batch.select(schema.names)


def parse(data: pa.Buffer, schema: pa.Schema) -> pa.Table:
    """Whole lines as rows with the columns and types of `schema`."""
    block = pj.ReadOptions(block_size=max(1, data.size), use_threads=False)
    table = pj.read_json(pa.BufferReader(data), read_options=block, parse_options=_parse(schema))
    return table.select(schema.names)


def _parse(schema: pa.Schema) -> pj.ParseOptions:
    return pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
