"""Rows of Avro by a row format: the columns, the decoder and the encoder of one.

One job: where the writer's schema comes from. Without a registry it is the format's `schema_text`,
for every row. With one, each row names its own: it is asked for once, when it is met first, and
`schema_text` (else nothing but the columns) is what all are read as. See `avro_program`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from fabric._cython.codecs.avro import AvroDecoder, AvroEncoder
from fabric._cython.codecs.codec import flat_type
from fabric.errors import DataError, NotFoundError, PlanError
from fabric.io.codecs.avro_arrow import arrow_schema, derived_avro
from fabric.io.codecs.avro_nodes import Program
from fabric.io.codecs.avro_program import avro_program
from fabric.io.codecs.avro_schema import AvroType, parse_avro, written
from fabric.io.codecs.avro_written import written_program
from fabric.io.codecs.written_schema import (
    WrittenSchema,
    check_registered,
    header_of,
    written_schema,
)
from fabric.plan.sources import RowFormat

if TYPE_CHECKING:
    from fabric.io.kafka.registry import Registered


def avro_columns(format: RowFormat, subject: str) -> pa.Schema | None:
    """The columns of rows of `format`; None when neither it nor the registry knows them.

    Raises
    ------
    PlanError
        If the schema is none, or of no columns.
    """
    avro = _read_as(format, subject)
    return None if avro is None else arrow_schema(avro)


def avro_decoder(format: RowFormat, columns: pa.Schema) -> AvroDecoder:
    """The decoder of `columns`; behind a registry's ids each row by its own schema.

    Raises
    ------
    PlanError
        If a column can't be read from the schema.
    """
    reader = parse_avro(format.schema_text) if format.schema_text else None
    flat = _flat(columns)
    if not format.registry:
        if reader is None:
            raise PlanError("Avro without a registry needs its schema; write: formats.avro(schema)")
        return AvroDecoder(columns, avro_program(reader, flat))
    from fabric.io.kafka.registry import registry_of

    registry = registry_of(format)

    def lookup(schema_id: int) -> Program | str:
        try:
            return avro_program(registered_avro(registry.schema(schema_id)), flat, reader)
        except NotFoundError as error:
            return error.message
        except (PlanError, DataError) as error:
            return f"it was written by schema {schema_id}: {error.message}"

    return AvroDecoder(columns, lookup=lookup)


def avro_encoder(format: RowFormat, columns: pa.Schema) -> AvroEncoder:
    """The encoder of `columns`, whose schema is registered now if there is a registry.

    Raises
    ------
    PlanError
        If a column has no form in the schema, or the registry refuses it.
    """
    schema, avro = _written_as(format, columns)
    program = _program(columns, avro)
    return AvroEncoder(columns, program, header=header_of(format, schema))


def check_avro(format: RowFormat, columns: pa.Schema, *, writes: bool) -> None:
    """Refuse columns that can't be read or written, and what the registry would not take.

    Raises
    ------
    PlanError
        With the path of the column and the two types, or the registry's reason.
    """
    if not writes:
        avro = _read_as(format, format.subject)
        if avro is not None:
            avro_program(avro, _flat(columns), avro if format.registry else None)
        return
    schema, avro = _written_as(format, columns)
    _program(columns, avro)
    check_registered(format, schema)


def registered_avro(found: Registered) -> AvroType:
    """The type that a schema of the registry declares.

    Raises
    ------
    DataError
        If it is not one of Avro.
    """
    if found.kind != "AVRO":
        raise DataError(f"schema {found.id} of the registry is of type {found.kind}, not AVRO")
    return parse_avro(found.text, [text for _, text in found.needed])


def _program(columns: pa.Schema, avro: AvroType) -> Program:
    return written_program(_flat(columns), avro)


def _flat(columns: pa.Schema) -> pa.Schema:
    return pa.schema([(one.name, flat_type(one.type)) for one in columns])


def _read_as(format: RowFormat, subject: str) -> AvroType | None:
    """The reader's schema: given, or the newest of its subject."""
    if format.schema_text:
        return parse_avro(format.schema_text)
    if not format.registry or not subject:
        return None
    from fabric.io.kafka.registry import registry_of

    return registered_avro(registry_of(format).newest(subject))


def _written_as(format: RowFormat, columns: pa.Schema) -> tuple[WrittenSchema, AvroType]:
    def derived() -> str:
        return written(derived_avro(_flat(columns), record_name(format)))

    found = written_schema(format, "AVRO", derived)
    return found, parse_avro(found.text, [text for _, text in found.needed])


def record_name(format: RowFormat) -> str:
    """What the record of columns is called: the option ``record_name``, else ``Row``."""
    return str(dict(format.options).get("record_name", "Row"))
