"""How rows are written as bytes, as users say it: ``fabric.formats``.

One job: a `RowFormat` for `read_kafka`, `write_kafka` and whatever else holds one row in one
message. Where a format needs nothing but its name, the name alone does: ``format="json"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import get_args

from fabric.clients.dataframe import names
from fabric.errors import ConfigError, PlanError
from fabric.plan.faults import quoted
from fabric.plan.sources import OptionValue, RowFormat, RowFormatName, SubjectStrategy

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
    """One JSON object a row; with a `registry`, JSON Schema behind the id of a schema.

    Parameters
    ----------
    schema
        A JSON Schema, of which columns and types are taken.
    registry
        URL of a schema registry, as of Confluent's; `registry_settings` as for `avro`.
    subject, strategy
        Under which name schemas are registered: `subject`, else by ``topic``, ``record`` or
        ``topic_record``.

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
    """Avro: bare values of `schema`, or with a `registry` values behind the id of their schema.

    Parameters
    ----------
    schema
        Avro's JSON. With a registry, what rows are read as, or written by (none: what is registered
        last, or what the columns are).
    registry
        URL of a schema registry, as of Confluent's.
    registry_settings
        ``basic.auth.user.info`` (``user:password``), ``bearer.auth.token``, ``ssl.ca.location``,
        ``ssl.certificate.location``, ``ssl.key.location``. Files are read here; what is secret is
        never shown.

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
    """Protobuf: `message` of the .proto file whose text is `schema`, or of a `registry` (`avro`).

    >>> from fabric import formats
    >>> click = 'syntax = "proto3"; message Click { int64 user = 1; string page = 2; }'
    >>> formats.protobuf(click, "Click").message
    'Click'
    """
    given = (tuple(options.items()), schema, message, registry, subject, strategy)
    return _format(RowFormat("protobuf", *given), registry_settings)


def csv(**options: OptionValue) -> RowFormat:
    """One line of CSV a row, without a header; `options` as of `fabric.read_csv`."""
    return _format(RowFormat("csv", tuple(options.items())))


def text() -> RowFormat:
    """UTF-8 text: one column, as it is; by its name, ``format="text"``."""
    return RowFormat("text")


def raw() -> RowFormat:
    """Bytes: one column of binary, as it is."""
    return RowFormat("raw")


def ipc() -> RowFormat:
    """Arrow's IPC stream: a message holds one row or many."""
    return RowFormat("ipc")


def to_format(given: str | RowFormat, verb: str, name: str = "format") -> RowFormat:
    """The format that argument `name` of `verb` means; raises `PlanError`.

    >>> to_format("json", "read_kafka").name
    'json'
    """
    if isinstance(given, RowFormat):
        return given
    return RowFormat(names.choice(given, _NAMES, verb, name))  # type: ignore[arg-type]


def _format(given: RowFormat, registry_settings: Mapping[str, object] | None = None) -> RowFormat:
    """`given` when its arguments mean something, with the settings of its registry."""
    from fabric.io.kafka.settings import check_url, set_apart

    verb = f"formats.{given.name}"
    if isinstance(given.schema_text, Path):
        line = f"schema=Path({quoted(str(given.schema_text))}).read_text()"
        raise PlanError(f"{verb}: schema is text; write: {line}")
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
        raise PlanError(f"{verb}: {lost} is for a registry; give registry= as well")
    options = tuple(sorted(given.options))
    return replace(given, options=options, registry_settings=settings, registry_secrets=secrets)


def _of_registry(given: RowFormat, settings: Mapping[str, object] | None) -> str:
    """The argument that means nothing without a registry."""
    if settings:
        return "registry_settings"
    if given.subject:
        return "subject"
    return "" if given.strategy == "topic" else "strategy"
