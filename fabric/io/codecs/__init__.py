"""Row formats: what a record's bytes mean, for Kafka, files and calls alike.

One job: from a `RowFormat` to its columns (`format_schema`), its check before a plan runs
(`check_format`), its decoder and encoder. Options, by format:

    avro                   record_name: of a schema that is made of the columns ("Row")
    json, protobuf         none
    csv                    delimiter (default ","), quote (default '"', reading), null_values and
                           ragged ("error", "fill"; reading), quote_style ("necessary", "always",
                           "never"; writing): as files of CSV have them, without a header
    text, raw              none; one column: its text, whatever scalar it is, or just its bytes
    ipc                    none; Arrow IPC streams, or record batch messages

What is null, missing, repeated or bad in a value is said by the decoders (`fabric._cython.codecs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import pyarrow as pa
from pyarrow import types as t

from fabric._cython.codecs.lines import CsvDecoder, CsvEncoder, TextDecoder, TextEncoder
from fabric._cython.codecs.results import Decoded
from fabric.errors import ConfigError, PlanError
from fabric.io.codecs.ipc import IpcDecoder, IpcEncoder
from fabric.io.codecs.json import check_json, columns_of_json, json_decoder, json_encoder
from fabric.io.files.options import check_known
from fabric.plan.sources import OptionValue, RowFormat

OPTIONS: dict[str, dict[str, type]] = {
    "csv": {
        "delimiter": str, "quote": str, "null_values": tuple, "ragged": str, "quote_style": str
    },
    "avro": {"record_name": str},
}  # fmt: skip
"""The options of each format with their types; a format that is not here has none."""


class RowDecoder(Protocol):
    """Values to rows; `is_native`: native code may call its C++."""

    @property
    def is_native(self) -> bool: ...  # noqa: D102
    @property
    def schema(self) -> pa.Schema: ...  # noqa: D102
    def decode(self, values: pa.Array | pa.ChunkedArray) -> Decoded: ...  # noqa: D102


class RowEncoder(Protocol):
    """Rows to values; `is_native`: native code may call its C++."""

    @property
    def is_native(self) -> bool: ...  # noqa: D102
    @property
    def schema(self) -> pa.Schema: ...  # noqa: D102
    def encode(self, batch: pa.RecordBatch) -> pa.Array: ...  # noqa: D102


def format_schema(format: RowFormat, subject: str) -> pa.Schema | None:
    """The columns that the format's schema tells, or the newest of `subject`; None: it has none.

    Raises
    ------
    PlanError
        If its schema is none.
    ExternalError
        If the registry does not answer.
    """
    match format.name:
        case "json":
            return columns_of_json(format, subject)
        case "avro":
            from fabric.io.codecs.avro import avro_columns

            return avro_columns(format, subject)
        case "protobuf":
            from fabric.io.codecs.protobuf import protobuf_columns

            return protobuf_columns(format, subject)
    return None


def check_format(format: RowFormat, schema: pa.Schema, *, writes: bool) -> None:
    """Refuse what the format can't read, or write, before anything runs.

    >>> check_format(RowFormat("csv"), pa.schema([("a", pa.list_(pa.int8()))]), writes=True)
    Traceback (most recent call last):
    fabric.errors.PlanError: csv: column 'a' is a list, which a line of CSV can't hold

    Raises
    ------
    ConfigError
        If it has an option that there is not, or of a wrong value.
    PlanError
        If it has no form for a column, or the registry would refuse its schema.
    """
    _options(format)
    try:
        match format.name:
            case "json":
                check_json(format, schema, writes=writes)
            case "avro":
                from fabric.io.codecs.avro import check_avro

                check_avro(format, schema, writes=writes)
            case "protobuf":
                from fabric.io.codecs.protobuf import check_protobuf

                check_protobuf(format, schema, writes=writes)
            case _ if writes:
                make_encoder(format, schema)
            case _:
                make_decoder(format, schema)
    except ConfigError:
        raise
    except ValueError as error:
        raise PlanError(f"{format.name}: {error}") from error


def make_decoder(
    format: RowFormat, schema: pa.Schema, columns: Iterable[str] | None = None
) -> RowDecoder:
    """The decoder of rows of `schema`, all fields of a value, to its `columns` (None: all).

    Raises
    ------
    ConfigError, PlanError
        As `check_format`.
    """
    names = schema.names if columns is None else [*columns]
    wanted = pa.schema([schema.field(name) for name in names])
    options = _options(format)
    try:
        match format.name:
            case "json":
                return json_decoder(format, wanted)
            case "avro":
                from fabric.io.codecs.avro import avro_decoder

                return avro_decoder(format, wanted)
            case "protobuf":
                from fabric.io.codecs.protobuf import protobuf_decoder

                return protobuf_decoder(format, wanted)
            case "csv":
                return _csv_decoder(schema, names, options)
            case "text":
                return TextDecoder(_one_column(format, schema, wanted))
            case "raw":
                return TextDecoder(_bytes_column(format, schema, wanted))
            case "ipc":
                return IpcDecoder(wanted)
    except ValueError as error:
        raise PlanError(f"{format.name}: {error}") from error
    raise PlanError(f"rows of the format {format.name!r} can't be read")


def make_encoder(format: RowFormat, schema: pa.Schema) -> RowEncoder:
    """The encoder of rows of `schema`; with a registry its schema is registered now.

    Raises
    ------
    ConfigError, PlanError
        As `check_format`.
    """
    options = _options(format)
    try:
        match format.name:
            case "json":
                return json_encoder(format, schema)
            case "avro":
                from fabric.io.codecs.avro import avro_encoder

                return avro_encoder(format, schema)
            case "protobuf":
                from fabric.io.codecs.protobuf import protobuf_encoder

                return protobuf_encoder(format, schema)
            case "csv":
                style = str(options.get("quote_style", "necessary"))
                return CsvEncoder(schema, str(options.get("delimiter", ",")), style)
            case "text":
                return TextEncoder(_one_column(format, schema, schema))
            case "raw":
                return TextEncoder(_bytes_column(format, schema, schema))
            case "ipc":
                return IpcEncoder(schema)
    except ValueError as error:
        raise PlanError(f"{format.name}: {error}") from error
    raise PlanError(f"rows can't be written in the format {format.name!r}")


def _options(format: RowFormat) -> Mapping[str, OptionValue]:
    known = OPTIONS.get(format.name, {})
    options = check_known(f"format {format.name}", known, format.options)
    for name, allowed in (
        ("ragged", ("error", "fill")),
        ("quote_style", ("necessary", "always", "never")),
    ):
        if options.get(name, allowed[0]) not in allowed:
            raise ConfigError(
                f"option {name} of format {format.name} is one of {', '.join(allowed)}, "
                f"got {options[name]!r}"
            )
    return options


def _csv_decoder(
    schema: pa.Schema, names: list[str], options: Mapping[str, OptionValue]
) -> CsvDecoder:
    nulls = options.get("null_values", ())
    assert isinstance(nulls, tuple)
    return CsvDecoder(
        schema,
        names,
        str(options.get("delimiter", ",")),
        str(options.get("quote", '"')),
        nulls,
        fill=options.get("ragged") == "fill",
    )


def _one_column(format: RowFormat, schema: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    if len(schema) != 1:
        raise PlanError(
            f"a value in the format {format.name} is one column, got {len(schema)}: {schema.names}"
        )
    return wanted if len(wanted) else schema


def _bytes_column(format: RowFormat, schema: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    field = _one_column(format, schema, wanted).field(0)
    tests = (t.is_string, t.is_large_string, t.is_string_view, t.is_binary, t.is_large_binary)
    more = (t.is_binary_view, t.is_fixed_size_binary)
    if not any(test(field.type) for test in tests + more):
        raise PlanError(
            f"a value in the format raw is the bytes of a text or binary column; {field.name!r} is "
            f"{field.type}, so cast it or use the format text"
        )
    return pa.schema([field])
