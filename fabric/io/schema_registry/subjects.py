"""Subjects of a schema registry, and the schema that rows are written with.

`settled` is called before a plan is submitted: it derives the subject of a topic's values or keys
from the format's strategy, and for a reader the newest schema, so that all tasks read the same
columns even if another schema is registered later.

`written_schema`, its check before a job runs, and its registration when the tasks start: a schema
given by the user is registered as it is; otherwise the newest schema of the subject is used;
without one, a schema is derived from the columns and registered.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from fabric.errors import DataError, NotFoundError, PlanError
from fabric.plan.places import RowFormat

if TYPE_CHECKING:
    from fabric.io.codecs.avro_schema import AvroType
    from fabric.io.schema_registry.client import Registered
    from fabric.io.schema_registry.http import SchemaType


Part = Literal["value", "key"]


def settled(format: RowFormat, topic: str, part: Part = "value", *, reads: bool) -> RowFormat:
    """`format` with its subject, and with the newest schema if it `reads` without a schema.

    Without a registry, `format` is returned unchanged. `topic` is empty if there are several
    topics: a writer then needs the strategy ``record`` or a subject, a reader a schema or columns.

    Raises
    ------
    PlanError
        If the strategy needs a topic or a record name that is unknown.
    ExternalError
        If the registry does not respond.
    Examples
    --------
    >>> settled(RowFormat("avro", registry="http://h:1"), "clicks", reads=False).subject
    'clicks-value'
    """
    if not format.registry:
        return format
    if not format.subject and reads and (format.schema_text or not topic):
        return format  # rows have schema ids, and the newest schema is not needed
    if not format.subject:
        format = replace(format, subject=_derived(format, topic, part))
    if reads and not format.schema_text:
        return replace(format, schema_text=_newest(format))
    return format


def _derived(format: RowFormat, topic: str, part: Part) -> str:
    if format.strategy != "record" and not topic:
        raise PlanError(
            f'the strategy "{format.strategy}" derives the subject from the topic, which is a '
            'column here; write: subject=, or strategy="record"'
        )
    if format.strategy == "topic":
        return f"{topic}-{part}"
    name = _record(format)
    return name if format.strategy == "record" else f"{topic}-{name}"


def _record(format: RowFormat) -> str:
    """The full name of the record type of a row."""
    if format.name == "avro":
        # late: the package of codecs imports this module
        from fabric.io.codecs.avro_arrow import record_name, row_of
        from fabric.io.codecs.avro_schema import parse_avro

        if not format.schema_text:
            return record_name(format)
        return row_of(parse_avro(format.schema_text)).name
    found = format.message
    if format.name == "json" and format.schema_text:
        try:
            declared = json.loads(format.schema_text)
        except ValueError:
            declared = None
        found = str(declared.get("title", "")) if isinstance(declared, dict) else ""
    if not found:
        raise PlanError(
            f'the strategy "{format.strategy}" derives the subject from the record name, which the '
            "format does not have; write: subject=, or schema="
        )
    return found


def _newest(format: RowFormat) -> str:
    """The newest schema as self-contained text; empty if the subject has none."""
    from fabric.io.schema_registry.client import registry_of

    try:
        found = registry_of(format).newest(format.subject)
    except NotFoundError:
        return ""
    if format.name == "avro":
        from fabric.io.codecs.avro_schema import written  # late, as above

        return written(registered_avro(found))
    return found.text if not found.needed else ""


@dataclass(frozen=True, slots=True)
class WrittenSchema:
    """A schema's text and its references by name; `id` is None until it is registered."""

    kind: SchemaType
    text: str
    needed: tuple[tuple[str, str], ...] = ()
    id: int | None = None


def written_schema(
    format: RowFormat, kind: SchemaType, derived: Callable[[], str]
) -> WrittenSchema:
    """The schema to write rows of `format` with; `derived` derives one from the columns.

    Raises
    ------
    DataError
        If the newest schema of the subject has another type.
    """
    if format.schema_text:
        return WrittenSchema(kind, format.schema_text)
    if format.registry:
        from fabric.io.schema_registry.client import registry_of

        try:
            found = registry_of(format).newest(_subject(format))
        except NotFoundError:  # the subject has no schema yet
            return WrittenSchema(kind, derived())
        check_kind(found, kind)
        return WrittenSchema(kind, found.text, found.needed, found.id)
    return WrittenSchema(kind, derived())


def newest_schema(format: RowFormat, subject: str, kind: SchemaType) -> Registered | None:
    """The newest schema of a subject; None without a registry or a subject.

    Raises
    ------
    DataError
        If it has another type.
    """
    if not format.registry or not subject:
        return None
    from fabric.io.schema_registry.client import registry_of

    return check_kind(registry_of(format).newest(subject), kind)


def check_kind(found: Registered, kind: SchemaType) -> Registered:
    """A schema of the registry; raises `DataError` if it has another type."""
    if found.kind != kind:
        raise DataError(f"schema {found.id} of the registry is {found.kind}, expected {kind}")
    return found


def registered_avro(found: Registered) -> AvroType:
    """The type that a schema of the registry declares.

    Raises
    ------
    DataError
        If the schema is not an Avro schema.
    """
    from fabric.io.codecs.avro_schema import parse_avro  # late, as above

    check_kind(found, "AVRO")
    return parse_avro(found.text, [text for _, text in found.needed])


def check_registered(format: RowFormat, schema: WrittenSchema) -> None:
    """Refuse a schema that the registry would reject; raises `PlanError` with its reason."""
    if format.registry and schema.id is None:
        from fabric.io.schema_registry.client import registry_of

        registry_of(format).check(_subject(format), schema.kind, schema.text)


def header_of(format: RowFormat, schema: WrittenSchema) -> bytes:
    """The bytes that each value starts with; with a registry, registers the schema for its id.

    Raises
    ------
    PlanError
        If the registry rejects the schema.
    """
    if not format.registry:
        return b""
    schema_id = schema.id
    if schema_id is None:
        from fabric.io.schema_registry.client import registry_of

        schema_id = registry_of(format).register(_subject(format), schema.kind, schema.text)
    return b"\0" + schema_id.to_bytes(4, "big")


def _subject(format: RowFormat) -> str:
    if not format.subject:
        raise PlanError(
            "a schema is registered under a subject, which is not given; write: subject="
        )
    return format.subject
