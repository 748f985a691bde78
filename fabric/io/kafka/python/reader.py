"""Kafka records as columns through confluent-kafka's public API: the native reader's twin."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import confluent_kafka
import pyarrow as pa

from fabric._cython.codecs.codec import Decoder
from fabric._cython.kafka.reader import DEFAULTS
from fabric._cython.kafka.results import (
    ALL,
    Bad,
    Fault,
    Partition,
    Read,
    Topic,
    joined,
    wanted_columns,
)
from fabric.io.kafka.python.client import (
    Client,
    Watched,
    configured,
    faults,
    named,
    raised,
    size_of,
)

EOF = -191
INVALID = -1001


class Reader(Client):
    """Reads partitions, each from a given offset; see the native `Reader`."""

    wake_fd = -1
    """The Python API sends no wake-ups: callers poll every few milliseconds."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        given = configured(settings, DEFAULTS)
        self._watched = Watched()
        try:
            self._client = confluent_kafka.Consumer({**given, **self._watched.callbacks()})
        except confluent_kafka.KafkaException as error:
            raised(error.args[0], "the client could not be created")
        self._lock = threading.Lock()
        self._waiting: dict[Partition, deque[Any]] = {}
        self._next: dict[Partition, int] = {}
        self._epochs: dict[Partition, int] = {}
        self._ends: dict[Partition, int] = {}
        self._at_end: set[Partition] = set()

    def assign(self, starts: Mapping[Partition, int | tuple[int, int]]) -> None:
        """Start reading partitions; those already being read are not disturbed."""
        client = self._own()
        given = []
        for partition, at in starts.items():
            if partition in self._waiting:
                raise ValueError(f"{named(partition)} is already assigned")
            offset, epoch = at if isinstance(at, tuple) else (at, -1)
            more: dict[str, Any] = {"leader_epoch": epoch} if epoch >= 0 else {}
            given.append(confluent_kafka.TopicPartition(*partition, offset, **more))
            self._next[partition], self._epochs[partition] = offset, epoch
        with faults("partitions could not be assigned"):
            client.incremental_assign(given)
        self._waiting |= {partition: deque() for partition in starts}

    def unassign(self, partitions: Collection[Partition]) -> None:
        """Stop reading these partitions; their prefetched records are dropped."""
        client = self._own()
        for partition in partitions:
            self._check_assigned(partition)
        with faults("partitions could not be unassigned"):
            client.incremental_unassign([confluent_kafka.TopicPartition(*p) for p in partitions])
        for partition in partitions:
            del self._waiting[partition], self._next[partition], self._epochs[partition]
            self._ends.pop(partition, None)
            self._at_end.discard(partition)

    def _check_assigned(self, partition: Partition) -> None:
        if partition not in self._waiting:
            raise ValueError(f"{named(partition)} is not assigned")

    def _fetch(self, n_records: int) -> None:
        """Move received records into the queues of their partitions."""
        for message in self._own().consume(min(n_records, 10_000), 0):
            partition, error = (message.topic(), message.partition()), message.error()
            if error is None:
                if partition in self._waiting:
                    self._waiting[partition].append(message)
                    self._at_end.discard(partition)
            elif error.code() == EOF:
                self._ends[partition] = message.offset()
                self._at_end.add(partition)
            else:
                at = partition if message.topic() is not None else ("", -1)
                self._watched.faults.append(
                    Fault(error.code(), error.name(), error.str(), error.fatal(), *at)
                )

    def read(
        self,
        topic: str,
        partition: int,
        rows_max: int = 16_384,
        *,
        wants: frozenset[str] = ALL,
        decoder: Decoder | None = None,
        bytes_max: int = 64 << 20,
    ) -> Read | None:
        """Received records of a partition, or None if there are none now; never waits."""
        if rows_max <= 0 or bytes_max <= 0:
            raise ValueError(
                f"rows_max and bytes_max must be positive, got {rows_max}, {bytes_max}"
            )
        schema, key = wanted_columns(frozenset(wants)), (topic, partition)
        with self._lock:
            self._own()
            self._check_assigned(key)
            waiting = self._waiting[key]
            if len(waiting) < rows_max:
                self._fetch(rows_max)
            taken = list(_taken(waiting, rows_max, min(bytes_max, 1 << 30)))
        if not taken:
            return None
        batch = _columns(taken, schema)
        found: list[Bad] = []
        if decoder is not None:
            decoded = decoder.decode(pa.array([m.value() for m in taken], pa.binary()))
            batch = joined(batch, decoded)
            found = [_bad(taken[one.row], one.reason, one.row) for one in decoded.bad]
        for _ in taken:
            waiting.popleft()
        self._epochs[key], self._next[key] = _epoch(taken[-1]), taken[-1].offset() + 1
        n_bytes = sum(size_of(message) for message in taken)
        at = self.position(topic, partition)
        return Read(batch, found, len(taken), n_bytes, taken[0].offset(), at)

    def position(self, topic: str, partition: int) -> int:
        """The next offset to read: past all records read and any control records."""
        key = topic, partition
        self._own()
        self._check_assigned(key)
        if waiting := self._waiting[key]:
            return int(waiting[0].offset())
        return max(self._next[key], self._ends.get(key, INVALID))

    def leader_epoch(self, topic: str, partition: int) -> int:
        """The leader epoch of the last record read; -1 if unknown."""
        self._check_assigned((topic, partition))
        return self._epochs[topic, partition]

    def at_end(self, topic: str, partition: int) -> bool:
        """Whether the end of the partition was reached and no record arrived since."""
        self._check_assigned((topic, partition))
        return (topic, partition) in self._at_end and not self._waiting[topic, partition]

    def high_watermark(self, topic: str, partition: int) -> int:
        """The high watermark that a broker reported last; -1 if none did yet."""
        asked = confluent_kafka.TopicPartition(topic, partition)
        try:
            known = self._own().get_watermark_offsets(asked, cached=True)
        except confluent_kafka.KafkaException:
            return -1
        return -1 if known is None or known[1] < 0 else int(known[1])

    def lag(self, topic: str, partition: int) -> int:
        """The consumer lag: high watermark minus position; -1 if unknown."""
        high, at = self.high_watermark(topic, partition), self.position(topic, partition)
        return -1 if high < 0 or at < 0 else max(0, high - at)

    def watermark_offsets(
        self, topic: str, partition: int, timeout_s: float = 10.0
    ) -> tuple[int, int]:
        """Request the log start offset and the end offset from the broker."""
        asked = confluent_kafka.TopicPartition(topic, partition)
        with faults(f"the offsets of {named((topic, partition))} could not be read"):
            low, high = self._own().get_watermark_offsets(asked, timeout=timeout_s)
        return int(low), int(high)

    def metadata(
        self, topics: Collection[str] | None = None, timeout_s: float = 10.0
    ) -> dict[str, Topic]:
        """`Topic` by name, for `topics` or for all topics that the brokers list."""
        client = self._own()
        found: dict[str, Topic] = {}
        for name in [None] if topics is None else topics:
            with faults("the topics could not be listed"):
                answer = client.list_topics(timeout=timeout_s, **({"topic": name} if name else {}))
            found |= {topic: _topic(told) for topic, told in answer.topics.items()}
        return found

    def offsets_for_times(
        self, times: Mapping[Partition, int], timeout_s: float = 10.0
    ) -> dict[Partition, int]:
        """The first offset of each partition at or after a time in milliseconds, or `LATEST`."""
        asked = [confluent_kafka.TopicPartition(*p, at) for p, at in times.items()]
        with faults("the offsets for the given times could not be read"):
            return _offsets(self._own().offsets_for_times(asked, timeout=timeout_s))

    def committed(
        self, partitions: Collection[Partition], timeout_s: float = 10.0
    ) -> dict[Partition, int]:
        """The group's committed offset of each partition; -1001 if there is none."""
        asked = [confluent_kafka.TopicPartition(*p) for p in partitions]
        with faults("the committed offsets could not be read"):
            return _offsets(self._own().committed(asked, timeout=timeout_s))

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit offsets to the group, for tools that show consumer lag; does not wait."""
        given = [confluent_kafka.TopicPartition(*p, offset) for p, offset in offsets.items()]
        with faults("offsets could not be committed"):
            self._own().commit(offsets=given, asynchronous=True)

    def on_wake(self, callback: Callable[[], None] | None) -> None:
        """Ignored: the Python API sends no wake-ups."""

    def errors(self) -> list[Fault]:
        """The client's errors since the last call, each a `Fault`."""
        with self._lock:
            self._own()
            if not any(self._waiting.values()):
                self._fetch(1)
        return self._watched.taken()

    def close(self) -> None:
        """Close the client; prefetched records are dropped."""
        client, self._client = self._client, None
        self._waiting.clear()
        if client is not None and self._watched.ends(client):
            client.close()


def _epoch(message: Any) -> int:
    epoch = message.leader_epoch()
    return -1 if epoch is None else int(epoch)


def _taken(waiting: deque[Any], rows_max: int, bytes_max: int) -> Iterator[Any]:
    n_bytes = 0
    for i, message in enumerate(itertools.islice(waiting, rows_max)):
        n_bytes += size_of(message)
        if i > 0 and n_bytes > bytes_max:
            return
        yield message


def _headers(message: Any) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in message.headers() or ()]


def _columns(messages: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    made: dict[str, Callable[[Any], Any]] = {
        "key": lambda m: m.key(),
        "value": lambda m: m.value(),
        "topic": lambda m: m.topic(),
        "partition": lambda m: m.partition(),
        "offset": lambda m: m.offset(),
        "timestamp": lambda m: m.timestamp()[1] if m.timestamp()[0] else None,
        "headers": _headers,
    }
    return pa.RecordBatch.from_arrays(
        [pa.array([made[field.name](m) for m in messages], field.type) for field in schema],
        schema=schema,
    )


def _bad(message: Any, reason: str, row: int) -> Bad:
    return Bad(message.offset(), message.partition(), message.value(), reason, row)


def _topic(told: Any) -> Topic:
    error = "" if told.error is None else told.error.name()
    return Topic(told.topic, sorted(told.partitions), error)


def _offsets(found: list[Any]) -> dict[Partition, int]:
    for one in found:
        if one.error is not None:
            where = named((one.topic, one.partition))
            raised(one.error, f"the offset of {where} could not be read")
    return {(one.topic, one.partition): int(one.offset) for one in found}
