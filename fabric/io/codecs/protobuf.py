"""The Protobuf row format: its columns, decoder and encoder.

One job: which message type a row has. Without a registry it is `message` of the format's
`schema_text`. With one, a row has a schema id and the indexes of the message in that schema. It is
read by the field numbers of the reader's message if there is one, as Protobuf intends, or else of
the writer's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FileDescriptor

from fabric._cython.codecs.binary import ProtobufDecoder, ProtobufEncoder
from fabric.errors import DataError, NotFoundError, PlanError
from fabric.io.codecs.avro_nodes import varint
from fabric.io.codecs.protobuf_arrow import derived_proto, message_schema
from fabric.io.codecs.protobuf_program import Program, protobuf_program
from fabric.io.codecs.protobuf_schema import (
    file_of,
    indexes_of,
    is_compiled,
    message_at,
    message_of,
)
from fabric.io.schema_registry.subjects import (
    WrittenSchema,
    check_kind,
    check_registered,
    header_of,
    newest_schema,
    written_schema,
)
from fabric.io.schemas import flat_schema
from fabric.plan.places import RowFormat

if TYPE_CHECKING:
    from fabric.io.schema_registry.client import Registered


def protobuf_columns(format: RowFormat, subject: str) -> pa.Schema | None:
    """The columns of rows of `format`; None without a schema of its own or in the registry.

    Raises
    ------
    PlanError
        If the schema has no such message, or the message is recursive.
    """
    found = _known(format, subject)
    return None if found is None else message_schema(found)


def protobuf_decoder(format: RowFormat, columns: pa.Schema) -> ProtobufDecoder:
    """A decoder of `columns`; with a registry, each row is decoded by its own message type.

    Raises
    ------
    PlanError
        If a column can't be read from the message.
    """
    reader = _given(format)
    flat = flat_schema(columns)
    if not format.registry:
        if reader is None:
            raise PlanError(
                "Protobuf without a registry needs a schema; write: formats.protobuf(schema)"
            )
        return ProtobufDecoder(columns, protobuf_program(reader, flat))
    from fabric.io.schema_registry.client import registry_of

    registry = registry_of(format)
    wanted = reader.full_name if reader is not None else format.message

    def lookup(schema_id: int, indexes: tuple[int, ...]) -> Program | str:
        try:
            writer = message_at(_file(registry.schema(schema_id)), indexes)
            if wanted and wanted not in (writer.full_name, writer.name):
                raise DataError(f"it is a message {writer.full_name}, expected {wanted}")
            return protobuf_program(reader or writer, flat)
        except NotFoundError as error:
            return error.message
        except (PlanError, DataError) as error:
            return f"the value was written with schema {schema_id}: {error.message}"

    return ProtobufDecoder(columns, lookup=lookup)


def protobuf_encoder(format: RowFormat, columns: pa.Schema) -> ProtobufEncoder:
    """An encoder of `columns`; with a registry, their schema is registered now.

    Raises
    ------
    PlanError
        If the message can't represent a column, or the registry rejects the schema.
    """
    schema, message = _written_as(format, columns)
    program = protobuf_program(message, flat_schema(columns), writes=True)
    header = header_of(format, schema)
    if header:
        header += _written_indexes(message)
    return ProtobufEncoder(columns, program, header=header)


def check_protobuf(format: RowFormat, columns: pa.Schema, *, writes: bool) -> None:
    """Refuse columns that can't be read or written, and a schema that the registry would reject.

    Raises
    ------
    PlanError
        The message names the column's path and both types, or the registry's reason.
    """
    if not writes:
        if (known := _known(format, format.subject)) is not None:
            protobuf_program(known, flat_schema(columns))
        return
    schema, message = _written_as(format, columns)
    protobuf_program(message, flat_schema(columns), writes=True)
    check_registered(format, schema)


def _file(found: Registered) -> FileDescriptor:
    check_kind(found, "PROTOBUF")
    return file_of(found.text, found.needed)


def _given(format: RowFormat) -> Descriptor | None:
    if not format.schema_text:
        return None
    return message_of(file_of(format.schema_text), format.message)


def _known(format: RowFormat, subject: str) -> Descriptor | None:
    """The message type of rows: the given one, or that of the newest schema of its subject."""
    if (given := _given(format)) is not None:
        return given
    found = newest_schema(format, subject, "PROTOBUF")
    return None if found is None else message_of(_file(found), format.message)


def _written_as(format: RowFormat, columns: pa.Schema) -> tuple[WrittenSchema, Descriptor]:
    name = format.message or "Row"
    found = written_schema(format, "PROTOBUF", lambda: derived_proto(flat_schema(columns), name))
    if format.registry and is_compiled(found.text):
        raise PlanError("a registry stores .proto texts; give the text, not a compiled file")
    return found, message_of(file_of(found.text, found.needed), format.message)


def _written_indexes(message: Descriptor) -> bytes:
    """The encoded message indexes: count and values; the first message is a single 0."""
    indexes = indexes_of(message)
    if indexes == (0,):
        return b"\0"
    return b"".join(varint(one) for one in (len(indexes), *indexes))
