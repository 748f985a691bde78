"""Writing to Kafka: ``DataFrame.write_kafka``.

One job: ``write_kafka``, the `KafkaTarget` from its arguments, and `upserted`, which turns changing
results into upserts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, get_args

from typing_extensions import Unpack

from fabric.clients.dataframe.durations import Length, maybe_us
from fabric.clients.dataframe.expressions.expr import Expr
from fabric.clients.dataframe.formats import to_format
from fabric.clients.dataframe.names import choice, column_name, column_names, text
from fabric.clients.dataframe.verbs.base import Verbs
from fabric.errors import PlanError
from fabric.plan.expr import Column
from fabric.plan.faults import quoted
from fabric.plan.mend import free_name
from fabric.plan.nodes import Changes, Node
from fabric.plan.places import RAW, RowFormat
from fabric.plan.schema import schema_of
from fabric.plan.stream_facts import stream_of
from fabric.plan.targets import DatasetTarget, Guarantee, KafkaTarget, PostgresTarget

Upserts = TypeVar("Upserts", KafkaTarget, DatasetTarget, PostgresTarget)

if TYPE_CHECKING:
    from fabric.clients.job.job import Job

MURMUR2 = "murmur2"
_DEFAULT = KafkaTarget("", "")


class KafkaOptions(TypedDict, total=False):
    """Further options of `write_kafka` and `to_kafka`.

    Parameters
    ----------
    key_format
        The format of the key, like `format`; ``"raw"`` (default) is one string or binary column.
    columns
        The columns of the value; by default all that no other option names.
    partitioner
        ``"murmur2"`` (default): by the hash of the key, as the Java client does; or an integer
        column with the partition, ``col("p")``.
    headers, timestamp
        Columns with the headers of a record (map<string, binary>, or a list of structs of key and
        value) and its timestamp. By default a record has no headers and the time of sending.
    guarantee
        ``"exactly_once"`` (default): records are published in a transaction once their checkpoint
        is complete (bounded input: once all are written), so that consumers with
        ``isolation.level=read_committed`` see each record once, whatever fails.
        ``"at_least_once"``: records are sent as they come, and may be sent again after a failure.
        ``"at_most_once"``: records are sent once, after their checkpoint is complete; records in
        flight during a failure are lost.
    transactional_prefix
        The prefix of transactional ids, for brokers that allow only certain ids; by default the id
        of the job. No two running jobs may share a prefix.
    markers
        The compacted topic that records what was published (default ``"fabric-markers"``); it is
        created if it does not exist.
    publish_timeout
        How long publishing one checkpoint may take (default ``"60 seconds"``).
    transaction_timeout
        After how long brokers abort an abandoned transaction (default `publish_timeout` plus 30
        seconds).
    settings
        librdkafka's settings, as ``{"security.protocol": "SASL_SSL", "sasl.password": …}``; secrets
        are never shown.
    """

    key_format: str | RowFormat
    columns: str | Iterable[str]
    partitioner: str | Expr
    headers: str
    timestamp: str
    guarantee: Guarantee
    transactional_prefix: str
    markers: str
    transaction_timeout: Length | None
    publish_timeout: Length | None
    settings: Mapping[str, object] | None


class KafkaVerbs(Verbs):
    """``write_kafka``."""

    __slots__ = ()

    def write_kafka(
        self,
        topic: str | Expr,
        *,
        servers: str,
        key: str | Iterable[str] = (),
        format: str | RowFormat = "json",
        name: str = "",
        wait: bool = True,
        **given: Unpack[KafkaOptions],
    ) -> Job:
        """Write each row as a record of a Kafka topic; for a stream, returns the running job.

        Parameters
        ----------
        topic
            The name of the topic; or ``col("name")``, a string column with the topic of each row.
            The topic must exist.
        servers
            ``"host:port"``, several separated by commas.
        key
            The columns of the record's key. Without a key, rows are spread over the partitions.
            Changing results are written as upserts: `key` must identify their rows, and a
            withdrawn row becomes a null value (a tombstone) for its key.
        format
            The format of values: ``"json"`` (default), ``"text"``, ``"raw"``, or one of
            `fabric.formats`, for example with a schema registry.
        wait
            False returns while the job of a bounded input runs.
        given
            See `KafkaOptions`; the default guarantee is ``"exactly_once"``.

        Raises
        ------
        PlanError, ConfigError, NotFoundError, AuthError
            Before anything is written: a column, topic, setting or time-out is invalid.
        ExternalError
            No broker answered.
        DataError
            A record exceeds the topic's limit, or brokers reject it.

        Examples
        --------
        >>> import fabric
        >>> orders = fabric.DataFrame({"id": ["a", "b"], "amount": [1.5, 2.5]})
        >>> orders.write_kafka("orders", servers="kafka:9092", key="nr")
        Traceback (most recent call last):
        fabric.errors.PlanError: there is no column "nr" to write; the columns are "id", "amount"
        """
        from fabric.io.kafka.records import check_columns  # for start-up time: it brings librdkafka

        target = kafka_target(
            "write_kafka", topic, servers=servers, key=key, format=format, **given
        )
        label = name or f"write {target.topic or target.topic_column}"
        node, target = upserted(self._node, target)
        frame = self._then(node)
        check_columns(target, schema_of(node))
        return frame._sink(target, label, wait)


def kafka_target(
    verb: str,
    topic: str | Expr,
    *,
    servers: str,
    key: str | Iterable[str] = (),
    format: str | RowFormat = "json",
    **options: Unpack[KafkaOptions],
) -> KafkaTarget:
    """The target given by the arguments of `verb`; raises `PlanError` and `ConfigError`."""
    # for start-up time: they bring librdkafka
    from fabric.io.kafka.settings import servers_of, set_apart  # for start-up time, too
    from fabric.io.schema_registry.subjects import settled

    given: dict[str, Any] = {**options}
    if unknown := sorted(given.keys() - KafkaOptions.__annotations__.keys()):
        known = ", ".join(sorted(KafkaOptions.__annotations__))
        raise PlanError(f"{verb} has no option {unknown[0]}; the options are {known}")
    servers_of(text(servers, verb, "servers"))
    settings, secrets = set_apart(given.get("settings") or {})
    name, column = _name_or_column(topic, verb, "topic")
    rule, partition = _name_or_column(given.get("partitioner", MURMUR2), verb, "partitioner")
    if rule not in ("", MURMUR2):
        raise PlanError(
            f'{verb}: partitioner must be "{MURMUR2}" or a column, got {rule!r}; write: '
            f"partitioner=col({quoted(rule)})"
        )
    key_format = to_format(given.get("key_format", RAW), verb, "key_format")
    guarantee = given.get("guarantee", _DEFAULT.guarantee)
    choice(guarantee, get_args(Guarantee), verb, "guarantee")
    return KafkaTarget(
        servers=servers,
        topic=name,
        topic_column=column,
        value=settled(to_format(format, verb), name, reads=False),
        columns=column_names(given.get("columns", ()), verb),
        key=column_names(key, verb),
        key_format=settled(key_format, name, "key", reads=False),
        partition_column=partition,
        headers=column_name(given.get("headers", ""), f"{verb}: headers"),
        timestamp=column_name(given.get("timestamp", ""), f"{verb}: timestamp"),
        guarantee=guarantee,
        transactional_prefix=text(
            given.get("transactional_prefix", ""), verb, "transactional_prefix"
        ),
        markers=text(given.get("markers", _DEFAULT.markers), verb, "markers"),
        transaction_timeout_s=_seconds(given, "transaction_timeout", 0.0),
        publish_timeout_s=_seconds(given, "publish_timeout", _DEFAULT.publish_timeout_s),
        settings=settings,
        secrets=secrets,
    )


def upserted(node: Node, target: Upserts) -> tuple[Node, Upserts]:
    """The rows to write and their target: changing results become upserts by the target's key."""
    stream = stream_of(node)
    if stream is None or not stream.changes or target.kind:
        return node, target
    kind = free_name("row_kind", schema_of(node).names)
    return Changes(node, kind), replace(target, kind=kind)


def _name_or_column(given: Any, verb: str, name: str) -> tuple[str, str]:
    """A string, or the name of the column that contains it."""
    if isinstance(given, str) and given:
        return given, ""
    node = getattr(given, "node", None)
    if isinstance(node, Column):
        return "", node.name
    raise PlanError(
        f'{verb}: {name} must be a string or a column, as in col("{name}"); got {given!r}'
    )


def _seconds(given: Mapping[str, Any], name: str, default: float) -> float:
    length_us = maybe_us(given.get(name), name, least=1)
    return default if length_us is None else length_us / 1e6
