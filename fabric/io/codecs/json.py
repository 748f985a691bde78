"""Rows of JSON by a row format: plain documents, or behind a registry's ids of JSON Schemas.

One job: the schema of a format of JSON. A document says its own names, so a reader needs no schema
but its columns: what a row's id says is not looked up.
"""

from __future__ import annotations

import pyarrow as pa

from fabric._cython.codecs.json import JsonDecoder, JsonEncoder
from fabric.errors import DataError
from fabric.io.codecs.json_schema import derived_json_schema, json_columns
from fabric.io.codecs.written_schema import (
    WrittenSchema,
    check_registered,
    header_of,
    written_schema,
)
from fabric.plan.sources import RowFormat


def columns_of_json(format: RowFormat, subject: str) -> pa.Schema | None:
    """The columns that the format's JSON Schema tells, or the registry's; None: there is none.

    Raises
    ------
    PlanError
        If the schema is none, or of no columns.
    """
    text = _text(format, subject)
    return None if text is None else json_columns(text)


def json_decoder(format: RowFormat, columns: pa.Schema) -> JsonDecoder:
    """The decoder of `columns`; with a registry each value begins with an id."""
    return JsonDecoder(columns, framed=bool(format.registry))


def json_encoder(format: RowFormat, columns: pa.Schema) -> JsonEncoder:
    """The encoder of `columns`, whose schema is registered now if there is a registry.

    Raises
    ------
    PlanError
        If the registry refuses the schema.
    """
    return JsonEncoder(columns, prefix=header_of(format, _written_as(format, columns)))


def check_json(format: RowFormat, columns: pa.Schema, *, writes: bool) -> None:
    """Refuse columns that JSON has no form for, and a schema that the registry would not take.

    Raises
    ------
    PlanError
        With the column, or the registry's reason.
    """
    if not writes:
        json_decoder(format, columns)
        return
    JsonEncoder(columns)
    check_registered(format, _written_as(format, columns))


def _text(format: RowFormat, subject: str) -> str | None:
    if format.schema_text:
        return format.schema_text
    if not format.registry or not subject:
        return None
    from fabric.io.kafka.registry import registry_of

    found = registry_of(format).newest(subject)
    if found.kind != "JSON":
        raise DataError(f"schema {found.id} of the registry is of type {found.kind}, not JSON")
    return found.text


def _written_as(format: RowFormat, columns: pa.Schema) -> WrittenSchema:
    return written_schema(format, "JSON", lambda: derived_json_schema(columns))
