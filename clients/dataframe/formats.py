"""Row formats, which encode rows as bytes, for users: ``fabric.formats``.

One job: a `RowFormat` for `read_kafka`, `write_kafka` and whatever else stores one row per message.
A format without options can be given by its name alone: ``format="json"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import get_args

from fabric.clients.dataframe import names
from fabric.errors import ConfigError, PlanError
from fabric.plan.faults import quoted
from fabric.plan.places import OptionValue, RowFormat, RowFormatName, SubjectStrategy

__all__ = ["avro", "csv", "ipc", "json", "protobuf", "raw", "text", "to_format"]

_NAMES: tuple[str, ...] = get_args(RowFormatName)
_STRATEGIES: tuple[str, ...] = get_args(SubjectStrategy)


def json(
    *,
    schema: str = "",
    registry: str = "",
    subject: str = "",
    strategy: SubjectStrategy = "topic",
    registry_settings: Mapping[str, object] | None = None,
    **options: OptionValue,
) -> RowFormat:
    """One JSON object per row; with a `registry`, each value starts with the id of a JSON Schema.

    A missing field is null; a field without a column is ignored. A value that does not fit its
    column exactly makes the record unreadable. Null values are rows of nulls.

    Parameters
    ----------
    schema
        The text of a JSON Schema that defines the columns and their types.
    registry
        The URL of a schema registry with Confluent's API; `registry_settings` as for `avro`.
    subject, strategy
        The subject of the schema: `subject`, or else a name derived by the strategy ``topic``,
        ``record`` or ``topic_record``.

    Raises
    ------
    PlanError
        If an argument is invalid, or needs a `registry` that is not given.

    Examples
    --------
    >>> from fabric import formats
    >>> formats.json().name
    'json'
    """
    given = (tuple(options.items()), schema, "", registry, subject, strategy)
    return _format(RowFormat("json", *given), registry_settings)


def avro(
    schema: str = "",
    *,
    registry: str = "",
    subject: str = "",
    strategy: SubjectStrategy = "topic",
    registry_settings: Mapping[str, object] | None = None,
    **options: OptionValue,
) -> RowFormat:
    """Avro: plain values of `schema`; with a `registry`, each value starts with its schema's id.

    Null values are rows of nulls; a field is null if its union has a null branch.

    Parameters
    ----------
    schema
        The text of an Avro schema. With a registry, the schema to read rows as, or to write them
        with; by default the newest one of the subject, or one derived from the columns.
    registry
        The URL of a schema registry with Confluent's API.
    subject, strategy
        The subject of the schema: `subject`, or else a name derived by the strategy ``topic``,
        ``record`` or ``topic_record``.
    registry_settings
        ``basic.auth.user.info`` (``user:password``), ``bearer.auth.token``, ``ssl.ca.location``,
        ``ssl.certificate.location``, ``ssl.key.location``; ``request.timeout.ms`` and ``wait.ms``
        (how long to wait for an unreachable registry, 60 000 by default). Files are read on this
        machine; secrets are never shown.
    options
        ``record_name``: the name of the record if the schema is derived from the columns.

    Raises
    ------
    PlanError
        If an argument is invalid, or needs a `registry` that is not given.

    Examples
    --------
    >>> from fabric import formats
    >>> formats.avro(registry="http://registry:8081", registry_settings={
    ...     "basic.auth.user.info": "ada:secret"})
    RowFormat(name='avro', options=(), schema_text='', message='', \
registry='http://registry:8081', subject='', strategy='topic', registry_settings=())
    """
    given = (tuple(options.items()), schema, "", registry, subject, strategy)
    return _format(RowFormat("avro", *given), registry_settings)


def protobuf(
    schema: str = "",
    message: str = "",
    *,
    registry: str = "",
    subject: str = "",
    strategy: SubjectStrategy = "topic",
    registry_settings: Mapping[str, object] | None = None,
    **options: OptionValue,
) -> RowFormat:
    """Protobuf: the `message` of a .proto file, given as text in `schema` or by a `registry`.

    Without a `message` it is the first one of the file. Fields that do not track presence read as
    their type's zero, others as null. Arguments and errors are as for `avro`.

    >>> from fabric import formats
    >>> click = 'syntax = "proto3"; message Click { int64 user = 1; string page = 2; }'
    >>> formats.protobuf(click, "Click").message
    'Click'
    """
    given = (tuple(options.items()), schema, message, registry, subject, strategy)
    return _format(RowFormat("protobuf", *given), registry_settings)


def csv(**options: OptionValue) -> RowFormat:
    """One line of CSV per row, without a header; an empty field is null.

    `options` are ``delimiter``, ``quote``, ``null_values``, ``ragged`` and ``quote_style``, as for
    CSV files.

    >>> from fabric import formats
    >>> formats.csv(delimiter=";").options
    (('delimiter', ';'),)
    """
    return _format(RowFormat("csv", tuple(options.items())))


def text() -> RowFormat:
    """UTF-8 text: one column of strings; the same as ``format="text"``.

    >>> from fabric import formats
    >>> formats.text().name
    'text'
    """
    return RowFormat("text")


def raw() -> RowFormat:
    """Bytes: one column of binary; the same as ``format="raw"``.

    >>> from fabric import formats
    >>> formats.raw().name
    'raw'
    """
    return RowFormat("raw")


def ipc() -> RowFormat:
    """Arrow IPC streams: one message holds any number of rows; the same as ``format="ipc"``.

    >>> from fabric import formats
    >>> formats.ipc().name
    'ipc'
    """
    return RowFormat("ipc")


def to_format(given: str | RowFormat, verb: str, name: str = "format") -> RowFormat:
    """The format given as argument `name` of `verb`; raises `PlanError`.

    >>> to_format("json", "read_kafka").name
    'json'
    """
    if isinstance(given, RowFormat):
        return given
    return RowFormat(names.choice(given, _NAMES, verb, name))  # type: ignore[arg-type]


def _format(given: RowFormat, registry_settings: Mapping[str, object] | None = None) -> RowFormat:
    """`given` with the settings of its registry; raises `PlanError` if an argument is invalid."""
    from fabric.io.kafka.settings import check_url, set_apart  # for start-up time

    verb = f"formats.{given.name}"
    if isinstance(given.schema_text, Path):
        line = f"schema=Path({quoted(str(given.schema_text))}).read_text()"
        raise PlanError(f"{verb}: schema must be the text of a schema, not a path; write: {line}")
    named = (
        ("schema", given.schema_text), ("message", given.message), ("registry", given.registry),
        ("subject", given.subject),
    )  # fmt: skip
    for argument, value in named:
        names.text(value, verb, argument)
    names.choice(given.strategy, _STRATEGIES, verb, "strategy")
    try:
        settings, secrets = set_apart(registry_settings or {})
        if given.registry:
            check_url("registry", given.registry)
    except ConfigError as error:
        raise PlanError(f"{verb}: {error.message}") from None
    if not given.registry and (lost := _of_registry(given, registry_settings)):
        raise PlanError(f"{verb}: {lost}= needs a schema registry; set registry= as well")
    options = tuple(sorted(given.options))
    return replace(given, options=options, registry_settings=settings, registry_secrets=secrets)


def _of_registry(given: RowFormat, settings: Mapping[str, object] | None) -> str:
    """The name of an argument that needs a registry, if one is given."""
    if settings:
        return "registry_settings"
    if given.subject:
        return "subject"
    return "" if given.strategy == "topic" else "strategy"
