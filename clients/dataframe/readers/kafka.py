"""Kafka topics as streams: `read_kafka`.

One job: a `KafkaStream` and its columns from a user's arguments. Everything is checked here except
what only the brokers know, which is checked when the job is submitted, before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, get_args

import pyarrow as pa

from fabric.clients.dataframe import formats
from fabric.clients.dataframe.durations import Length, us
from fabric.clients.dataframe.expressions.literal import SchemaLike, to_schema
from fabric.clients.dataframe.formats import to_format
from fabric.clients.dataframe.frame import DataFrame
from fabric.clients.dataframe.names import choice, text, whole
from fabric.clients.dataframe.session import Session
from fabric.errors import ConfigError, PlanError
from fabric.io.files.options import check_names
from fabric.plan import places, sources
from fabric.plan.faults import quoted
from fabric.plan.mend import free_name
from fabric.plan.nodes import StreamScan
from fabric.plan.places import RowFormat
from fabric.plan.sources import KafkaStream

Start: TypeAlias = Literal["earliest", "latest"] | datetime | Mapping[str, int | Mapping[int, int]]
_VERB = "read_kafka"
_DEFAULT = KafkaStream("")
_PARTS: tuple[sources.KafkaPart, ...] = get_args(sources.KafkaPart)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class KafkaOptions(TypedDict, total=False):
    """Further options of `read_kafka`.

    pattern
        Instead of topics, a regular expression that whole topic names match; matching topics that
        are created later are read, too.
    registry
        The URL of a schema registry; `fabric.formats` has all options of a registry.
    key_format
        The format of keys (default: ``raw``, or ``text`` if the key's column is a string).
    topic, partition, offset, timestamp, headers
        Names of columns for these parts of a record: string, int32, int64, timestamp[ms, UTC] and
        list<struct<key: string, value: binary>>. Timestamp and headers are null if the record has
        none.
    on_expired
        If retention has deleted the next record to read: ``fail`` (default), or continue at the
        ``earliest`` or ``latest`` available record; the number of lost records is logged.
    on_bad
        For a record that cannot be decoded: ``fail`` the job (default), ``skip`` and count the
        record, or ``side``: skip it and add a row to ``.side_output("unreadable")`` with the
        columns ``topic``, ``partition``, ``offset``, ``data`` (bytes) and ``error``.
    isolation
        ``read_committed`` (default) skips records of aborted transactions and waits for open ones;
        ``read_uncommitted`` reads all records.
    group
        A consumer group to which the offsets of complete checkpoints are committed, for tools that
        show consumer lag. Committed offsets are never read.
    discover
        How often to discover new partitions and topics (default ``"30 seconds"``).
    rows_per_s, bytes_per_s
        Rate limits for all partitions together; 0 (default): unlimited.
    buffer_bytes
        How many bytes each task prefetches (default 64 MiB).
    settings
        librdkafka's settings by name, such as ``security.protocol``, ``sasl.mechanism``
        (``PLAIN``, ``SCRAM-SHA-256``, ``SCRAM-SHA-512``, ``OAUTHBEARER``), ``sasl.username``,
        ``sasl.password``, ``ssl.ca.location``, and for mutual TLS ``ssl.certificate.location``,
        ``ssl.key.location``, ``ssl.key.password``. Certificate and key files are read on this
        machine; the agents do not need them. Secrets never appear in logs, plan texts or
        checkpoints.
    """

    pattern: str
    registry: str
    key_format: places.RowFormatName | RowFormat
    topic: str
    partition: str
    offset: str
    timestamp: str
    headers: str
    on_expired: sources.OnExpired
    on_bad: sources.OnUnreadable
    isolation: sources.Isolation
    group: str
    discover: Length
    rows_per_s: int
    bytes_per_s: int
    buffer_bytes: int
    settings: Mapping[str, object]


def read_kafka(
    topics: str | Iterable[str] = (),
    *,
    servers: str | Iterable[str],
    format: places.RowFormatName | RowFormat = "json",
    schema: SchemaLike | None = None,
    key: str | SchemaLike = "",
    start: Start = "earliest",
    until: sources.Until = "",
    session: Session | None = None,
    **options: Unpack[KafkaOptions],
) -> DataFrame:
    """Read the records of Kafka topics as a stream: each record once, in order by partition.

    A job resumes after a failure from its checkpoints, never from a consumer group. Topics, brokers
    and credentials are checked when the job is submitted, before anything runs.

    Parameters
    ----------
    topics, servers
        One or several topic names; ``host:port`` of some brokers, as a list or comma-separated.
    format, schema
        The format of values (`fabric.formats`), and the columns to read from them with their types.
        Avro, Protobuf and a registry define the columns; ``json`` and ``csv`` need `schema`;
        ``raw`` and ``text`` have one column, ``value`` unless `schema` names it. A null value is a
        row of nulls.
    key
        The name of a column for the record's key, binary unless `key_format` is given; or a schema,
        for a key with several columns. A record without a key has null there.
    start
        Where a partition starts if no checkpoint has its position: ``"earliest"`` (default),
        ``"latest"``, a `datetime` (UTC if naive), or offsets: ``{"clicks": {0: 17}}`` by partition,
        or ``{"clicks": 17}`` for all partitions. Partitions that are created while the job runs
        always start at the earliest offset.
    until
        ``"now"`` ends the stream at the end offsets as of the submission of the job.
    options
        See `KafkaOptions`.

    Raises
    ------
    PlanError
        An argument is invalid, the columns are unknown, or two columns have the same name.
    NotFoundError, AuthError, ExternalError
        When the job is submitted: a topic does not exist, the brokers rejected the credentials, or
        no broker answered.

    Examples
    --------
    >>> import fabric
    >>> clicks = fabric.read_kafka(
    ...     "clicks", servers="kafka:9092", schema={"user": "int64", "page": "string"}, key="id",
    ...     timestamp="at", settings={"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN",
    ...     "sasl.username": "ada", "sasl.password": "secret"},
    ... )
    >>> clicks.columns
    ['id', 'user', 'page', 'at']
    """
    places = servers if isinstance(servers, str) else ",".join(servers)
    given = KafkaStream(places, until=_one_of(until, "until", sources.Until))
    try:
        source, found = _source(given, topics, (format, schema, key, start), options)
    except ConfigError as error:
        verb = "" if error.message.startswith(_VERB) else f"{_VERB}: "
        raise PlanError(f"{verb}{error.message}") from None
    _no_clash(source, found)
    return DataFrame.of(StreamScan(source, found), None, session)


def _source(
    given: KafkaStream,
    topics: str | Iterable[str],
    read: tuple[places.RowFormatName | RowFormat, SchemaLike | None, str | SchemaLike, Any],
    options: KafkaOptions,
) -> tuple[KafkaStream, pa.Schema]:
    """The source, and its columns."""
    # for start-up time: they bring librdkafka
    from fabric.io.kafka.settings import set_apart  # for start-up time, too
    from fabric.io.kafka.splits import check, kafka_schema  # for start-up time, too
    from fabric.io.schema_registry.subjects import settled

    check_names(_VERB, KafkaOptions.__annotations__, list(options))
    format, schema, key, start = read
    keys, key_format = _key(key, options.get("key_format"))
    begin, start_ms, offsets = _start(start)
    settings, secrets = set_apart(options.get("settings") or {})
    pattern = text(options.get("pattern", ""), _VERB, "pattern")
    source = replace(
        given,
        topics=_topics(topics, pattern),
        pattern=pattern,
        value=_with_registry(to_format(format, _VERB), options.get("registry", "")),
        key=tuple(keys.names),
        key_format=key_format,
        columns=_parts(options),
        start=begin,
        start_ms=start_ms,
        offsets=offsets,
        settings=settings,
        secrets=secrets,
        **_policies(options),
        **_limits(options),
    )
    check(source)
    values = None if schema is None else to_schema(schema, _VERB)
    if values is None:  # all tasks read the same columns, whatever is registered later
        subject = source.topics[0] if len(source.topics) == 1 else ""
        source = replace(source, value=settled(source.value, subject, reads=True))
    return source, kafka_schema(source, keys, values)


def _parts(options: KafkaOptions) -> tuple[tuple[sources.KafkaPart, str], ...]:
    named = ((part, text(options.get(part, ""), _VERB, part)) for part in _PARTS)
    return tuple((part, name) for part, name in named if name)


def _policies(options: KafkaOptions) -> dict[str, Any]:
    kinds = {
        "on_expired": sources.OnExpired, "on_bad": sources.OnUnreadable,
        "isolation": sources.Isolation,
    }  # fmt: skip
    return {
        name: _one_of(options.get(name, getattr(_DEFAULT, name)), name, kind)
        for name, kind in kinds.items()
    }


def _limits(options: KafkaOptions) -> dict[str, Any]:
    buffer_bytes = options.get("buffer_bytes", _DEFAULT.buffer_bytes)
    return {
        "group": text(options.get("group", ""), _VERB, "group"),
        "discover_s": us(options.get("discover", "30 seconds"), "discover", least=100_000) / 1e6,
        "rows_per_s": whole(options.get("rows_per_s", 0), 0, _VERB, "rows_per_s"),
        "bytes_per_s": whole(options.get("bytes_per_s", 0), 0, _VERB, "bytes_per_s"),
        "buffer_bytes": whole(buffer_bytes, 1 << 16, _VERB, "buffer_bytes"),
    }


def _one_of(value: Any, name: str, kind: Any) -> Any:
    return choice(value, get_args(kind), _VERB, name)


def _topics(topics: str | Iterable[str], pattern: str) -> tuple[str, ...]:
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    if bool(names) == bool(pattern):
        what = "both" if names else "neither"
        raise PlanError(
            f"{_VERB} needs either topics or a pattern, got {what}; write: "
            'read_kafka("clicks", …) or read_kafka(pattern="clicks-.*", …)'
        )
    return names


def _with_registry(format: RowFormat, registry: str) -> RowFormat:
    """`format` with the registry given by `registry=`."""
    if not registry:
        return format
    if format.name not in ("json", "avro", "protobuf"):
        raise PlanError(
            f"{_VERB}: a schema registry supports json, avro and protobuf, not "
            f'{format.name}; write: format="avro"'
        )
    if format.registry not in ("", registry):
        raise PlanError(
            f"{_VERB}: format= and registry= name different registries; leave registry= out"
        )
    made: RowFormat = getattr(formats, format.name)(registry=registry)
    return replace(format, registry=made.registry)


def _key(
    key: str | SchemaLike, format: places.RowFormatName | RowFormat | None
) -> tuple[pa.Schema, RowFormat]:
    """The key's columns and their format."""
    found = None if format is None else to_format(format, _VERB, "key_format")
    if isinstance(key, str):
        if not key:
            if found is not None:
                raise PlanError(
                    f'{_VERB}: key_format= needs a column for the key; write: key="key"'
                )
            return pa.schema([]), places.RAW
        found = found or places.RAW
        if found.name in ("raw", "text"):
            dtype = pa.binary() if found.name == "raw" else pa.string()
            return pa.schema([(key, dtype)]), found
        raise PlanError(
            f"{_VERB}: a key in {found.name} needs columns with types; write: "
            f'key={{{quoted(key)}: "int64"}}'
        )
    columns = to_schema(key, _VERB, "key")
    if found is not None:
        return columns, found
    if columns.types == [pa.binary()]:
        return columns, places.RAW
    if columns.types == [pa.string()]:
        return columns, RowFormat("text")
    raise PlanError(f'{_VERB}: the format of the key is not given; write: key_format="json"')


def _start(start: Any) -> tuple[sources.KafkaStart, int, tuple[tuple[str, int, int], ...]]:
    match start:
        case "earliest" | "latest":
            return start, 0, ()
        case datetime():
            aware = start if start.tzinfo else start.replace(tzinfo=UTC)
            return "time", round((aware - _EPOCH).total_seconds() * 1000), ()
        case Mapping():
            return "offsets", 0, tuple(sorted(_offsets(start)))
    raise PlanError(
        f'{_VERB}: start={start!r} is not valid; use "earliest", "latest", a datetime or a dict of '
        f"offsets; write: start={_meant(start)}"
    )


def _offsets(start: Mapping[Any, Any]) -> Iterable[tuple[str, int, int]]:
    for topic, given in start.items():
        text(topic, _VERB, "start")
        by_partition = given if isinstance(given, Mapping) else {-1: given}
        for partition, offset in by_partition.items():
            if partition != -1:
                whole(partition, 0, _VERB, f"start[{topic!r}]")
            yield topic, partition, whole(offset, 0, _VERB, f"start[{topic!r}]")


def _meant(start: object) -> str:
    try:
        return repr(datetime.fromisoformat(str(start)))
    except ValueError:
        return quoted("earliest")


def _no_clash(source: KafkaStream, schema: pa.Schema) -> None:
    """Refuse two columns with the same name, and suggest which argument to change."""
    seen: set[str] = set()
    for name in schema.names:
        if name in seen:
            other = free_name(name, schema.names)
            part = next((part for part, column in source.columns if column == name), None)
            line = f"key={quoted(other)}" if part is None else f"{part}={quoted(other)}"
            raise PlanError(f"{_VERB}: two columns are named {quoted(name)}; write: {line}")
        seen.add(name)
