"""The JSON row format: plain documents, or documents with the schema id of a registry.

One job: the schema of a JSON format. A document contains its field names, so a reader needs only
its columns and never looks up the schema id of a row.
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
    """The columns of the format's JSON Schema, or of the registry's; None without a schema.

    Raises
    ------
    PlanError
        If the schema is invalid, or does not describe columns.
    """
    text = _text(format, subject)
    return None if text is None else json_columns(text)


def json_decoder(format: RowFormat, columns: pa.Schema) -> JsonDecoder:
    """A decoder of `columns`; with a registry, each value starts with a schema id."""
    return JsonDecoder(columns, framed=bool(format.registry))


def json_encoder(format: RowFormat, columns: pa.Schema) -> JsonEncoder:
    """An encoder of `columns`; with a registry, their schema is registered now.

    Raises
    ------
    PlanError
        If the registry rejects the schema.
    """
    return JsonEncoder(columns, prefix=header_of(format, _written_as(format, columns)))


def check_json(format: RowFormat, columns: pa.Schema, *, writes: bool) -> None:
    """Refuse columns that JSON can't represent, and a schema that the registry would reject.

    Raises
    ------
    PlanError
        The message names the column, or the registry's reason.
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
        raise DataError(f"schema {found.id} of the registry is {found.kind}, expected JSON")
    return found.text


def _written_as(format: RowFormat, columns: pa.Schema) -> WrittenSchema:
    return written_schema(format, "JSON", lambda: derived_json_schema(columns))
