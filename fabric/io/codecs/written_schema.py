"""The schema that rows of a format are written by, and its id where a registry keeps it.

One job: `written_schema` and what is done with it: checked before a job runs, registered when its
tasks begin. Given text is registered as it is; the newest schema of a subject is used, not
registered anew; else one is made of the columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabric.errors import DataError, NotFoundError, PlanError
from fabric.plan.sources import RowFormat

if TYPE_CHECKING:
    from fabric.io.kafka.registry import SchemaType


@dataclass(frozen=True, slots=True)
class WrittenSchema:
    """A schema's text and what it needs, by name; `id` is None while it is not registered."""

    kind: SchemaType
    text: str
    needed: tuple[tuple[str, str], ...] = ()
    id: int | None = None


def written_schema(
    format: RowFormat, kind: SchemaType, derived: Callable[[], str]
) -> WrittenSchema:
    """The schema to write rows of `format` by; `derived` makes one of the columns.

    Raises
    ------
    DataError
        If the newest of the subject is of another kind.
    """
    if format.schema_text:
        return WrittenSchema(kind, format.schema_text)
    if format.registry:
        from fabric.io.kafka.registry import registry_of

        try:
            found = registry_of(format).newest(_subject(format))
        except NotFoundError:  # the first of its subject
            return WrittenSchema(kind, derived())
        if found.kind != kind:
            raise DataError(
                f"schema {found.id} of the registry is of type {found.kind}, not {kind}"
            )
        return WrittenSchema(kind, found.text, found.needed, found.id)
    return WrittenSchema(kind, derived())


def check_registered(format: RowFormat, schema: WrittenSchema) -> None:
    """Refuse what the registry would not take; raises `PlanError` with its reason."""
    if format.registry and schema.id is None:
        from fabric.io.kafka.registry import registry_of

        registry_of(format).check(_subject(format), schema.kind, schema.text)


def header_of(format: RowFormat, schema: WrittenSchema) -> bytes:
    """What each value begins with; nothing without a registry, else the schema is registered now.

    Raises
    ------
    PlanError
        If the registry refuses the schema.
    """
    if not format.registry:
        return b""
    schema_id = schema.id
    if schema_id is None:
        from fabric.io.kafka.registry import registry_of

        schema_id = registry_of(format).register(_subject(format), schema.kind, schema.text)
    return b"\0" + schema_id.to_bytes(4, "big")


def _subject(format: RowFormat) -> str:
    if not format.subject:
        raise PlanError("a schema is registered under a subject; write: subject=")
    return format.subject
