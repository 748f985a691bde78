"""How far each subtask of each job's sink has published: a compacted topic of markers.

    key ["job-1", 3, 0]     value {"run": 2, "number": 7, "transaction": 9, "rows": 1200}
    key ["prefix", "pay"]   value {"job": "job-1"}

One job: `Markers`. A marker is written in the transaction that publishes what it tells of, so one
can't be seen without the other. All of a job's lie in one partition: whoever reads them waits for
open transactions of few others. A claim says whose transactional ids begin with a prefix that a
user chose: two jobs with the same ids would end each other's transactions.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from fabric.errors import BrokerError, ConfigError, ExternalError, PlanError
from fabric.io.kafka.library import client
from fabric.plan.faults import quoted

PARTITIONS, REPLICAS = 16, 3
WAIT_S = 0.02
AT_ONCE = {"fetch.wait.max.ms": "10"}
"""Behind the last record lies the commit of its transaction, and that an end is behind it a broker
tells when it has waited so long for more: half a second, unless told otherwise."""
SETTINGS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.2"}


@dataclass(frozen=True, slots=True)
class Marker:
    """The last portion that a subtask has published, in its how manieth transaction."""

    run: int = -1
    number: int = -1
    transaction: int = 0
    rows: int = 0

    @property
    def place(self) -> tuple[int, int]:
        """The portion, as it is compared."""
        return self.run, self.number

    def encode(self) -> bytes:
        """As a record's value."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(value: bytes) -> Marker:
        """What a record's value says."""
        found = json.loads(value)
        return Marker(**{name: int(found[name]) for name in asdict(Marker())})


NONE = Marker()


def key_of(job: str, stage: int, task: int) -> bytes:
    """The key of a subtask's markers."""
    return json.dumps([job, stage, task]).encode()


def claim_key(prefix: str) -> bytes:
    """The key of who uses a prefix."""
    return json.dumps(["prefix", prefix]).encode()


def made(settings: Mapping[str, str], topic: str, timeout_s: float = 15.0) -> int:
    """Have the topic of markers there; its partitions.

    Raises
    ------
    ConfigError
        It is there, and forgets records that nothing newer replaces.
    ExternalError
        The brokers do not answer.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({**settings, "client.id": "fabric", "log_level": 0})
    try:
        known = admin.list_topics(topic, timeout=timeout_s).topics[topic]
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
            f"topic {quoted(topic)} has cleanup.policy={policy}, and markers of what is published "
            "must never be forgotten: have it compact, or name another topic: markers="
        )
    return len(known.partitions)


class Markers:
    """Those of `topic`, by clients with `settings`."""

    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        self._settings, self.topic = dict(settings), topic
        self._n_partitions = made(settings, topic)

    def partition(self, name: str) -> int:
        """Where the markers of a job, or the claim of a prefix, lie."""
        return partition_of(name, self._n_partitions)

    def of_job(self, job: str, timeout_s: float = 60.0) -> dict[bytes, bytes]:
        """All markers of a job, by key: every one that was committed when this was called."""
        wanted = json.dumps([job])[:-1].encode()
        found = self._read(self.partition(job), "read_committed", timeout_s)
        return {key: value for key, value in found.items() if key.startswith(wanted)}

    def claim(self, prefix: str, job: str) -> None:
        """Have transactional ids that begin with `prefix` belong to `job`; again is fine.

        Raises
        ------
        PlanError
            They belong to another job.
        """
        if self.check_unclaimed(prefix, job):
            return
        self._put(claim_key(prefix), json.dumps({"job": job}).encode(), prefix)
        self.check_unclaimed(prefix, job)

    def check_unclaimed(self, prefix: str, job: str = "") -> bool:
        """Refuse a prefix of another job; whether it is claimed by `job`."""
        found = self._read(self.partition(prefix), "read_uncommitted", 15.0)
        claimed = found.get(claim_key(prefix))
        owner = json.loads(claimed)["job"] if claimed else ""
        if owner and owner != job:
            raise PlanError(
                f"transactional_prefix={prefix!r} is used by job {owner}, and two jobs with the "
                "same transactional ids would end each other's transactions; end that job, or give "
                "each a prefix of its own"
            )
        return bool(owner)

    def release(self, prefix: str, job: str) -> None:
        """Let others have the prefix, if it is of `job`."""
        found = self._read(self.partition(prefix), "read_uncommitted", 15.0)
        claimed = found.get(claim_key(prefix))
        if claimed and json.loads(claimed)["job"] == job:
            self._put(claim_key(prefix), None, prefix)

    def forget(self, job: str, stage: int) -> None:
        """A job has ended, and nothing of it will be published any more."""
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
        """The newest value of each key of a partition, to the end that it has now."""
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
                    raise ExternalError(f"markers can't be read: {fault.text}")
            if time.monotonic() > deadline_s:
                raise ExternalError(
                    f"the markers in topic {quoted(self.topic)} could not be read to their end: "
                    "the brokers do not answer, or another job's transaction is still open there; "
                    "it is tried again"
                )
            time.sleep(WAIT_S)

    def _bounds(self, partition: int, deadline_s: float) -> tuple[int, int]:
        """The first offset, and that behind all that lies there, committed or not.

        To begin at `EARLIEST` librdkafka would ask for the first again, half a second later.
        """
        settings = {**self._settings, "isolation.level": "read_uncommitted"}
        with client().Reader(settings) as reader:
            while True:
                try:
                    low, end = reader.watermark_offsets(self.topic, partition, 15.0)
                except BrokerError as error:  # a topic that was just made has no leader yet
                    if not error.retryable or time.monotonic() > deadline_s:
                        raise
                    time.sleep(WAIT_S)
                else:
                    return int(low), int(end)


def partition_of(name: str, n_partitions: int) -> int:
    """Where the markers of a job, or the claim of a prefix, lie in a topic."""
    return zlib.crc32(name.encode()) % n_partitions


def record_arrays(
    records: list[tuple[bytes, bytes | None]], partition: int
) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Keys, values and partitions as a writer takes them."""
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
    """A topic that was just made is not known everywhere at once."""
    deadline_s = time.monotonic() + timeout_s
    while (known := admin.list_topics(topic, timeout=timeout_s).topics[topic]).error is not None:
        if time.monotonic() > deadline_s:
            raise ExternalError(f"topic {quoted(topic)} was made and is not there: {known.error}")
        time.sleep(WAIT_S)
    return known


def _configured(admin: Any, topic: str, timeout_s: float) -> Any:
    """Its settings; any broker is asked, and not each knows a topic that was just made."""
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


def _refused(topic: str, error: Exception) -> ExternalError:
    fault: Any = error.args[0]
    return ExternalError(
        f"the topic of markers, {quoted(topic)}, can't be had: {fault.str()} ({fault.name()})"
    )
