"""Writes columns to Kafka through confluent-kafka's public API: the native `Writer`'s twin."""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import confluent_kafka
import pyarrow as pa
from confluent_kafka.admin import AdminClient, ConfigResource

from fabric._cython.kafka.faults import (
    MAY_NOT_ASK,
    MSG_SIZE_TOO_LARGE,
    RowTooLargeError,
    error_of,
)
from fabric._cython.kafka.results import HEADERS, Fault, Partition
from fabric._cython.kafka.writer import DEFAULTS, partition_of_key
from fabric.errors import ConfigError, FabricError, NotFoundError
from fabric.io.kafka.python.client import (
    Client,
    Watched,
    configured,
    faults,
    named,
    raised,
    size_of,
)


class Columns(NamedTuple):
    """The arrays that one call writes."""

    keys: pa.Array | None
    values: pa.Array
    partitions: pa.Array | None
    headers: pa.Array | None
    timestamps: pa.Array | None


class Writer(Client):
    """A producer of rows; see the native `Writer`."""

    def __init__(
        self, settings: Mapping[str, str], topics: Collection[str] = (), timeout_s: float = 10.0
    ) -> None:
        self._settings = configured(settings, DEFAULTS)
        self._is_sized = "message.max.bytes" in settings
        self._is_transactional = "transactional.id" in settings
        if self._is_transactional:  # the statistics contain the producer's id
            self._settings.setdefault("statistics.interval.ms", "100")
        self._is_initialised = self._is_open = self._is_spoilt = False
        self._calls = itertools.count()
        self._limits: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._n_failures = 0
        self._first: tuple[confluent_kafka.KafkaError, str] | None = None
        self._make()
        self._fit(list(topics), timeout_s)

    def _make(self) -> None:
        self._watched = Watched()
        given = {**self._settings, **self._watched.callbacks(), "on_delivery": self._on_delivery}
        only = "delivery.report.only.error"  # the one setting that confluent-kafka wants as a bool
        given[only] = self._settings[only] == "true"
        try:
            self._client = confluent_kafka.Producer(given)
        except confluent_kafka.KafkaException as error:
            raised(error.args[0], "the client could not be created")

    def _on_delivery(self, error: confluent_kafka.KafkaError | None, message: Any) -> None:
        if error is None or error.code() in (-152, -151):  # purged with an aborted transaction
            return
        self._n_failures += 1
        if self._first is None:
            where = named((message.topic(), message.partition()))
            self._first = error, f"a row of {size_of(message)} bytes was not delivered to {where}"

    def _know(self, topic: str, timeout_s: float) -> None:
        self.partitions(topic, timeout_s)
        plain = {
            name: value
            for name, value in self._settings.items()
            if name not in {*DEFAULTS, "transactional.id", "statistics.interval.ms"}
        }
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        fault: confluent_kafka.KafkaError | None = None
        admin = AdminClient(plain)
        asked = admin.describe_configs([resource], request_timeout=timeout_s)
        try:
            self._limits[topic] = int(asked[resource].result()["max.message.bytes"].value)
        except confluent_kafka.KafkaException as error:
            fault = error.args[0]
        del admin, asked  # end its threads here, even if an error keeps this frame alive
        if fault is not None and fault.code() not in MAY_NOT_ASK:
            raised(fault, f"max.message.bytes of topic '{topic}' could not be read")
        self._limits.setdefault(topic, -1)

    def _fit(self, topics: list[str], timeout_s: float) -> None:
        """Open `topics`; recreate the producer if its batches are too large for one of them."""
        for topic in topics:
            self._know(topic, timeout_s)
        limits = [limit for limit in self._limits.values() if limit > 0]
        if not limits:
            return
        wanted = dict(self._settings)
        wanted["batch.size"] = str(min(int(wanted.get("batch.size", "1000000")), *limits, 1 << 30))
        if not self._is_sized:
            largest = max(*limits, int(wanted["message.max.bytes"]))
            wanted["message.max.bytes"] = str(min(largest, 1_000_000_000))
        if wanted["batch.size"] == self._settings.get("batch.size", "1000000") and (
            wanted["message.max.bytes"] == self._settings["message.max.bytes"]
        ):
            return
        if self._is_open:
            raise ConfigError(
                f"topic '{topics[-1]}' accepts messages of up to {self._limits[topics[-1]]} bytes, "
                "and this writer was created for another limit; name the topic when the writer is "
                "created"
            )
        self._settings = wanted
        if not self._is_transactional:
            self.flush()
        self._renew()

    def _renew(self) -> None:
        """Continue with another producer of the same transactional id."""
        self._make()
        if self._is_initialised:
            self.init_transactions()

    def write(
        self,
        topic: str,
        keys: pa.Array | None,
        values: pa.Array,
        *,
        partitions: pa.Array | None = None,
        headers: pa.Array | None = None,
        timestamps: pa.Array | None = None,
        timeout_s: float = 60.0,
    ) -> int:
        """Queue rows to be sent; waits while the queue is full."""
        if topic not in self._limits:
            self._fit([topic], timeout_s)
        columns = Columns(keys, values, partitions, headers, timestamps)
        for column in columns:
            if column is not None and len(column) != len(values):
                raise ValueError(f"values has {len(values)} rows, another column {len(column)}")
        rows = list(self._rows(topic, columns))
        self._check_sizes(topic, rows)
        client, end = self._own(), time.monotonic() + timeout_s
        for i, row in enumerate(rows):
            while True:
                try:
                    client.produce(topic, **row)
                    break
                except BufferError:
                    if time.monotonic() >= end:
                        raise error_of(
                            -184,
                            "_QUEUE_FULL",
                            f"the producer's queue is full at row {i} for topic '{topic}'; check "
                            "the brokers",
                        ) from None
                    client.poll(0.005)
                except confluent_kafka.KafkaException as error:
                    raised(error.args[0], f"row {i} for topic '{topic}' was rejected", row=i)
        client.poll(0)
        return len(values)

    def _rows(self, topic: str, given: Columns) -> Iterator[dict[str, Any]]:
        n, keyless = self._counts[topic], next(self._calls)
        absent = [None] * len(given.values)
        columns = (
            absent if given.keys is None else given.keys.cast(pa.binary()).to_pylist(),
            given.values.cast(pa.binary()).to_pylist(),
            absent if given.partitions is None else given.partitions.to_pylist(),
            absent if given.headers is None else given.headers.cast(HEADERS).to_pylist(),
            absent if given.timestamps is None else _milliseconds(given.timestamps),
        )
        for i, (key, value, chosen, pairs, at) in enumerate(zip(*columns, strict=True)):
            partition = chosen
            if given.partitions is None:
                partition = keyless % n if key is None else partition_of_key(key, n)
            elif partition is None or not 0 <= partition < n:
                raise NotFoundError(
                    f"row {i} is for partition {'null' if partition is None else partition}, "
                    f"topic '{topic}' has {n} partitions"
                )
            row = {"key": key, "value": value, "partition": partition}
            if pairs:
                row["headers"] = [(pair["key"], pair["value"]) for pair in pairs]
            if at is not None:
                row["timestamp"] = at or 1  # 0 would mean the current time
            yield row

    def _check_sizes(self, topic: str, rows: list[dict[str, Any]]) -> None:
        codec = self._settings.get("compression.codec", "none")
        largest = int(self._settings["message.max.bytes"])
        if self._settings.get("compression.type", codec) == "none" and self._limits[topic] > 0:
            largest = min(largest, self._limits[topic])
        for i, row in enumerate(rows):
            pairs = [(k.encode(), v or b"") for k, v in row.get("headers", ())]
            size = len(row["key"] or b"") + len(row["value"] or b"") + 70
            size += sum(len(k) + len(v) + 2 for k, v in pairs)
            if size > largest:
                raise RowTooLargeError(
                    f"row {i} makes a message of {size} bytes, topic '{topic}' accepts at most "
                    f"{largest} (the topic's max.message.bytes, or the producer's "
                    "message.max.bytes) (MSG_SIZE_TOO_LARGE)",
                    row=i,
                )

    def init_transactions(self, timeout_s: float = 60.0) -> None:
        """Register the transactional id, which fences any other producer that uses it."""
        with faults("the transactional id could not be initialized"):
            self._own().init_transactions(timeout_s)
        self._is_initialised = True

    def begin(self) -> None:
        """Begin a transaction."""
        self._first = None
        with faults("the transaction could not be started"):
            self._own().begin_transaction()
        self._is_open = True

    def send_offsets(
        self, offsets: Mapping[Partition, int], *, group: str, timeout_s: float = 60.0
    ) -> None:
        """Add consumed offsets to the transaction."""
        given = [confluent_kafka.TopicPartition(*p, offset) for p, offset in offsets.items()]
        plain = {"bootstrap.servers": self._settings["bootstrap.servers"], "group.id": group}
        consumer = confluent_kafka.Consumer(plain)  # only to name the group
        try:
            with faults("offsets could not be added to the transaction"):
                self._own().send_offsets_to_transaction(
                    given, consumer.consumer_group_metadata(), timeout_s
                )
        finally:
            consumer.close()

    def commit(self, timeout_s: float = 60.0) -> None:
        """Flush queued rows and commit the transaction."""
        try:
            with faults("the transaction could not be committed"):
                self._own().commit_transaction(timeout_s)
        except FabricError as error:
            first, self._first = self._first, None
            if first is not None and first[0].code() == MSG_SIZE_TOO_LARGE:
                self._is_spoilt = True
                raise RowTooLargeError(f"{error}; {first[1]}: {first[0].str()}") from error
            raise
        self._is_open = False

    def abort(self, timeout_s: float = 60.0) -> None:
        """Abort the transaction: its rows and offsets are dropped."""
        with faults("the transaction could not be aborted"):
            self._own().abort_transaction(timeout_s)
        self._first, self._is_open = None, False
        if self._is_spoilt:  # a rejected row left a gap in the sequence numbers
            self._is_spoilt = False
            self._renew()

    def flush(self, timeout_s: float = 60.0) -> None:
        """Wait until all rows are acknowledged."""
        left = self._own().flush(timeout_s)
        first, self._first = self._first, None
        if first is not None:
            raised(first[0], first[1])
        if left:
            raise error_of(-185, "_TIMED_OUT", f"{left} rows were not acknowledged in time")

    def purge(self) -> None:
        """Drop the rows that are not acknowledged."""
        self._own().purge()
        self._client.flush(1)

    def producer_id(self, timeout_s: float = 5.0) -> tuple[int, int]:
        """The producer's id and epoch; (-1, -1) if unknown after `timeout_s`."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end and self._producer()[0] < 0:
            self._own().poll(0.01)
        return self._producer()

    def _producer(self) -> tuple[int, int]:
        told = self._watched.newest.get("eos", {})
        return told.get("producer_id", -1), told.get("producer_epoch", -1)

    def partitions(self, topic: str, timeout_s: float = 10.0) -> int:
        """The partition count of a topic, requested from the brokers."""
        with faults(f"topic '{topic}' could not be looked up"):
            told = self._own().list_topics(topic, timeout_s).topics[topic]
        if told.error is not None:
            raised(told.error, f"topic '{topic}' could not be looked up")
        self._counts[topic] = len(told.partitions)
        return self._counts[topic]

    def message_bytes_max(self, topic: str, timeout_s: float = 10.0) -> int:
        """The topic's max.message.bytes; -1 if this user is not authorized to read it."""
        if topic not in self._limits:
            self._fit([topic], timeout_s)
        return self._limits[topic]

    @property
    def failures(self) -> int:
        """The number of rows that could not be delivered so far."""
        return self._n_failures

    @property
    def queued(self) -> int:
        """The number of rows that are not acknowledged yet."""
        return len(self._own())

    def errors(self) -> list[Fault]:
        """The client's errors since the last call, each a `Fault`; not those of rows."""
        self._own().poll(0)
        return self._watched.taken()

    def close(self, timeout_s: float = 0.0) -> None:
        """Close the client; rows that are not acknowledged after `timeout_s` are dropped."""
        try:
            if self._client is not None and timeout_s > 0 and self.queued > 0:
                self.flush(timeout_s)
        finally:
            client, self._client = self._client, None
            if client is not None and self._watched.ends(client):
                client.purge()


def _milliseconds(timestamps: pa.Array) -> list[int | None]:
    if pa.types.is_timestamp(timestamps.type):
        unit = pa.timestamp("ms", tz=timestamps.type.tz)
        timestamps = timestamps.cast(unit, safe=False)
    found: list[int | None] = timestamps.cast(pa.int64()).to_pylist()
    return found
