"""How far each subtask of each job's sink has published: a compacted topic of markers.

    key ["job-1", 3, 0]     value {"run": 2, "number": 7, "transaction": 9, "rows": 1200}
    key ["prefix", "pay"]   value {"job": "job-1"}

One job: `Markers`. A marker is part of the transaction that publishes the records it describes, so
neither is visible without the other. All markers of a job are in one partition, so that reading
them waits for the open transactions of few other jobs. A claim says which job owns a user's
transactional prefix: two jobs with the same transactional ids would abort each other's
transactions.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from queue import SimpleQueue
from typing import Any

import pyarrow as pa

from fabric.errors import AuthError, BrokerError, ConfigError, ExternalError, PlanError
from fabric.io.kafka.library import client
from fabric.io.kafka.refusals import NO_RIGHT, listed
from fabric.plan.faults import quoted

PARTITIONS, REPLICAS = 16, 3
WAIT_S = 0.02
AT_ONCE = {"fetch.wait.max.ms": "10"}
"""The commit marker of a transaction follows its last record. A broker reports the end of the
partition after it has waited this long for more records: half a second by default."""
SETTINGS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.2"}


@dataclass(frozen=True, slots=True)
class Marker:
    """The last portion that a subtask published, with the count of its transactions and rows."""

    run: int = -1
    number: int = -1
    transaction: int = 0
    rows: int = 0

    @property
    def place(self) -> tuple[int, int]:
        """The portion's run and number, in the order in which portions are published."""
        return self.run, self.number

    def encode(self) -> bytes:
        """The marker as a record's value."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(value: bytes) -> Marker:
        """The marker in a record's value."""
        found = json.loads(value)
        return Marker(**{name: int(found[name]) for name in asdict(Marker())})


NONE = Marker()


def key_of(job: str, stage: int, task: int) -> bytes:
    """The key of a subtask's markers."""
    return json.dumps([job, stage, task]).encode()


def claim_key(prefix: str) -> bytes:
    """The key of the record that says which job owns a prefix."""
    return json.dumps(["prefix", prefix]).encode()


def made(settings: Mapping[str, str], topic: str, timeout_s: float = 15.0) -> int:
    """Create the markers topic if it does not exist; returns its partition count.

    Raises
    ------
    ConfigError
        The topic exists and its retention would delete markers.
    AuthError
        The brokers reject the credentials, or the user may not use the topic.
    ExternalError
        The topic could not be created or described, or the brokers did not answer.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    faults = SimpleQueue[Any]()
    given: dict[str, Any] = {**settings, "error_cb": faults.put, "log_level": 0}
    admin, servers = AdminClient({"client.id": "fabric", **given}), settings["bootstrap.servers"]
    try:
        known = listed(admin, faults, servers, topic=topic, timeout_s=timeout_s).topics[topic]
        if known.error is not None:
            n_brokers = len(admin.list_topics(timeout=timeout_s).brokers)
            wanted = NewTopic(topic, PARTITIONS, min(REPLICAS, n_brokers), config=SETTINGS)
            _created(admin, wanted, timeout_s)
            known = _listed(admin, topic, timeout_s)
        found = _configured(admin, topic, timeout_s)
    except KafkaException as error:
        raise _refused(topic, error) from error
    policy = str(found["cleanup.policy"].value)
    if policy != "compact":
        raise ConfigError(
            f"the markers topic {quoted(topic)} has cleanup.policy={policy}, which deletes old "
            "markers and so risks duplicate records; set cleanup.policy=compact on the topic, or "
            "choose another topic with markers="
        )
    return len(known.partitions)


class Markers:
    """Reads and writes the markers in `topic`, by clients with `settings`."""

    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        self._settings, self.topic = dict(settings), topic
        self._n_partitions = made(settings, topic)

    def partition(self, name: str) -> int:
        """The partition with the markers of a job, or the claim of a prefix."""
        return partition_of(name, self._n_partitions)

    def of_job(self, job: str, timeout_s: float = 60.0) -> dict[bytes, bytes]:
        """The newest marker of each subtask of a job, by key, as committed when this is called."""
        wanted = json.dumps([job])[:-1].encode()
        found = self._read(self.partition(job), "read_committed", timeout_s)
        return {key: value for key, value in found.items() if key.startswith(wanted)}

    def claim(self, prefix: str, job: str) -> None:
        """Claim transactional ids that begin with `prefix` for `job`; idempotent.

        Raises
        ------
        PlanError
            Another job uses the prefix.
        """
        if self.check_unclaimed(prefix, job):
            return
        self._put(claim_key(prefix), json.dumps({"job": job}).encode(), prefix)
        self.check_unclaimed(prefix, job)

    def check_unclaimed(self, prefix: str, job: str = "") -> bool:
        """Refuse a prefix that another job claimed; returns whether `job` has claimed it."""
        found = self._read(self.partition(prefix), "read_uncommitted", 15.0)
        claimed = found.get(claim_key(prefix))
        owner = json.loads(claimed)["job"] if claimed else ""
        if owner and owner != job:
            raise PlanError(
                f"transactional_prefix={prefix!r} is in use by job {owner}, and two jobs with the "
                "same transactional ids would abort each other's transactions; cancel that job, or "
                "choose another transactional_prefix="
            )
        return bool(owner)

    def release(self, prefix: str, job: str) -> None:
        """Release the prefix if `job` has claimed it."""
        found = self._read(self.partition(prefix), "read_uncommitted", 15.0)
        claimed = found.get(claim_key(prefix))
        if claimed and json.loads(claimed)["job"] == job:
            self._put(claim_key(prefix), None, prefix)

    def forget(self, job: str, stage: int) -> None:
        """Delete the markers of a job's sink, once nothing more of it will be published."""
        beginning = json.dumps([job, stage])[:-1].encode() + b","
        keys = [key for key in self.of_job(job) if key.startswith(beginning)]
        if keys:
            self._put_all([(key, None) for key in keys], job)

    def _put(self, key: bytes, value: bytes | None, name: str) -> None:
        self._put_all([(key, value)], name)

    def _put_all(self, records: list[tuple[bytes, bytes | None]], name: str) -> None:
        with client().Writer(self._settings, [self.topic]) as writer:
            keys, values, partitions = record_arrays(records, self.partition(name))
            writer.write(self.topic, keys, values, partitions=partitions)
            writer.flush(15.0)

    def _read(self, partition: int, isolation: str, timeout_s: float) -> dict[bytes, bytes]:
        """The newest value of each key of a partition, up to its current end offset."""
        deadline_s = time.monotonic() + timeout_s
        found: dict[bytes, bytes] = {}
        low, end = self._bounds(partition, deadline_s)
        settings = {**self._settings, "isolation.level": isolation, **AT_ONCE}
        with client().Reader(settings) as reader:
            reader.assign({(self.topic, partition): low})
            for key, value in self._records(reader, partition, end, deadline_s):
                if value is None:
                    found.pop(key, None)
                else:
                    found[key] = value
        return found

    def _records(
        self, reader: Any, partition: int, end: int, deadline_s: float
    ) -> Iterator[tuple[bytes, bytes | None]]:
        wants = frozenset({"key", "value"})
        while reader.position(self.topic, partition) < end:
            read = reader.read(self.topic, partition, wants=wants)
            if read is not None:
                keys, values = read.batch.column("key"), read.batch.column("value")
                yield from zip(keys.to_pylist(), values.to_pylist(), strict=True)
                continue
            for fault in reader.errors():
                if fault.fatal:
                    raise ExternalError(
                        f"the markers topic {quoted(self.topic)} cannot be read: {fault.text}"
                    )
                if fault.name == NO_RIGHT:  # it is reported once, so waiting is in vain
                    raise AuthError(
                        f"the user is not authorized to read the markers topic "
                        f"{quoted(self.topic)}: {fault.text}; grant READ on the topic to the user"
                    )
            if time.monotonic() > deadline_s:
                raise ExternalError(
                    f"the markers topic {quoted(self.topic)} could not be read up to its end "
                    "offset: the brokers do not answer, or another job's transaction is still open "
                    "there; the read is retried"
                )
            time.sleep(WAIT_S)

    def _bounds(self, partition: int, deadline_s: float) -> tuple[int, int]:
        """The log start offset, and the end offset including uncommitted records.

        Given `EARLIEST`, librdkafka would request the start offset again, half a second later.
        """
        settings = {**self._settings, "isolation.level": "read_uncommitted"}
        with client().Reader(settings) as reader:
            while True:
                try:
                    low, end = reader.watermark_offsets(self.topic, partition, 15.0)
                except BrokerError as error:  # a topic that was just created has no leader yet
                    if not error.retryable or time.monotonic() > deadline_s:
                        raise
                    time.sleep(WAIT_S)
                else:
                    return int(low), int(end)


def partition_of(name: str, n_partitions: int) -> int:
    """The partition with the markers of a job, or the claim of a prefix."""
    return zlib.crc32(name.encode()) % n_partitions


def record_arrays(
    records: list[tuple[bytes, bytes | None]], partition: int
) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Keys (binary), values (binary) and partitions (int32) as a writer expects them."""
    keys, values = zip(*records, strict=True)
    partitions = pa.array([partition] * len(records), pa.int32())
    return pa.array(keys, pa.binary()), pa.array(values, pa.binary()), partitions


def _created(admin: Any, wanted: Any, timeout_s: float) -> None:
    from confluent_kafka import KafkaError, KafkaException

    (future,) = admin.create_topics([wanted], request_timeout=timeout_s).values()
    try:
        future.result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _listed(admin: Any, topic: str, timeout_s: float) -> Any:
    """The topic's metadata; not every broker knows a topic that was just created."""
    deadline_s = time.monotonic() + timeout_s
    while (known := admin.list_topics(topic, timeout=timeout_s).topics[topic]).error is not None:
        if time.monotonic() > deadline_s:
            raise ExternalError(
                f"the markers topic {quoted(topic)} was created, but the brokers do not list it "
                f"after {timeout_s:g} s: {known.error}"
            )
        time.sleep(WAIT_S)
    return known


def _configured(admin: Any, topic: str, timeout_s: float) -> Any:
    """The topic's settings; not every broker knows a topic that was just created."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import ConfigResource

    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            return admin.describe_configs([resource], request_timeout=timeout_s)[resource].result()
        except KafkaException as error:
            unknown = error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            if not unknown or time.monotonic() > deadline_s:
                raise
        time.sleep(WAIT_S)


def _refused(topic: str, error: Exception) -> AuthError | ExternalError:
    fault: Any = error.args[0]
    text = (
        f"the markers topic {quoted(topic)} could not be created or described: {fault.str()} "
        f"({fault.name()})"
    )
    return AuthError(text) if "AUTHORIZATION" in fault.name() else ExternalError(text)
