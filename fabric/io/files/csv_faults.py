"""What Arrow's parser says of a CSV file, in words that name the column and what to write.

One job: `told`, around every reading of a CSV file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import DataError
from fabric.io.local_files import first_line

_COLUMN = re.compile(
    r"In CSV column #(\d+): (?:CSV conversion error to .*?(?:\[.*?\]|\(.*?\))?: )?"
)
_FIELDS = re.compile(r"Expected (?P<expected>\d+) columns, got (?P<got>\d+): (?P<line>.*)")
_ZONE = re.compile(r"(expected (?:a|no) zone offset in ('.*?')).*")
Names = Callable[[], list[str]]
Texts = Callable[[str], Iterator[pa.RecordBatch]]


@contextmanager
def told(
    path: str, schema: pa.Schema | None, names: Names, texts: Texts, n_names: int = 0
) -> Iterator[None]:
    """Turn the parser's errors into `DataError`.

    `names` looks up the file's columns, `texts` reads one of them as text; so many names of columns
    were given.
    """
    try:
        yield
    except pa.ArrowInvalid as error:
        found = _FIELDS.search(first_line(error))
        if found and n_names == int(found["expected"]):
            raise DataError(
                f"a line of {path} has {found['got']} fields, and names= gives {n_names} columns: "
                f"{found['line']}; name every column of the file, or, where only some lines "
                'differ, read it with ragged="fill" (missing fields null, others cut off) or "skip"'
            ) from error
        if found:
            raise DataError(
                f"{path} is not a whole CSV file: {first_line(error)}; write it anew, or "
                'read it with ragged="fill" (missing fields null, others cut off) or "skip"'
            ) from error
        if _COLUMN.match(str(error)) is None:
            raise
        why = value_fault(error, schema, names(), texts)
        raise DataError(f"a value of {path} does not fit its column {why}") from error


def value_fault(
    error: pa.ArrowInvalid, schema: pa.Schema | None, names: list[str], texts: Texts
) -> str:
    """Which column and type, what was wrong with the value, and what to do."""
    text = first_line(error)
    match = _COLUMN.match(text)
    if match is None:
        return text
    name, text = names[int(match[1])], text[match.end() :]
    dtype = schema.field(name).type if schema is not None and name in schema.names else None
    detail = text
    if found := _ZONE.match(text):
        detail = found[1]
    elif "Rescaling" in text and dtype is not None:
        values = (_unfit(batch.column(0), dtype) for batch in texts(name))
        value = next((value for value in values if value is not None), "")
        detail = f"{value!r} has more digits behind the point"
    return f"{name!r} of type {dtype}, {FROM}: {detail}; {_way(name, dtype, text)}"


FROM = "which was given, or found from the file's head"


def _unfit(texts: pa.Array, dtype: pa.DataType) -> str | None:
    """The first text that has more digits behind the point than a decimal type."""
    for text in texts.drop_null().to_pylist():
        try:
            pa.array([text.strip()]).cast(dtype)
        except pa.ArrowInvalid:
            return str(text)
    return None


def _way(name: str, dtype: pa.DataType | None, text: str) -> str:
    as_text = f'types={{"{name}": "string"}}'
    if "UTF8" in text:
        as_bytes = as_text.replace("string", "binary")
        return f'name the encoding of its texts: encoding="latin-1", or read bytes: {as_bytes}'
    if (way := zone_way(name, dtype, text)) is not None:
        return way
    if dtype is not None and t.is_integer(dtype) and re.search(r"'-?\d+'$", text):
        return f'name the type: types={{"{name}": "decimal(38,0)"}} or {as_text}'
    return f"name the type: {as_text}, or what means null: null_values=[…]"


def zone_way(name: str, dtype: pa.DataType | None, text: str) -> str | None:
    """What to write where a time has a zone and its column's type has none, or the reverse."""
    if dtype is None or not t.is_timestamp(dtype):
        return None
    if "expected a zone offset" in text:
        plain = f'types={{"{name}": "timestamp[{dtype.unit}]"}}'
        return f'read it without its zone, {plain}, then .dt.replace_time_zone("{dtype.tz}")'
    if "expected no zone offset" in text:
        return f'name a zone: types={{"{name}": "timestamp[{dtype.unit}, tz=UTC]"}}'
    return None
