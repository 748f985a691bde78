"""The producers of a Kafka sink: their settings, their transactions, and records passed to them.

One job: a `Session`, a producer that has fenced all earlier ones of its subtask. Who publishes with
it, and how far, is in `publisher.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fabric.errors import (
    DataError,
    FabricError,
)
from fabric.io.kafka.library import client
from fabric.io.kafka.markers import NONE, Marker
from fabric.io.kafka.records import OVERHEAD_BYTES
from fabric.io.kafka.settings import configuration
from fabric.io.kafka.staging import topics_of
from fabric.plan.faults import quoted
from fabric.plan.targets import KafkaTarget

CONNECT_S = 15.0
"""How long brokers may take to answer."""
MARGIN_S = 30.0
"""By default the transaction timeout exceeds the publish timeout by this margin."""
Facts = dict[str, Any]
Subtask = tuple[str, int, int]


def transactional_id(target: KafkaTarget, job: str, stage: int, task: int) -> str:
    """The transactional id of one subtask.

    >>> transactional_id(KafkaTarget("k:9092", "t", transactional_prefix="pay"), "job-1", 3, 0)
    'pay-3-0'
    """
    return f"{target.transactional_prefix or job}-{stage}-{task}"


def transaction_timeout_s(target: KafkaTarget) -> float:
    """The time in seconds after which brokers abort a transaction (transaction.timeout.ms)."""
    return target.transaction_timeout_s or target.publish_timeout_s + MARGIN_S


def producer_settings(target: KafkaTarget) -> dict[str, str]:
    """The settings of every producer of a target."""
    return {
        "linger.ms": "5",
        "compression.type": "lz4",
        "message.max.bytes": "1000000000",  # `check_sizes` enforces the limits of the topics
        "queue.buffering.max.messages": "200000",  # a longer queue falls out of the CPU caches
        "queue.buffering.max.kbytes": "262144",
        "statistics.interval.ms": "0",  # only needed for the producer's id, which is not used
        **configuration(target),
        "acks": "all",
        "enable.idempotence": "true",
    }


@dataclass(slots=True)
class Session:
    """A producer that has fenced all earlier ones of its subtask, and the newest marker."""

    writer: Any
    marker: Marker = NONE
    used_s: float = 0.0


def send_batch(
    writer: Any, target: KafkaTarget, records: pa.RecordBatch, left_s: Callable[[], float]
) -> None:
    """Pass records to a producer, grouped by topic."""
    for topic, part in topics_of(target, records):
        given = {name: part.column(name) for name in part.schema.names}
        writer.write(
            topic,
            given.get("key"),
            given["value"],
            partitions=given.get("partition"),
            headers=given.get("headers"),
            timestamps=given.get("timestamp"),
            timeout_s=left_s(),
        )


def check_sizes(writer: Any, target: KafkaTarget, portions: Sequence[Facts]) -> None:
    """Refuse records that brokers would reject: too large, or for a partition that does not exist.

    Raises
    ------
    DataError
        The message names the topic, the task and the row, counted from the previous checkpoint.
    """
    for facts in portions:
        for topic, (n_bytes, row, partition) in facts["topics"].items():
            most = writer.message_bytes_max(topic)
            if 0 <= most < n_bytes + OVERHEAD_BYTES:  # negative: not authorized to read the limit
                raise DataError(
                    f"row {row} of task {facts['task']} since the last checkpoint makes a record "
                    f"of {n_bytes} bytes, and topic {quoted(topic)} accepts at most {most} bytes "
                    "including overhead (max.message.bytes); increase that limit and restart the "
                    "job"
                )
            if partition >= 0 and partition >= (n := writer.partitions(topic)):
                raise DataError(
                    f"task {facts['task']} has records for partition {partition} of topic "
                    f"{quoted(topic)}, which has {n} partitions; correct the partition column, or "
                    "add partitions to the topic and restart the job"
                )


def fenced(target: KafkaTarget, task: Subtask, topics: Sequence[str]) -> Session:
    """A session with a new producer, which fences all earlier producers of the subtask."""
    settings = {
        **producer_settings(target),
        "transactional.id": transactional_id(target, *task),
        "transaction.timeout.ms": str(int(transaction_timeout_s(target) * 1000)),
    }
    writer = client().Writer(settings, [*topics, target.markers])
    try:
        writer.init_transactions(CONNECT_S)
    except BaseException:
        writer.close()
        raise
    return Session(writer)


def close(session: Session) -> None:
    """Close the producer, whatever it says."""
    with suppress(FabricError):
        session.writer.close()
