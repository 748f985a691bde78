"""The Avro row format: its columns, decoder and encoder.

One job: where the writer's schema comes from. Without a registry it is the format's `schema_text`,
for every row. With one, each row has the id of its schema, which is looked up once, and all rows
are read as `schema_text`, or else as the columns alone. See `avro_program`.
"""

from __future__ import annotations

import pyarrow as pa

from fabric._cython.codecs.binary import AvroDecoder, AvroEncoder
from fabric.errors import DataError, NotFoundError, PlanError
from fabric.io.codecs.avro_arrow import arrow_schema, derived_avro, record_name
from fabric.io.codecs.avro_nodes import Program
from fabric.io.codecs.avro_reader import avro_program
from fabric.io.codecs.avro_schema import AvroType, parse_avro, written
from fabric.io.codecs.avro_writer import written_program
from fabric.io.schema_registry.subjects import (
    WrittenSchema,
    check_registered,
    header_of,
    newest_schema,
    registered_avro,
    written_schema,
)
from fabric.io.schemas import flat_schema
from fabric.plan.places import RowFormat


def avro_columns(format: RowFormat, subject: str) -> pa.Schema | None:
    """The columns of rows of `format`; None without a schema of its own or in the registry.

    Raises
    ------
    PlanError, DataError
        If the schema is invalid, or does not describe columns.
    """
    avro = _read_as(format, subject)
    return None if avro is None else arrow_schema(avro)


def avro_decoder(format: RowFormat, columns: pa.Schema) -> AvroDecoder:
    """A decoder of `columns`; with a registry, each row is decoded by its own schema.

    Raises
    ------
    PlanError
        If a column can't be read from the schema.
    """
    reader = parse_avro(format.schema_text) if format.schema_text else None
    flat = flat_schema(columns)
    if not format.registry:
        if reader is None:
            raise PlanError("Avro without a registry needs a schema; write: formats.avro(schema)")
        return AvroDecoder(columns, avro_program(reader, flat))
    from fabric.io.schema_registry.client import registry_of

    registry = registry_of(format)

    def lookup(schema_id: int) -> Program | str:
        try:
            return avro_program(registered_avro(registry.schema(schema_id)), flat, reader)
        except NotFoundError as error:
            return error.message
        except (PlanError, DataError) as error:
            return f"the value was written with schema {schema_id}: {error.message}"

    return AvroDecoder(columns, lookup=lookup)


def avro_encoder(format: RowFormat, columns: pa.Schema) -> AvroEncoder:
    """An encoder of `columns`; with a registry, their schema is registered now.

    Raises
    ------
    PlanError
        If the schema can't represent a column, or the registry rejects it.
    """
    schema, avro = _written_as(format, columns)
    program = written_program(flat_schema(columns), avro)
    return AvroEncoder(columns, program, header=header_of(format, schema))


def check_avro(format: RowFormat, columns: pa.Schema, *, writes: bool) -> None:
    """Refuse columns that can't be read or written, and a schema that the registry would reject.

    Raises
    ------
    PlanError
        The message names the column's path and both types, or the registry's reason.
    """
    if not writes:
        avro = _read_as(format, format.subject)
        if avro is not None:
            avro_program(avro, flat_schema(columns), avro if format.registry else None)
        return
    schema, avro = _written_as(format, columns)
    written_program(flat_schema(columns), avro)
    check_registered(format, schema)


def _read_as(format: RowFormat, subject: str) -> AvroType | None:
    """The reader's schema: the given one, or the newest of its subject."""
    if format.schema_text:
        return parse_avro(format.schema_text)
    found = newest_schema(format, subject, "AVRO")
    return None if found is None else registered_avro(found)


def _written_as(format: RowFormat, columns: pa.Schema) -> tuple[WrittenSchema, AvroType]:
    def derived() -> str:
        return written(derived_avro(flat_schema(columns), record_name(format)))

    found = written_schema(format, "AVRO", derived)
    return found, parse_avro(found.text, [text for _, text in found.needed])
