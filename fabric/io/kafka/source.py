"""The records of Kafka's partitions, each a split, read by one task without a consumer group.

One job: `KafkaReader`, a `StreamReader` whose cursors are partitions of one client. It takes on
partitions that are found while it runs where they are its own (`task_of`), pauses by not reading,
and goes on by itself when brokers come back; what waiting won't mend is an error by name.

A position is ``{"next", "leader_epoch", "topic"}``: the offset to go on with, behind control
records too, the epoch of the leader it was read from, and the id of the topic, which another one of
the same name doesn't have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from fabric._cython.kafka.results import EARLIEST, LATEST, Fault
from fabric.clock import Clock
from fabric.errors import AuthError, DataError, ExternalError
from fabric.io.kafka.attendant import GONE_S, Attendant, Bounds, Lost, Seen
from fabric.io.kafka.incoming import Records
from fabric.io.kafka.refusals import refusal
from fabric.io.kafka.settings import configuration
from fabric.io.kafka.splits import (
    Place,
    owns,
    place_of,
    span_of,
    split_name,
)
from fabric.io.streams.protocol import BadRecord, Ended, Later, Poll, Polled, Share
from fabric.io.streams.reader import CursorReader, Plain
from fabric.plan.sources import KafkaStream, Split
from fabric.telemetry.logs import logger

if TYPE_CHECKING:
    from fabric.io.kafka.library import Reader

_log = logger("fabric.kafka")
LOOK_S = 0.1
"""How often errors are asked for."""
REFUSED_S = 8.0
"""How long credentials may be refused until the task fails: brokers that begin refuse, too."""
_NOTHING = Later(1.0)
"""A record wakes the reader; where a client can't, it looks as often as the task does."""
_GONE_OFFSET = ("OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET")
_GONE_TOPIC = (
    "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID",
    "INCONSISTENT_TOPIC_ID",
)  # fmt: skip
_MAY_NOT = ("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED")
_FETCH_BYTES = 1 << 20
_AHEAD_ROWS = 16_384
"""Of a partition that a client fetches again below: as many as are read at once. Each takes half a
kilobyte of the client's heap, whose growth is what reading costs after decompressing."""
_QUEUE_BYTES_MIN = 64 << 10


class KafkaReader(CursorReader):
    """See `StreamReader`; `schema` are the wanted columns, `full` all of the scan's."""

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
        """Splits that were found and not said yet."""
        self._looked_s = self._warned_s = float("-inf")
        self._refused, self._refused_s = "", cast("float | None", None)
        """Which refusal came first, and when; None: since then something was read."""
        self._n_read, self._counted_s = 0, clock.monotonic_s()
        self._committing: dict[int, dict[Place, int]] = {}

    def open(self, splits: Sequence[Split]) -> None:
        """See `StreamReader.open`."""
        self._open_client = _client(self._source, max(1, len(splits)))
        self._client.on_wake(self._woken.set)
        super().open(splits)

    def poll(self, rows_max: int, wait_s: float, gather_s: float = 0.0) -> Polled | Ended | Poll:
        """See `StreamReader.poll`; a split that was found is said first, by no rows of it."""
        if self._attendant is None:
            self._attendant = Attendant(self._source, self._client, self._woken.set)
        self._look()
        if self._new:
            return Polled(self._new.pop(0), self._records.empty)
        found = super().poll(rows_max, wait_s, gather_s)
        if isinstance(found, Polled):
            self._refused_s = None
            self._n_read += found.batch.num_rows
        return found

    def on_barrier(self, checkpoint: int) -> dict[str, bytes]:
        """See `StreamReader.on_barrier`."""
        if self._source.group:
            at = {place: cursor.next for place, cursor in self._cursors.items()}
            self._committing[checkpoint] = {p: offset for p, offset in at.items() if offset >= 0}
        return super().on_barrier(checkpoint)

    def on_complete(self, checkpoint: int) -> None:
        """Tell the group, which shows its lag by that and means nothing to us."""
        offsets = self._committing.pop(checkpoint, None)
        self._committing = {id: at for id, at in self._committing.items() if id > checkpoint}
        if offsets:
            self._client.commit(offsets)

    def counts(self) -> dict[str, int]:
        """How many records wait in its partitions, and how many were read in the last second."""
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
        # New partitions may come, unless all ends with what there was.
        return _NOTHING if found is Poll.END and not self._source.until else found

    def _opened(self, split: Split, wake: Callable[[], None]) -> Partition:
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
        if self._refused not in _MAY_NOT:
            self._refused_s = None
        for place in seen.places:
            name = split_name(place)
            if place not in self._cursors and not self._source.until and owns(name, self._share):
                super().open([Split(name)])
                self._new.append(name)
                _log.info("a partition was found", topic=place[0], partition=place[1])
        there = set(seen.places)
        for place, cursor in self._cursors.items():
            if not cursor.on_seen(place in there, seen.ids.get(place[0], "")):
                self._attendant.look(GONE_S)

    def _on_fault(self, fault: Fault, now_s: float) -> None:
        assert self._attendant is not None
        if fault.fatal:
            raise ExternalError(f"Kafka's client gave up: {fault.name}: {fault.text}")
        cursor = self._cursors.get((fault.topic, fault.partition)) if fault.topic else None
        if fault.name in _GONE_OFFSET and cursor is not None:
            cursor.stand()
            self._attendant.ask_bounds(cursor.place)
            self._attendant.look()
        elif fault.name in _GONE_TOPIC:
            self._attendant.look()
        elif fault.name in _MAY_NOT or refusal(fault.name, fault.text, self._source.servers):
            self._on_refused(fault, now_s)
        elif now_s - self._warned_s >= 1.0:
            self._warned_s = now_s
            _log.warning("trouble with Kafka", servers=self._source.servers, fault=fault.name,
                         why=fault.text)  # fmt: skip

    def _on_refused(self, fault: Fault, now_s: float) -> None:
        if self._refused_s is None:
            self._refused_s, self._refused = now_s, fault.name
            _log.warning("Kafka refuses", servers=self._source.servers, why=fault.text)
        elif now_s - self._refused_s >= REFUSED_S:
            raise refusal(fault.name, fault.text, self._source.servers) or AuthError(
                f"the user given may not read topic {fault.topic!r} of {self._source.servers}: "
                f"{fault.text}; allow it to read the topic"
            )


class Partition(Plain):
    """One partition; see `Cursor`."""

    def __init__(
        self, source: KafkaStream, client: Reader, place: Place, records: Records, budget: Budget
    ) -> None:
        self.place = place
        self._source, self._client = source, client
        self._records, self._budget = records, budget
        self._begin = EARLIEST
        self._end: int | None = None
        self._epoch = -1
        self._topic_id = ""
        self._n_missed = 0
        """Looks in a row that did not find it."""
        self._assigned = self._stands = self._seen = False
        self._bad: list[BadRecord] = []

    def begin(self, next: int, end: int | None) -> None:
        """Where it begins, and behind which offset it ends."""
        self._begin, self._end = next, end

    @property
    def next(self) -> int:
        """The offset to go on with; `EARLIEST` before anything is known."""
        if not self._assigned:
            return self._begin
        return int(self._client.position(*self.place))

    @property
    def lag(self) -> int:
        """How many records wait behind what was read; -1: not known."""
        return int(self._client.lag(*self.place)) if self._assigned else -1

    def read(self, rows_max: int) -> pa.RecordBatch | Later | None:
        """See `Cursor.read`."""
        if self._is_over():
            return None
        if not self._seen or self._stands:
            return _NOTHING
        if not self._assigned:
            self._client.assign({self.place: (self._begin, self._epoch)})
            self._assigned = True
        rows, bytes_, wait_s = self._budget.left()
        if rows < 1:
            return Later(wait_s)
        found = self._records.read(self._client, self.place, min(rows_max, rows), bytes_, self._end)
        if found is None:
            return None if self._is_over() else _NOTHING
        batch, bad, n_bytes = found
        self._budget.spend(batch.num_rows + len(bad), n_bytes)
        for one in bad:
            if self._source.on_bad == "fail":
                raise _unreadable(one)
        self._bad += bad
        if batch.num_rows:
            return batch
        return None if self._is_over() else Later(0.0)

    def take_unreadable(self) -> list[BadRecord]:
        """Records that were left out."""
        found, self._bad = self._bad, []
        return found

    def position(self) -> dict[str, Any]:
        """See the module."""
        epoch = self._client.leader_epoch(*self.place) if self._assigned else self._epoch
        found: dict[str, Any] = {"next": self.next, "leader_epoch": epoch}
        return found | ({"topic": self._topic_id} if self._topic_id else {})

    def seek(self, position: dict[str, Any]) -> None:
        """See `Cursor.seek`."""
        self._begin, self._epoch = int(position["next"]), int(position["leader_epoch"])
        self._topic_id = str(position.get("topic", ""))

    # ---- what the reader hears of it

    def stand(self) -> None:
        """Read nothing until `on_bounds`."""
        self._stands = True

    def on_seen(self, there: bool, topic_id: str) -> bool:
        """Brokers told which topics there are; before that nothing is read. False: look again."""
        topic, partition = self.place
        self._n_missed = 0 if there else self._n_missed + 1
        if self._n_missed == 1:
            return False
        if self._n_missed:
            raise DataError(
                f"partition {partition} of topic {topic!r} is gone: the topic was removed, or made "
                "anew with fewer partitions; start a new job, or bring it back"
            )
        if topic_id and self._topic_id and topic_id != self._topic_id:
            self._expire(
                f"topic {topic!r} was made anew: its id was {self._topic_id}, now it is "
                f"{topic_id}; of the old one record {self.next} of partition {partition} was to be "
                "read next"
            )
        self._topic_id = topic_id or self._topic_id
        self._seen = True
        return True

    def on_bounds(self, low: int, high: int) -> None:
        """The offsets there are, after the one to go on with was refused."""
        topic, partition = self.place
        following = self.next
        where = f"partition {partition} of topic {topic!r}"
        if 0 <= following < low:
            return self._expire(
                f"{where} no longer keeps record {following}: its first is {low}, so "
                f"{low - following} records are lost"
            )
        if following > high:
            return self._expire(
                f"record {following} of {where} was to be read next, and it ends before {high}: "
                "the topic was made anew, or lost its tail with a broker"
            )
        return self._again(following if following >= 0 else low)

    def _expire(self, what: str) -> None:
        policy = self._source.on_expired
        if policy == "fail":
            raise DataError(
                f'{what}; to go on with what there is say on_expired="earliest" or "latest", or '
                "start without this checkpoint"
            )
        _log.error("records of Kafka are lost", why=what, goes_on=policy)
        self._begin, self._epoch = EARLIEST if policy == "earliest" else LATEST, -1
        self._again(self._begin)

    def _again(self, offset: int) -> None:
        if self._assigned:
            self._client.unassign([self.place])
        self._begin, self._assigned, self._stands = offset, False, False

    def _is_over(self) -> bool:
        if self._end is None:
            return False
        # Behind the last records lie control records and holes, which its position counts, too.
        return self.next >= self._end or self._end == 0


class Budget:
    """How much may be read now, by `rows_per_s` and `bytes_per_s` of one of `n_tasks` tasks.

    What is left over is kept for a tenth of a second; a record that is larger than that is read
    whole and paid for after.
    """

    _KEPT_S = 0.1

    def __init__(self, source: KafkaStream, n_tasks: int, clock: Clock) -> None:
        self._clock = clock
        self._rates = (source.rows_per_s / n_tasks, source.bytes_per_s / n_tasks)
        self._left = [rate * self._KEPT_S for rate in self._rates]
        self._at_s = clock.monotonic_s()

    def left(self) -> tuple[int, int, float]:
        """Rows and bytes that may be read (many: no bound), else how long until some may."""
        now_s = self._clock.monotonic_s()
        passed_s, self._at_s = now_s - self._at_s, now_s
        wait_s = 0.0
        allowed = [1 << 62, 1 << 62]
        for index, rate in enumerate(self._rates):
            if not rate:
                continue
            most = max(1.0, rate * self._KEPT_S)
            self._left[index] = min(most, self._left[index] + rate * passed_s)
            if self._left[index] < 1:
                wait_s = max(wait_s, (1 - self._left[index]) / rate)
            allowed[index] = int(self._left[index])
        if wait_s:
            return 0, 0, wait_s
        return allowed[0], allowed[1], 0.0

    def spend(self, n_rows: int, n_bytes: int) -> None:
        """So much was read."""
        self._left = [self._left[0] - n_rows, self._left[1] - n_bytes]


def _unreadable(bad: BadRecord) -> DataError:
    shown = "" if bad.data is None else f"; its bytes begin {bad.data[:60]!r}"
    return DataError(
        f"record {bad.offset} of topic {bad.topic!r}, partition {bad.partition}, can't be read: "
        f'{bad.error}{shown}; on_bad="skip" leaves such records out, "side" puts them into '
        '.side_output("unreadable")'
    )


def _client(source: KafkaStream, n_partitions: int) -> Reader:
    """A client that reads, with what it may fetch ahead shared out over its partitions."""
    from fabric.io.kafka.library import client

    queue_bytes = max(_QUEUE_BYTES_MIN, source.buffer_bytes // n_partitions)
    ours = {
        "group.id": source.group or "fabric",
        "isolation.level": source.isolation,
        "queued.max.messages.kbytes": str(max(1, queue_bytes >> 10)),
        "queued.min.messages": str(_AHEAD_ROWS),
        "fetch.message.max.bytes": str(min(_FETCH_BYTES, queue_bytes)),
    }
    if source.until:  # the last record may be the commit of a transaction, see `Markers`
        ours["fetch.wait.max.ms"] = "20"
    return client().Reader({**ours, **configuration(source)})
