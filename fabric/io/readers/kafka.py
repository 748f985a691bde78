"""The records of Kafka's partitions, each a split, read by one task without a consumer group.

One job: `KafkaReader`, a `StreamReader` whose cursors are partitions of one client. It adopts
partitions that are discovered while it runs if they belong to its task (`task_of`), pauses by not
reading, and resumes when brokers come back; an error that a retry cannot fix is raised.

A position is ``{"next", "leader_epoch", "topic"}``: the next offset to read (past control records,
too), the epoch of the leader it was read from, and the topic id, which changes if a topic of the
same name is recreated. What is asked of brokers, and how records become columns, is in
`fabric/io/kafka`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from fabric._cython.kafka.results import Fault
from fabric.clock import Clock
from fabric.errors import ExternalError
from fabric.io.kafka.attendant import GONE_S, Attendant, Bounds, Lost, Seen
from fabric.io.kafka.library import client
from fabric.io.kafka.partition import GONE_OFFSET, NOTHING, Budget, Partition, Records
from fabric.io.kafka.refusals import NO_RIGHT, refusal
from fabric.io.kafka.settings import configuration
from fabric.io.kafka.splits import (
    Place,
    enumerate_partitions,
    kafka_schema,
    owns,
    place_of,
    span_of,
    split_name,
)
from fabric.io.readers.protocol import Ended, Later, Poll, Polled, Share, SplitsOf
from fabric.io.readers.reader import StreamReader
from fabric.plan.sources import KafkaStream, Split
from fabric.telemetry.logs import logger

if TYPE_CHECKING:
    from fabric.io.kafka.library import Reader


_log = logger("fabric.kafka")
LOOK_S = 0.1
"""How often the client is polled for errors."""
_GONE_TOPIC = (
    "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID",
    "INCONSISTENT_TOPIC_ID",
)  # fmt: skip
_ALL_DOWN = "_ALL_BROKERS_DOWN"
"""It may be that all refuse, which is not told where it was told before."""
_FETCH_BYTES = 1 << 20
_AHEAD_ROWS = 16_384
"""A client fetches more of a partition below this count, which is the size of one read. Each record
takes half a kilobyte of the client's heap, whose growth is the main cost after decompression."""
_QUEUE_BYTES_MIN = 64 << 10


def stream_schema(source: KafkaStream) -> pa.Schema:
    """The columns of key, value and the rest of a record."""
    return kafka_schema(source)


def enumerate_splits(source: KafkaStream, splits_of: SplitsOf) -> list[Split]:
    """The partitions that there are."""
    return enumerate_partitions(source)


def open_reader(
    source: KafkaStream, schema: pa.Schema, clock: Clock, full: pa.Schema, share: Share
) -> StreamReader:
    """The reader of the partitions of one task."""
    return KafkaReader(source, schema, full, share, clock)


class KafkaReader(StreamReader):
    """See `StreamReader`; `schema` has the columns to read, `full` all columns of the scan."""

    def __init__(
        self,
        source: KafkaStream,
        schema: pa.Schema,
        full: pa.Schema,
        share: Share,
        clock: Clock,
    ) -> None:
        super().__init__("kafka", self._opened, clock)
        self._source, self._share, self._clock = source, share, clock
        self._records = Records(source, schema, full)
        self._budget = Budget(source, share.n_tasks, clock)
        self._open_client: Reader | None = None
        self._attendant: Attendant | None = None
        self._cursors: dict[Place, Partition] = {}
        self._new: list[str] = []
        """Splits that were discovered and not announced yet."""
        self._looked_s = self._warned_s = float("-inf")
        self._n_read, self._counted_s = 0, clock.monotonic_s()
        self._committing: dict[int, dict[Place, int]] = {}

    def open(self, splits: Sequence[Split]) -> None:
        """See `StreamReader.open`."""
        self._open_client = _client(self._source, max(1, len(splits)))
        self._client.on_wake(self._woken.set)
        super().open(splits)

    def poll(self, rows_max: int, wait_s: float, gather_s: float = 0.0) -> Polled | Ended | Poll:
        """See `StreamReader.poll`; a discovered split is announced first, by a batch of no rows."""
        if self._attendant is None:
            self._attendant = Attendant(self._source, self._client, self._woken.set)
        self._look()
        if self._new:
            return Polled(self._new.pop(0), self._records.empty)
        found = super().poll(rows_max, wait_s, gather_s)
        if isinstance(found, Polled):
            self._n_read += found.batch.num_rows
        return found

    def on_barrier(self, checkpoint: int) -> dict[str, bytes]:
        """See `StreamReader.on_barrier`."""
        if self._source.group:
            at = {place: cursor.next for place, cursor in self._cursors.items()}
            self._committing[checkpoint] = {p: offset for p, offset in at.items() if offset >= 0}
        return super().on_barrier(checkpoint)

    def on_complete(self, checkpoint: int) -> None:
        """Commit offsets to the group, for tools that show lag; Fabric never reads them."""
        offsets = self._committing.pop(checkpoint, None)
        self._committing = {id: at for id, at in self._committing.items() if id > checkpoint}
        if offsets:
            self._client.commit(offsets)

    def counts(self) -> dict[str, int]:
        """The lag of its partitions in records, and the records read per second."""
        if self._open_client is None or all(turn.ended for turn in self._turns.values()):
            return {}
        lags = (cursor.lag for cursor in self._cursors.values())
        now_s = self._clock.monotonic_s()
        passed_s, self._counted_s = now_s - self._counted_s, now_s
        n_read, self._n_read = self._n_read, 0
        return {
            "records_behind": sum(lag for lag in lags if lag > 0),
            "records_per_s": round(n_read / passed_s) if passed_s > 0 else 0,
        }

    def close(self) -> None:
        """See `StreamReader.close`."""
        client, self._open_client = self._open_client, None
        if client is not None:
            client.on_wake(None)
        if self._attendant is not None:
            self._attendant.close()
        super().close()
        if client is not None:
            client.close()

    @property
    def _client(self) -> Reader:
        assert self._open_client is not None, "open was not called"
        return self._open_client

    def _read(self, rows_max: int) -> Polled | Ended | Poll | Later:
        found = super()._read(rows_max)
        # New partitions may be created, unless the stream ends with the existing records.
        return NOTHING if found is Poll.END and not self._source.until else found

    def _opened(self, split: Split) -> Partition:
        place = place_of(split.uri)
        cursor = Partition(self._source, self._client, place, self._records, self._budget)
        cursor.begin(*span_of(split))
        self._cursors[place] = cursor
        return cursor

    # ---- what happens besides rows

    def _look(self) -> None:
        assert self._attendant is not None
        for answer in self._attendant.take():
            match answer:
                case Seen():
                    self._on_seen(answer)
                case Bounds(place=place, low=low, high=high):
                    self._cursors[place].on_bounds(low, high)
                case Lost(error=error):
                    raise error
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            for fault in self._client.errors():
                self._on_fault(fault, now_s)

    def _on_seen(self, seen: Seen) -> None:
        assert self._attendant is not None
        for place in seen.places:
            name = split_name(place)
            if place not in self._cursors and not self._source.until and owns(name, self._share):
                super().open([Split(name)])
                self._new.append(name)
                _log.info("discovered a new partition", topic=place[0], partition=place[1])
        there = set(seen.places)
        for place, cursor in self._cursors.items():
            if not cursor.on_seen(place in there, seen.ids.get(place[0], "")):
                self._attendant.look(GONE_S)

    def _on_fault(self, fault: Fault, now_s: float) -> None:
        assert self._attendant is not None
        if fault.fatal:
            raise ExternalError(
                f"the Kafka client of {self._source.servers} failed fatally: {fault.name}: "
                f"{fault.text}"
            )
        cursor = self._cursors.get((fault.topic, fault.partition)) if fault.topic else None
        if fault.name in GONE_OFFSET and cursor is not None:
            cursor.stand()
            self._attendant.ask_bounds(cursor.place)
            self._attendant.look()
        elif fault.name in _GONE_TOPIC:
            self._attendant.look()
        elif fault.name == NO_RIGHT or refusal(fault.name, fault.text, self._source.servers):
            self._attendant.find_out(fault.topic if fault.name == NO_RIGHT else "")
        else:
            if fault.name == _ALL_DOWN:
                self._attendant.find_out()
            if now_s - self._warned_s >= 1.0:
                self._warned_s = now_s
                _log.warning("the Kafka client reported an error", servers=self._source.servers,
                             fault=fault.name, why=fault.text)  # fmt: skip


def _client(source: KafkaStream, n_partitions: int) -> Reader:
    """A reading client whose prefetch buffer is divided among its partitions."""
    queue_bytes = max(_QUEUE_BYTES_MIN, source.buffer_bytes // n_partitions)
    ours = {
        "group.id": source.group or "fabric",
        "isolation.level": source.isolation,
        "queued.max.messages.kbytes": str(max(1, queue_bytes >> 10)),
        "queued.min.messages": str(_AHEAD_ROWS),
        "fetch.message.max.bytes": str(min(_FETCH_BYTES, queue_bytes)),
    }
    if source.until:  # a transaction's commit may follow the last record, see `Markers`
        ours["fetch.wait.max.ms"] = "20"
    return client().Reader({**ours, **configuration(source)})
