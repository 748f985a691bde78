"""Row formats: how a record's bytes are decoded and encoded, for Kafka, files and calls alike.

One job: from a `RowFormat` to its columns (`format_schema`), its check before a plan runs
(`check_format`), its decoder and encoder. Each format is a `Codec` in the table `CODECS`. Options:

    avro                   record_name: of a schema derived from the columns ("Row")
    json, protobuf         none
    csv                    delimiter (default ","), quote (default '"', reading), null_values and
                           ragged ("error", "fill"; reading), quote_style ("necessary", "always",
                           "never"; writing): as in CSV files, without a header
    text, raw              none; one column: any scalar as text, or plain bytes
    ipc                    none; Arrow IPC streams, or record batch messages

The decoders (`fabric._cython.codecs`) document null, missing, repeated and bad values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol, TypeAlias

import pyarrow as pa
from pyarrow import types as t

from fabric._cython.codecs.results import Decoded
from fabric._cython.codecs.text import CsvDecoder, CsvEncoder, TextDecoder, TextEncoder
from fabric.errors import ConfigError, PlanError
from fabric.io.codecs.ipc import IpcDecoder, IpcEncoder
from fabric.io.codecs.json import check_json, columns_of_json, json_decoder, json_encoder
from fabric.io.files.options import check_known
from fabric.plan.places import OptionValue, RowFormat, RowFormatName

Options: TypeAlias = Mapping[str, OptionValue]


class RowDecoder(Protocol):
    """Decodes values into rows; `is_native`: native code may call it directly."""

    @property
    def is_native(self) -> bool: ...  # noqa: D102
    @property
    def schema(self) -> pa.Schema: ...  # noqa: D102
    def decode(self, values: pa.Array | pa.ChunkedArray) -> Decoded: ...  # noqa: D102


class RowEncoder(Protocol):
    """Encodes rows as values; `is_native`: native code may call it directly."""

    @property
    def is_native(self) -> bool: ...  # noqa: D102
    @property
    def schema(self) -> pa.Schema: ...  # noqa: D102
    def encode(self, batch: pa.RecordBatch) -> pa.Array: ...  # noqa: D102


def format_schema(format: RowFormat, subject: str) -> pa.Schema | None:
    """The columns of the format's schema, or of the newest schema of `subject`; None without one.

    Raises
    ------
    PlanError, DataError
        If the schema is invalid.
    ExternalError
        If the registry does not respond.
    """
    return _codec(format).columns(format, subject)


def check_format(format: RowFormat, schema: pa.Schema, *, writes: bool) -> None:
    """Refuse columns and options that the format can't read, or write, before anything runs.

    >>> check_format(RowFormat("csv"), pa.schema([("a", pa.list_(pa.int8()))]), writes=True)
    Traceback (most recent call last):
    fabric.errors.PlanError: csv: column 'a' is a list, which a line of CSV can't hold

    Raises
    ------
    ConfigError
        If an option is unknown or has an invalid value.
    PlanError
        If the format can't represent a column, or the registry would reject the schema.
    """
    codec, options = _codec(format), _options(format)
    with _refusing(format):
        if codec.check is not None:
            codec.check(format, schema, writes=writes)
        elif writes:
            codec.encoder(format, schema, options)
        else:
            codec.decoder(format, schema, schema, options)


def make_decoder(
    format: RowFormat, schema: pa.Schema, columns: Iterable[str] | None = None
) -> RowDecoder:
    """A decoder of values whose fields are `schema`, into the chosen `columns` (None: all).

    Raises
    ------
    ConfigError, PlanError
        As `check_format`.
    """
    names = schema.names if columns is None else columns
    wanted = pa.schema([schema.field(name) for name in names])
    with _refusing(format):
        return _codec(format).decoder(format, schema, wanted, _options(format))


def make_encoder(format: RowFormat, schema: pa.Schema) -> RowEncoder:
    """An encoder of rows of `schema`; with a registry, the schema is registered now.

    Raises
    ------
    ConfigError, PlanError
        As `check_format`.
    """
    with _refusing(format):
        return _codec(format).encoder(format, schema, _options(format))


@contextmanager
def _refusing(format: RowFormat) -> Iterator[None]:
    """What a codec says of columns, as a `PlanError` that names the format."""
    try:
        yield
    except ConfigError:
        raise
    except ValueError as error:
        raise PlanError(f"{format.name}: {error}") from error


# ---- the formats


class Check(Protocol):
    """The check of a format; see `check_format`."""

    def __call__(self, format: RowFormat, columns: pa.Schema, *, writes: bool) -> None:
        """Refuse columns that the format can't read, or write."""


@dataclass(frozen=True, slots=True)
class Codec:
    """The parts of a format.

    `decoder` receives all columns of a value, and the wanted ones. `columns` returns the columns of
    the format's own schema, or of its subject in a registry. Without a `check`, creating a decoder
    or an encoder is the check.
    """

    decoder: Callable[[RowFormat, pa.Schema, pa.Schema, Options], RowDecoder]
    encoder: Callable[[RowFormat, pa.Schema, Options], RowEncoder]
    columns: Callable[[RowFormat, str], pa.Schema | None] = lambda format, subject: None
    check: Check | None = None
    options: Mapping[str, type] = field(default_factory=dict)


def _json() -> Codec:
    return Codec(
        lambda format, schema, wanted, options: json_decoder(format, wanted),
        lambda format, schema, options: json_encoder(format, schema),
        columns_of_json,
        check_json,
    )


def _avro() -> Codec:
    from fabric.io.codecs.avro import avro_columns, avro_decoder, avro_encoder, check_avro

    return Codec(
        lambda format, schema, wanted, options: avro_decoder(format, wanted),
        lambda format, schema, options: avro_encoder(format, schema),
        avro_columns,
        check_avro,
        {"record_name": str},
    )


def _protobuf() -> Codec:
    from fabric.io.codecs import protobuf

    return Codec(
        lambda format, schema, wanted, options: protobuf.protobuf_decoder(format, wanted),
        lambda format, schema, options: protobuf.protobuf_encoder(format, schema),
        protobuf.protobuf_columns,
        protobuf.check_protobuf,
    )


def _csv() -> Codec:
    options = {
        "delimiter": str, "quote": str, "null_values": tuple, "ragged": str, "quote_style": str
    }  # fmt: skip
    return Codec(_csv_decoder, _csv_encoder, options=options)


def _text(column: Callable[[RowFormat, pa.Schema, pa.Schema], pa.Schema]) -> Codec:
    """Of a format with one column, which `column` checks."""
    return Codec(
        lambda format, schema, wanted, options: TextDecoder(column(format, schema, wanted)),
        lambda format, schema, options: TextEncoder(column(format, schema, schema)),
    )


def _ipc() -> Codec:
    return Codec(
        lambda format, schema, wanted, options: IpcDecoder(wanted),
        lambda format, schema, options: IpcEncoder(schema),
    )


CODECS: Mapping[RowFormatName, Callable[[], Codec]] = {
    "json": _json, "avro": _avro, "protobuf": _protobuf, "csv": _csv, "ipc": _ipc,
    "text": lambda: _text(_one_column), "raw": lambda: _text(_bytes_column),
}  # fmt: skip
"""By name; called when a format is first used, since some import packages that others do not need.
"""


@cache
def _codec_of(name: RowFormatName) -> Codec:
    return CODECS[name]()


def _codec(format: RowFormat) -> Codec:
    return _codec_of(format.name)


def _options(format: RowFormat) -> Options:
    options = check_known(f"format {format.name}", dict(_codec(format).options), format.options)
    for name, allowed in (
        ("ragged", ("error", "fill")),
        ("quote_style", ("necessary", "always", "never")),
    ):
        if options.get(name, allowed[0]) not in allowed:
            raise ConfigError(
                f"option {name} of format {format.name} must be one of {', '.join(allowed)}, "
                f"got {options[name]!r}"
            )
    return options


def _csv_decoder(
    format: RowFormat, schema: pa.Schema, wanted: pa.Schema, options: Options
) -> CsvDecoder:
    nulls = options.get("null_values", ())
    assert isinstance(nulls, tuple)
    return CsvDecoder(
        schema,
        wanted.names,
        str(options.get("delimiter", ",")),
        str(options.get("quote", '"')),
        nulls,
        fill=options.get("ragged") == "fill",
    )


def _csv_encoder(format: RowFormat, schema: pa.Schema, options: Options) -> CsvEncoder:
    style = str(options.get("quote_style", "necessary"))
    return CsvEncoder(schema, str(options.get("delimiter", ",")), style)


def _one_column(format: RowFormat, schema: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    if len(schema) != 1:
        raise PlanError(
            f"format {format.name} has one column, got {len(schema)}: {', '.join(schema.names)}"
        )
    return wanted if len(wanted) else schema


def _bytes_column(format: RowFormat, schema: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    field = _one_column(format, schema, wanted).field(0)
    tests = (t.is_string, t.is_large_string, t.is_string_view, t.is_binary, t.is_large_binary)
    more = (t.is_binary_view, t.is_fixed_size_binary)
    if not any(test(field.type) for test in tests + more):
        raise PlanError(
            f"format raw needs a string or binary column, and column {field.name!r} is "
            f"{field.type}; cast it, or use format text"
        )
    return pa.schema([field])
