"""Writing to Kafka, as users say it.

One job: ``write_kafka``, the `KafkaTarget` that its arguments mean, and `upserted`, which has
changing results written as upserts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, get_args

from typing_extensions import Unpack

from fabric.clients.dataframe.expr import Expr
from fabric.clients.dataframe.formats import to_format
from fabric.clients.dataframe.names import choice, column_name, text
from fabric.clients.dataframe.streams.lengths import Length, maybe_us
from fabric.clients.dataframe.verbs.base import Verbs
from fabric.errors import PlanError
from fabric.plan.expr import Column
from fabric.plan.faults import quoted
from fabric.plan.mend import free_name
from fabric.plan.nodes import Node
from fabric.plan.schema import schema_of
from fabric.plan.sources import RAW, Guarantee, KafkaTarget, RowFormat
from fabric.plan.stream_check import stream_of
from fabric.plan.streams import Changes

if TYPE_CHECKING:
    from fabric.clients.session.job import Job

MURMUR2 = "murmur2"
_DEFAULT = KafkaTarget("", "")


class KafkaOptions(TypedDict, total=False):
    """What else `write_kafka` and `to_kafka` take.

    Parameters
    ----------
    key_format
        As `format`, of the key; ``"raw"`` (default) takes one column of text or binary as it is.
    columns
        Those of the value; by default all that say nothing else here.
    partitioner
        ``"murmur2"`` of the key, as Java's client; or ``col("p")``, the column that says it.
    headers, timestamp
        Columns with a record's headers (a map, or a list of structs of key and value) and its time;
        by default it has none, and the time at which it is sent.
    guarantee
        ``"exactly_once"``: records are published in a transaction once the checkpoint that they
        belong to is complete (rows with an end: once all are there), so that consumers with
        ``isolation.level=read_committed`` see each once, whatever fails meanwhile.
        ``"at_least_once"``: they are sent as they come, and again after a failure.
        ``"at_most_once"``: they are sent once, after their checkpoint is complete; those that are
        under way when something fails are lost.
    transactional_prefix
        What transactional ids begin with, where brokers allow some only; by default the job's id.
        No other job may use it meanwhile.
    markers
        The compacted topic in which it is written down what was published; it is made if it is not
        there.
    publish_timeout
        How long publishing one checkpoint may take, "60 seconds".
    transaction_timeout
        After so long brokers end a transaction that was left; by default 30 seconds longer.
    settings
        Of librdkafka, as ``{"security.protocol": "SASL_SSL", "sasl.password": …}``; what is secret
        is never shown.
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
        """Write each row as a record of a Kafka topic; a stream's job goes on until it ends.

        Parameters
        ----------
        topic
            Its name; or ``col("name")``, the column that says it row by row. It must be there.
        servers
            ``"host:port"``, several between commas.
        key
            The columns of a record's key. Without any, rows are spread over the partitions. Results
            that change are upserts: `key` must be what they are told apart by, and a row that is
            withdrawn becomes a null value (a tombstone) of its key.
        format
            Of the value: ``"json"``, ``"text"``, ``"raw"``, or one of `fabric.formats`, as with a
            schema registry.
        wait
            False returns while the job runs; for rows with an end.
        given
            See `KafkaOptions`: ``guarantee="exactly_once"`` is the default.

        Raises
        ------
        PlanError, ConfigError, NotFoundError, AuthError
            Before anything is written: a column, topic, setting or time that can't be.

        Examples
        --------
        >>> import fabric
        >>> orders = fabric.DataFrame({"id": ["a", "b"], "amount": [1.5, 2.5]})
        >>> orders.write_kafka("orders", servers="kafka:9092", key="nr")
        Traceback (most recent call last):
        fabric.errors.PlanError: there is no column "nr" to write; there are "id", "amount"
        """
        from fabric.io.kafka.records import check_columns

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
    **given: Any,
) -> KafkaTarget:
    """What the arguments of `verb` mean; raises `PlanError` and `ConfigError`."""
    from fabric.io.codecs.subjects import settled
    from fabric.io.kafka.settings import servers_of, set_apart

    if unknown := sorted(given.keys() - KafkaOptions.__annotations__.keys()):
        known = ", ".join(sorted(KafkaOptions.__annotations__))
        raise PlanError(f"{verb} has no argument {unknown[0]}; there are {known}")
    servers_of(text(servers, verb, "servers"))
    settings, secrets = set_apart(given.get("settings") or {})
    name, column = _name_or_column(topic, verb, "topic")
    rule, partition = _name_or_column(given.get("partitioner", MURMUR2), verb, "partitioner")
    if rule not in ("", MURMUR2):
        raise PlanError(
            f'{verb}: partitioner is "{MURMUR2}" or a column, got {rule!r}; write: '
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
        columns=_columns(given.get("columns", ()), verb),
        key=_columns(key, verb),
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


def upserted(node: Node, target: KafkaTarget) -> tuple[Node, KafkaTarget]:
    """What is written to `target`, and how: changing results as upserts by its key."""
    stream = stream_of(node)
    if stream is None or not stream.changes or target.kind:
        return node, target
    kind = free_name("row_kind", schema_of(node).names)
    return Changes(node, kind), replace(target, kind=kind)


def _name_or_column(given: Any, verb: str, name: str) -> tuple[str, str]:
    """A text, or the column that holds it."""
    if isinstance(given, str) and given:
        return given, ""
    node = getattr(given, "node", None)
    if isinstance(node, Column):
        return "", node.name
    raise PlanError(f'{verb}: {name} is text or a column, as in col("{name}"), got {given!r}')


def _columns(given: Any, verb: str) -> tuple[str, ...]:
    names = [given] if isinstance(given, str | Expr) or not isinstance(given, Iterable) else given
    return tuple(column_name(name, verb) for name in names)


def _seconds(given: Mapping[str, Any], name: str, default: float) -> float:
    length_us = maybe_us(given.get(name), name, least=1)
    return default if length_us is None else length_us / 1e6
