"""The schema that rows of a format are written with, and its id if a registry stores it.

One job: `written_schema`, its check before a job runs, and its registration when the tasks start.
A schema given by the user is registered as it is; otherwise the newest schema of the subject is
used; without one, a schema is derived from the columns and registered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabric.errors import DataError, NotFoundError, PlanError
from fabric.plan.places import RowFormat

if TYPE_CHECKING:
    from fabric.io.schema_registry.http import SchemaType


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
        if found.kind != kind:
            raise DataError(f"schema {found.id} of the registry is {found.kind}, expected {kind}")
        return WrittenSchema(kind, found.text, found.needed, found.id)
    return WrittenSchema(kind, derived())


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
