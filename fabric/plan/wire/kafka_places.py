"""Kafka's topics as sources and targets, and the formats of their rows, as protobuf and back.

One job: both directions for `KafkaStream`, `KafkaTarget` and `RowFormat`.
"""

from __future__ import annotations

from fabric.plan import plan_pb2 as pb
from fabric.plan.sources import (
    Guarantee,
    Isolation,
    KafkaPart,
    KafkaStart,
    KafkaStream,
    KafkaTarget,
    OnExpired,
    OnUnreadable,
    RowFormat,
    RowFormatName,
    SubjectStrategy,
    Until,
)
from fabric.plan.wire.tables import choice, small
from fabric.plan.wire.values import read_options, read_settings, write_options, write_settings


def write_kafka_stream(source: KafkaStream) -> pb.KafkaStream:
    """`source` as protobuf."""
    offsets = [pb.KafkaOffset(topic=t, partition=p, offset=o) for t, p, o in source.offsets]
    return pb.KafkaStream(
        servers=source.servers,
        topics=source.topics,
        pattern=source.pattern,
        value=write_row_format(source.value),
        key=source.key,
        key_format=write_row_format(source.key_format),
        columns=write_settings(source.columns),
        start=source.start,
        start_ms=source.start_ms,
        offsets=offsets,
        until=source.until,
        on_expired=source.on_expired,
        on_bad=source.on_bad,
        isolation=source.isolation,
        group=source.group,
        discover_s=source.discover_s,
        rows_per_s=source.rows_per_s,
        bytes_per_s=source.bytes_per_s,
        buffer_bytes=source.buffer_bytes,
        settings=write_settings(source.settings),
        secrets=write_settings(source.secrets),
    )


def read_kafka_stream(message: pb.KafkaStream) -> KafkaStream:
    """The source in `message`; raises `ValueError`."""
    columns = [(choice(c.name, KafkaPart, "columns"), c.value) for c in message.columns]
    return KafkaStream(
        message.servers,
        tuple(message.topics),
        message.pattern,
        read_row_format(message.value),
        tuple(message.key),
        read_row_format(message.key_format),
        tuple(columns),
        choice(message.start, KafkaStart, "start"),
        message.start_ms,
        tuple((o.topic, o.partition, small(o.offset)) for o in message.offsets),
        choice(message.until, Until, "until"),
        choice(message.on_expired, OnExpired, "on_expired"),
        choice(message.on_bad, OnUnreadable, "on_bad"),
        choice(message.isolation, Isolation, "isolation"),
        message.group,
        message.discover_s,
        small(message.rows_per_s),
        small(message.bytes_per_s),
        small(message.buffer_bytes),
        read_settings(message.settings),
        read_settings(message.secrets),
    )


def write_kafka_target(target: KafkaTarget) -> pb.KafkaTarget:
    """`target` as protobuf."""
    return pb.KafkaTarget(
        servers=target.servers,
        topic=target.topic,
        topic_column=target.topic_column,
        value=write_row_format(target.value),
        columns=target.columns,
        key=target.key,
        key_format=write_row_format(target.key_format),
        partition_column=target.partition_column,
        headers=target.headers,
        timestamp=target.timestamp,
        kind=target.kind,
        guarantee=target.guarantee,
        transactional_prefix=target.transactional_prefix,
        markers=target.markers,
        transaction_timeout_s=target.transaction_timeout_s,
        publish_timeout_s=target.publish_timeout_s,
        settings=write_settings(target.settings),
        secrets=write_settings(target.secrets),
    )


def read_kafka_target(message: pb.KafkaTarget) -> KafkaTarget:
    """The target in `message`; raises `ValueError`."""
    return KafkaTarget(
        message.servers,
        message.topic,
        message.topic_column,
        read_row_format(message.value),
        tuple(message.columns),
        tuple(message.key),
        read_row_format(message.key_format),
        message.partition_column,
        message.headers,
        message.timestamp,
        message.kind,
        choice(message.guarantee, Guarantee, "guarantee"),
        message.transactional_prefix,
        message.markers,
        message.transaction_timeout_s,
        message.publish_timeout_s,
        read_settings(message.settings),
        read_settings(message.secrets),
    )


def write_row_format(format: RowFormat) -> pb.RowFormat:
    """`format` as protobuf."""
    return pb.RowFormat(
        name=format.name,
        options=write_options(format.options),
        schema_text=format.schema_text,
        message=format.message,
        registry=format.registry,
        subject=format.subject,
        strategy=format.strategy,
        registry_settings=write_settings(format.registry_settings),
        registry_secrets=write_settings(format.registry_secrets),
    )


def read_row_format(message: pb.RowFormat) -> RowFormat:
    """The format in `message`; raises `ValueError`."""
    return RowFormat(
        choice(message.name, RowFormatName, "format"),
        read_options(message.options),
        message.schema_text,
        message.message,
        message.registry,
        message.subject,
        choice(message.strategy, SubjectStrategy, "strategy"),
        read_settings(message.registry_settings),
        read_settings(message.registry_secrets),
    )
