"""What tests do with a Kafka besides what is tested: topics, rows put in, rows read back.

One job: `Topics`, over confluent_kafka's Python client alone, so it shares no code with Fabric's.
"""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.support.wait import wait_until

WAIT_S = 60.0
OBEYED_S = 0.5
"""So long after brokers tell a new setting of a topic their logs have it, too."""


@dataclass(frozen=True, slots=True)
class Record:
    """One row of a topic. `timestamp_ms` is since 1970; a null value is a tombstone."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Topics(ABC):
    """The topics of one Kafka, at `servers`; `replicas` is how many copies a new topic has."""

    replicas = 1

    @property
    @abstractmethod
    def servers(self) -> str:
        """Its address, for ``bootstrap.servers``."""

    def admin(self) -> AdminClient:
        """A client that administers it."""
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def metadata(self, timeout_s: float = 5.0) -> ClusterMetadata:
        """Its brokers and topics; `KafkaException` when it does not answer in time."""
        return self.admin().list_topics(timeout=timeout_s)

    def create_topic(self, name: str, partitions: int = 1, **configs: str | int) -> str:
        """Make a topic, and wait until each partition has a leader; its name.

        `configs` are its settings: ``max_message_bytes=1000``, ``cleanup_policy="compact"``.
        """
        config = {key.replace("_", "."): str(value) for key, value in configs.items()}
        admin = self.admin()
        topic = NewTopic(name, partitions, self.replicas, config=config)
        admin.create_topics([topic])[name].result(WAIT_S)
        self.wait_for_leaders(name, partitions)
        return name

    def new_topic(self, prefix: str = "topic", partitions: int = 1, **configs: str | int) -> str:
        """`create_topic` with a name that no other test has; the name."""
        return self.create_topic(f"{prefix}-{secrets.token_hex(4)}", partitions, **configs)

    def wait_for_leaders(self, topic: str, partitions: int) -> None:
        """Wait until so many partitions of a topic are known and can be written to."""
        deadline_s, admin = time.monotonic() + WAIT_S, self.admin()
        while True:
            found = admin.list_topics(topic, timeout=WAIT_S).topics[topic]
            led = [p for p in found.partitions.values() if p.leader >= 0 and p.error is None]
            if len(led) >= partitions:
                return
            if time.monotonic() > deadline_s:
                raise AssertionError(f"{topic} has leaders for {len(led)} of {partitions}")
            time.sleep(0.02)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        admin = self.admin()
        admin.delete_topics([name])[name].result(WAIT_S)
        deadline_s = time.monotonic() + WAIT_S
        while name in admin.list_topics(timeout=WAIT_S).topics:
            assert time.monotonic() < deadline_s, f"{name} is still there"
            time.sleep(0.02)

    def add_partitions(self, name: str, total: int) -> None:
        """Have a topic grow to `total` partitions."""
        admin = self.admin()
        admin.create_partitions([NewPartitions(name, total)])[name].result(WAIT_S)
        self.wait_for_leaders(name, total)

    def alter_topic(self, name: str, **configs: str | int) -> None:
        """Change settings of a topic; brokers obey them a moment after they say that they do."""
        entries = [
            ConfigEntry(
                key.replace("_", "."), str(value), incremental_operation=AlterConfigOpType.SET
            )
            for key, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        admin = self.admin()
        admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
        wanted = {entry.name: entry.value for entry in entries}
        wait_until(lambda: wanted.items() <= self.topic_configs(name).items(), WAIT_S)
        time.sleep(OBEYED_S)

    def topic_configs(self, name: str) -> dict[str, str]:
        """The settings of a topic, such as ``cleanup.policy``."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        admin = self.admin()
        found = admin.describe_configs([resource])[resource].result(WAIT_S)
        return {key: entry.value for key, entry in found.items()}

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Remove the rows below an offset, as retention does."""
        admin, at = self.admin(), TopicPartition(topic, partition, before)
        (done,) = admin.delete_records([at]).values()
        done.result(WAIT_S)

    def produce(
        self,
        topic: str,
        rows: Iterable[Sequence[Any]],
        *,
        partition: int | None = None,
        transactional_id: str | None = None,
        abort: bool = False,
        **settings: str | int,
    ) -> None:
        """Write rows, in order: (key, value), or (key, value, timestamp in ms), or headers, too.

        With a `transactional_id` they are one transaction, which `abort` aborts.
        """
        conf: dict[str, Any] = {
            "bootstrap.servers": self.servers, "linger.ms": 1, "log_level": 3,
            "enable.idempotence": True,  # or what is sent again comes behind what was sent later
        }  # fmt: skip
        conf |= {key.replace("_", "."): value for key, value in settings.items()}
        if transactional_id is not None:
            conf["transactional.id"] = transactional_id
        producer, failed = Producer(conf), list[KafkaError]()
        if transactional_id is not None:
            producer.init_transactions(WAIT_S)
            producer.begin_transaction()
        for row in rows:
            options: dict[str, Any] = {} if partition is None else {"partition": partition}
            if len(row) > 2 and row[2] is not None:
                options["timestamp"] = row[2]
            if len(row) > 3:
                options["headers"] = list(row[3])
            options["on_delivery"] = lambda error, _: failed.append(error) if error else None
            while True:
                try:
                    producer.produce(topic, row[1], row[0], **options)
                    break
                except BufferError:
                    producer.poll(0.1)
        left = producer.flush(WAIT_S)
        if transactional_id is not None:
            (producer.abort_transaction if abort else producer.commit_transaction)(WAIT_S)
        assert left == 0, f"{left} rows were not delivered within {WAIT_S} s"
        if failed:
            raise KafkaException(failed[0])

    def wait_for_transactions(self, topic: str) -> None:
        """Wait until no transaction has rows in a topic that are neither committed nor aborted.

        A commit returns before all partitions show it. `AssertionError` when one is left open.
        """
        deadline_s, admin = time.monotonic() + WAIT_S, self.admin()
        partitions = admin.list_topics(topic, WAIT_S).topics[topic].partitions
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(topic, p): latest for p in partitions}
        while True:
            ends = []
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
                answers = admin.list_offsets(asked, isolation_level=level)
                found = [(at.partition, answer.result(WAIT_S)) for at, answer in answers.items()]
                ends.append({partition: result.offset for partition, result in found})
            if ends[0] == ends[1]:
                return
            if time.monotonic() > deadline_s:
                raise AssertionError(f"{topic}: a transaction is left open: {ends[0]} of {ends[1]}")
            time.sleep(0.02)

    def records(
        self,
        topic: str,
        *,
        isolation: str = "read_committed",
        settled: bool = True,
        **settings: str | int,
    ) -> list[Record]:
        """All rows that a topic holds now, in order of partition and offset.

        "read_committed" leaves out what open transactions wrote and all behind it; `settled` first
        waits until there are none (`wait_for_transactions`).
        """
        if settled and isolation == "read_committed":
            self.wait_for_transactions(topic)
        conf: dict[str, Any] = {
            "bootstrap.servers": self.servers,
            "group.id": f"records-{secrets.token_hex(4)}",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
        }
        conf |= {key.replace("_", "."): value for key, value in settings.items()}
        consumer, found = Consumer(conf), list[Record]()
        try:
            known = consumer.list_topics(topic, WAIT_S).topics[topic].partitions
            waiting = set(known)
            consumer.assign([TopicPartition(topic, p, 0) for p in known])
            deadline_s = time.monotonic() + WAIT_S
            while waiting:
                assert time.monotonic() < deadline_s, f"{topic}: no end of {sorted(waiting)}"
                for message in consumer.consume(10_000, 0.05):
                    if (error := message.error()) is None:
                        found.append(_record(message))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        waiting.discard(message.partition())
                    else:
                        raise KafkaException(error)
        finally:
            consumer.close()
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The offsets that a consumer group has committed, by partition; none are left out."""
        conf = {"bootstrap.servers": self.servers, "group.id": group}
        consumer = Consumer(conf)
        try:
            known = consumer.list_topics(topic, WAIT_S).topics[topic].partitions
            asked = [TopicPartition(topic, partition) for partition in known]
            deadline_s = time.monotonic() + WAIT_S
            while True:
                try:
                    found = consumer.committed(asked, timeout=WAIT_S)
                    break
                except KafkaException as error:  # a broker that has just come back
                    if not error.args[0].retriable() or time.monotonic() > deadline_s:
                        raise
                    time.sleep(0.1)
        finally:
            consumer.close()
        return {at.partition: at.offset for at in found if at.offset >= 0}


def _record(message: Any) -> Record:
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Record(
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        message.timestamp()[1],
        headers,
    )
