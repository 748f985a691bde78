"""The subject under which a registry stores the schema of a topic's values or keys.

One job: `settled`, which is called before a plan is submitted: it derives the subject from the
format's strategy, and for a reader the newest schema, so that all tasks read the same columns even
if another schema is registered later.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Literal

from fabric.errors import NotFoundError, PlanError
from fabric.plan.places import RowFormat

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
        format = replace(format, subject=_subject(format, topic, part))
    if reads and not format.schema_text:
        return replace(format, schema_text=_newest(format))
    return format


def _subject(format: RowFormat, topic: str, part: Part) -> str:
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
        from fabric.io.codecs.avro import record_name
        from fabric.io.codecs.avro_arrow import row_of
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
        from fabric.io.codecs.avro import registered_avro
        from fabric.io.codecs.avro_schema import written

        return written(registered_avro(found))
    return found.text if not found.needed else ""
