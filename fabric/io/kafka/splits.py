"""The partitions of Kafka's topics as splits, and the columns of their records.

One job: what is known about a `KafkaStream` before it is read, and which task reads a partition.
The name of a split is its topic and partition; the task follows from the name alone, so partitions
that are discovered later need no assignment. A split's ticket has its start and end offset as of
the submission of the job, so a job that restarts without a checkpoint reads the same records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from fabric._cython.kafka.results import COLUMNS, EARLIEST
from fabric.errors import AuthError, ConfigError, NotFoundError, PlanError
from fabric.io.kafka.metadata import MetadataRequests
from fabric.io.kafka.settings import check_reach, is_secret
from fabric.io.readers.protocol import Share
from fabric.plan.bounds import SPLITS_MAX
from fabric.plan.places import RowFormat
from fabric.plan.sources import KafkaStream, Split
from fabric.plan.stream_facts import task_of

ALL_PARTITIONS = -1
"""Stands for all partitions of a topic, in `KafkaStream.offsets`."""
PARTS: Mapping[str, pa.DataType] = {
    field.name: field.type for field in COLUMNS if field.name not in ("key", "value")
}
"""The parts of a record besides key and value, and their types."""
_WHOLE: Mapping[str, pa.DataType] = {"raw": pa.binary(), "text": pa.string()}
"""Formats with a single column, and its type."""
_VALUE = "value"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")

Place = tuple[str, int]
"""A topic and a partition number."""


class Span(NamedTuple):
    """The offset that a split starts at, and its end offset (exclusive; None: unbounded)."""

    next: int
    end: int | None = None


# ---- columns


def kafka_schema(
    source: KafkaStream, keys: pa.Schema | None = None, values: pa.Schema | None = None
) -> pa.Schema:
    """The columns of a source: those of the key, of the value, then the rest of a record.

    `keys` and `values` are given by the user; None: derived from the format's schema.

    Raises
    ------
    PlanError
        A format has no schema, or does not support these columns.
    """
    subject = next(iter(source.topics), "")
    if not source.key:
        keys = None
    elif keys is None:
        keys = _columns_of(source.key_format, f"{subject}-key", source.key)
    if values is None:
        values = _columns_of(source.value, f"{subject}-value", (_VALUE,))
    for format, columns in ((source.key_format, keys), (source.value, values)):
        if columns is not None:
            _check_columns(format, columns)
    rest = [pa.field(name, PARTS[part]) for part, name in source.columns]
    return pa.schema([*(keys or ()), *values, *rest])


def value_columns(source: KafkaStream, schema: pa.Schema) -> pa.Schema:
    """The columns of `schema` that come from a record's value."""
    others = {*source.key, *(name for _, name in source.columns)}
    return pa.schema([field for field in schema if field.name not in others])


def key_columns(source: KafkaStream, schema: pa.Schema) -> pa.Schema:
    """The columns of `schema` that come from a record's key."""
    return pa.schema([field for field in schema if field.name in source.key])


def _columns_of(format: RowFormat, subject: str, names: Iterable[str]) -> pa.Schema:
    if format.name in _WHOLE:
        return pa.schema([(name, _WHOLE[format.name]) for name in names])
    from fabric.io.codecs import format_schema

    found = format_schema(format, format.subject or subject)
    if found is None:
        line = 'schema={"id": "int64", "text": "string"}'
        if format.name in ("avro", "protobuf") and not format.registry:
            line = f'format=formats.{format.name}(schema), or registry="http://host:8081"'
        raise PlanError(
            f"the columns of {format.name} records are unknown without a schema; write: {line}"
        )
    return found


def _check_columns(format: RowFormat, columns: pa.Schema) -> None:
    if format.name in _WHOLE and len(columns) != 1:
        raise PlanError(
            f"format {format.name} has one column, got {len(columns)}: "
            f"{', '.join(columns.names)}; for several columns choose another format, as in "
            'format="json"'
        )
    from fabric.io.codecs import check_format

    check_format(format, columns, writes=False)


# ---- which partitions, and whose


def check(source: KafkaStream) -> None:
    """Refuse what is invalid independently of the brokers; raises `ConfigError`, `PlanError`."""
    check_reach(source)
    if bool(source.topics) == bool(source.pattern):
        raise ConfigError("a Kafka stream needs either topics or a pattern, not both")
    for topic in source.topics:
        if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
            raise ConfigError(
                f"{topic!r} is not a valid topic name, which has letters, digits, dots, "
                "underscores and dashes; to match several topics use pattern="
            )
    if len(set(source.topics)) != len(source.topics):
        raise ConfigError(f"a topic is given twice: {', '.join(source.topics)}")
    try:
        re.compile(source.pattern)
    except re.error as error:
        raise ConfigError(
            f"pattern {source.pattern!r} is not a valid regular expression: {error}"
        ) from None
    if source.discover_s <= 0:
        raise ConfigError(f"discover_s must be positive, got {source.discover_s}")
    if source.buffer_bytes < 1:
        raise ConfigError(f"buffer_bytes must be positive, got {source.buffer_bytes}")
    for name, _ in source.settings:
        if is_secret(name):
            raise ConfigError(f"setting {name!r} is secret and must be passed in secrets")
    for topic, partition, _ in source.offsets:
        if partition < ALL_PARTITIONS or not is_meant(source, topic):
            where = "" if partition == ALL_PARTITIONS else f"partition {partition} of "
            raise ConfigError(f"start= names {where}topic {topic!r}, which is not read")
    unknown = [part for part, _ in source.columns if part not in PARTS]
    if unknown:
        raise ConfigError(f"a Kafka record has no {unknown[0]!r}; it has {', '.join(PARTS)}")


def is_meant(source: KafkaStream, topic: str) -> bool:
    """Whether `source` reads that topic."""
    if source.topics:
        return topic in source.topics
    # Kafka's internal topics (offsets, transactions) hold no rows.
    return not topic.startswith("__") and re.fullmatch(source.pattern, topic) is not None


def split_name(place: Place) -> str:
    """The name of a partition's split, which never changes.

    >>> split_name(("clicks-2024", 7))
    'clicks-2024-7'
    """
    return f"{place[0]}-{place[1]}"


def place_of(split: str) -> Place:
    """The topic and partition of a split's name.

    >>> place_of("clicks-2024-7")
    ('clicks-2024', 7)
    """
    topic, _, partition = split.rpartition("-")
    return topic, int(partition)


def owns(split: str, share: Share) -> bool:
    """Whether the task of `share` reads the partition."""
    return task_of(split, share.n_tasks) == share.task


def span_of(split: Split) -> Span:
    """The span of a split; one without a ticket was discovered later and is read from the start."""
    return Span(**json.loads(split.ticket)) if split.ticket else Span(EARLIEST)


def enumerate_partitions(source: KafkaStream) -> list[Split]:
    """The existing partitions, each with its start and end offset.

    Raises
    ------
    NotFoundError
        A topic, or a partition that `start` names, does not exist.
    AuthError
        The brokers rejected the credentials, or the user may not read a topic.
    ExternalError
        No broker answered.
    """
    check(source)
    with MetadataRequests(source) as asking:
        places = found_places(source, asking.partitions())
        if len(places) > SPLITS_MAX:
            raise ConfigError(
                f"the topics have {len(places)} partitions, and a stream reads at most "
                f"{SPLITS_MAX}; read fewer topics"
            )
        begins = _begins(source, asking, places)
        ends: dict[Place, int | None] = dict.fromkeys(places)
        if source.until:
            ends |= asking.ends(places)
    return [_split(place, Span(begins[place], ends[place])) for place in sorted(places)]


def found_places(source: KafkaStream, partitions: Mapping[str, int | str]) -> list[Place]:
    """The partitions that `source` reads, given each topic's partition count or error code.

    Raises
    ------
    NotFoundError, AuthError
        A topic that `source` names does not exist, or the user may not read it.
    """
    for topic in source.topics:
        found = partitions.get(topic, "UNKNOWN_TOPIC_OR_PART")
        if isinstance(found, str):
            raise _refused(topic, found, source.servers)
    return [
        (topic, partition)
        for topic, n in partitions.items()
        if isinstance(n, int) and is_meant(source, topic)
        for partition in range(n)
    ]


def _refused(topic: str, error: str, servers: str) -> NotFoundError | AuthError:
    if "AUTHORIZATION" in error:
        return AuthError(
            f"the user is not authorized to read topic {topic!r} at {servers} ({error}); grant "
            "DESCRIBE and READ on the topic to the user"
        )
    if "UNKNOWN_TOPIC" in error:
        return NotFoundError(
            f"there is no topic {topic!r} at {servers}; create the topic, or use pattern= for "
            "topics that are created later"
        )
    return NotFoundError(f"topic {topic!r} at {servers} cannot be read now: {error}")


def _begins(source: KafkaStream, asking: MetadataRequests, places: list[Place]) -> dict[Place, int]:
    match source.start:
        case "earliest":
            return dict.fromkeys(places, EARLIEST)
        case "latest":
            return asking.ends(places)
        case "time":
            found = asking.at_time(places, source.start_ms)
            missing = [place for place, offset in found.items() if offset < 0]
            return found | asking.ends(missing)
    given = {(topic, partition): offset for topic, partition, offset in source.offsets}
    for topic, partition in given:
        if partition != ALL_PARTITIONS and (topic, partition) not in places:
            n = sum(1 for place in places if place[0] == topic)
            raise NotFoundError(
                f"start= names partition {partition} of topic {topic!r}, which has {n} partitions, "
                "numbered from 0"
            )
    return {
        place: given.get(place, given.get((place[0], ALL_PARTITIONS), EARLIEST)) for place in places
    }


def _split(place: Place, span: Span) -> Split:
    return Split(split_name(place), ticket=json.dumps(span._asdict()).encode())
