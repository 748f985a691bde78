"""One partition of a topic: a cursor over its records, and those as the columns that a plan needs.

One job: `Partition`, a `Cursor`: begin, lag, position, and what happens when an offset is gone; it
reads no more than its `Budget`. `Records` knows what to request from the client, decodes keys, and
orders the columns. The client decodes values in the same call that reads them, without the GIL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from fabric._cython.kafka.results import COLUMNS, EARLIEST, LATEST
from fabric.clock import Clock
from fabric.errors import DataError
from fabric.io.kafka.splits import (
    Place,
    key_columns,
    value_columns,
)
from fabric.io.readers.protocol import BadRecord, Cursor, Later
from fabric.plan.places import RowFormat
from fabric.plan.sources import KafkaStream
from fabric.telemetry.logs import logger

if TYPE_CHECKING:
    from fabric._cython.codecs.codec import Decoder
    from fabric.io.kafka.library import Reader


_log = logger("fabric.kafka")
NOTHING = Later(1.0)
"""A record wakes the reader; a client that cannot do so is polled as often as the task runs."""
GONE_OFFSET = ("OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET")


class Partition(Cursor):
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
        """Consecutive metadata requests that did not list the partition."""
        self._assigned = self._stands = self._seen = False
        self._unreadable: list[BadRecord] = []

    def begin(self, next: int, end: int | None) -> None:
        """Set the offset to start at, and the end offset (exclusive; None: unbounded)."""
        self._begin, self._end = next, end

    @property
    def next(self) -> int:
        """The next offset to read; `EARLIEST` before anything is known."""
        if not self._assigned:
            return self._begin
        return int(self._client.position(*self.place))

    @property
    def lag(self) -> int:
        """Records between the position and the high watermark; -1: not known."""
        return int(self._client.lag(*self.place)) if self._assigned else -1

    def read(self, rows_max: int) -> pa.RecordBatch | Later | None:
        """See `Cursor.read`."""
        if self._is_over():
            return None
        if not self._seen or self._stands:
            return NOTHING
        if not self._assigned:
            self._client.assign({self.place: (self._begin, self._epoch)})
            self._assigned = True
        rows, bytes_, wait_s = self._budget.left()
        if rows < 1:
            return Later(wait_s)
        found = self._records.read(self._client, self.place, min(rows_max, rows), bytes_, self._end)
        if found is None:
            return None if self._is_over() else NOTHING
        batch, bad, n_bytes = found
        self._budget.spend(batch.num_rows + len(bad), n_bytes)
        for one in bad:
            if self._source.on_bad == "fail":
                raise _unreadable(one)
        self._unreadable += bad
        if batch.num_rows:
            return batch
        return None if self._is_over() else Later(0.0)

    def position(self) -> dict[str, Any]:
        """See the module's docstring."""
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
        """Note whether the brokers list the partition; nothing is read before. False: ask again."""
        topic, partition = self.place
        self._n_missed = 0 if there else self._n_missed + 1
        if self._n_missed == 1:
            return False
        if self._n_missed:
            raise DataError(
                f"partition {partition} of topic {topic!r} no longer exists: the topic was "
                "deleted, or recreated with fewer partitions; start a new job, or restore the "
                "partition"
            )
        if topic_id and self._topic_id and topic_id != self._topic_id:
            self._expire(
                f"topic {topic!r} was recreated: its topic id changed from {self._topic_id} to "
                f"{topic_id}, and offset {self.next} of partition {partition} of the old topic was "
                "to be read next"
            )
        self._topic_id = topic_id or self._topic_id
        self._seen = True
        return True

    def on_bounds(self, low: int, high: int) -> None:
        """Handle the partition's offsets after the brokers rejected the next one to read."""
        topic, partition = self.place
        following = self.next
        where = f"partition {partition} of topic {topic!r}"
        if 0 <= following < low:
            return self._expire(
                f"{where} no longer has offset {following}: the topic's retention deleted it, and "
                f"the first available offset is {low}, so {low - following} records are lost"
            )
        if following > high:
            return self._expire(
                f"offset {following} of {where} was to be read next, which is past the end offset "
                f"{high}: the topic was recreated, or a broker lost its newest records"
            )
        return self._again(following if following >= 0 else low)

    def _expire(self, what: str) -> None:
        policy = self._source.on_expired
        if policy == "fail":
            raise DataError(
                f'{what}; to continue with the available records set on_expired="earliest" or '
                '"latest", or start a job without this checkpoint'
            )
        _log.error("Kafka records are lost", why=what, continues_at=policy)
        self._begin, self._epoch = EARLIEST if policy == "earliest" else LATEST, -1
        self._again(self._begin)

    def _again(self, offset: int) -> None:
        if self._assigned:
            self._client.unassign([self.place])
        self._begin, self._assigned, self._stands = offset, False, False

    def _is_over(self) -> bool:
        if self._end is None:
            return False
        # Control records and gaps may follow the last record; the position counts them, too.
        return self.next >= self._end or self._end == 0


class Budget:
    """A token bucket: the share of `rows_per_s` and `bytes_per_s` of one of `n_tasks` tasks.

    It holds at most the tokens of a tenth of a second; a record that is larger is read whole and
    paid for afterwards.
    """

    _KEPT_S = 0.1

    def __init__(self, source: KafkaStream, n_tasks: int, clock: Clock) -> None:
        self._clock = clock
        self._rates = (source.rows_per_s / n_tasks, source.bytes_per_s / n_tasks)
        self._left = [rate * self._KEPT_S for rate in self._rates]
        self._at_s = clock.monotonic_s()

    def left(self) -> tuple[int, int, float]:
        """Rows and bytes that may be read now, or else zero and the seconds to wait."""
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
        """Take what was read out of the budget."""
        self._left = [self._left[0] - n_rows, self._left[1] - n_bytes]


def _unreadable(bad: BadRecord) -> DataError:
    shown = "" if bad.data is None else f"; the value starts with {bad.data[:60]!r}"
    return DataError(
        f"the record at offset {bad.offset} of topic {bad.topic!r}, partition {bad.partition}, "
        f'cannot be read: {bad.error}{shown}; on_bad="skip" drops such records, on_bad="side" '
        'sends them to .side_output("unreadable")'
    )


ROWS_MAX = 16_384
"""Per read: larger reads cost more per row, because of CPU caches."""
BYTES_MAX = 8 << 20


class Records:
    """Reads the columns of `schema`, a subset of the scan's `full` schema, from `source`."""

    def __init__(self, source: KafkaStream, schema: pa.Schema, full: pa.Schema) -> None:
        self._schema = schema
        self._key = _Coded(source.key_format, key_columns(source, full), schema)
        self._value = _Coded(source.value, value_columns(source, full), schema)
        self._parts = {name: part for part, name in source.columns if name in schema.names}
        wants: set[str] = {"offset", *self._parts.values()}
        wants |= {"key"} if self._key.is_needed else set()
        wants |= {"value"} if self._value.names and self._value.decoder is None else set()
        self._wants = frozenset(wants)
        self._ordered = [part for part in COLUMNS.names if part in wants]
        none = [pa.array([], field.type) for field in schema]
        self.empty = _batch(none, schema, 0)
        """A batch of `schema` without rows."""

    def read(
        self, client: Reader, place: Place, rows_max: int, bytes_max: int, end: int | None
    ) -> tuple[pa.RecordBatch, list[BadRecord], int] | None:
        """Rows, unreadable records and total bytes read; None if no records are available now.

        Records at offset `end` and later are left out.
        """
        found = client.read(
            *place,
            min(rows_max, ROWS_MAX),
            wants=self._wants,
            decoder=self._value.decoder,
            bytes_max=min(bytes_max, BYTES_MAX),
        )
        if found is None:
            return None
        bad = [BadRecord(*place, one.offset, one.value, one.reason) for one in found.bad]
        n_parts = len(self._ordered)
        columns = found.batch.columns
        rows = _Rows(dict(zip(self._ordered, columns[:n_parts], strict=True)), columns[n_parts:])
        if end is not None:
            rows.cut(end)
            bad = [one for one in bad if one.offset < end]
        keys: Sequence[pa.Array] = ()
        if self._key.decoder is not None:
            keys, bad_keys = rows.decoded_keys(self._key.decoder, place)
            bad += bad_keys
        elif self._key.is_needed:
            keys = [rows.parts["key"]]
        values = rows.values if self._value.decoder else [rows.parts.get("value")]
        arrays = {name: rows.parts[part] for name, part in self._parts.items()}
        arrays |= zip(self._key.names, keys, strict=False)
        arrays |= zip(self._value.names, values, strict=False)
        ordered = [arrays[name] for name in self._schema.names]
        return _batch(ordered, self._schema, rows.n), bad, found.n_bytes


class _Coded:
    """A record's key or value: `columns` are all of its columns, those in `wanted` are read."""

    def __init__(self, format: RowFormat, columns: pa.Schema, wanted: pa.Schema) -> None:
        self.names = [name for name in columns.names if name in wanted.names]
        self.decoder: Decoder | None = None
        if len(columns) and format.name != "raw":
            from fabric.io.codecs import make_decoder

            self.decoder = cast("Decoder", make_decoder(format, columns, self.names))
        # Unreadable records must be found even if the rows are only counted.
        self.is_needed = bool(self.names) or self.decoder is not None


class _Rows:
    """Records being read: an array per record part, and the columns of their values."""

    def __init__(self, parts: dict[str, pa.Array], values: list[pa.Array]) -> None:
        self.parts, self.values = parts, values

    @property
    def n(self) -> int:
        return len(self.parts["offset"])

    def cut(self, end: int) -> None:
        """Leave out records at offset `end` and later."""
        n = int(self.parts["offset"].to_numpy().searchsorted(end))
        if n < self.n:
            self._keep(lambda column: column.slice(0, n))

    def decoded_keys(
        self, decoder: Decoder, place: Place
    ) -> tuple[list[pa.Array], list[BadRecord]]:
        """The columns of the keys; records whose key cannot be decoded are removed."""
        keys, offsets = self.parts["key"], self.parts["offset"]
        decoded = decoder.decode(keys)
        bad = [
            BadRecord(*place, offsets[one.row].as_py(), keys[one.row].as_py(), one.reason)
            for one in decoded.bad
        ]
        if decoded.origin is not None:
            rows = pa.array(decoded.origin)
            self._keep(lambda column: column.take(rows))
        elif bad:
            gone = {one.row for one in decoded.bad}
            good = pa.array([row not in gone for row in range(len(keys))])
            self._keep(lambda column: column.filter(good))
        return decoded.batch.columns, bad

    def _keep(self, chosen: Callable[[pa.Array], pa.Array]) -> None:
        self.parts = {part: chosen(column) for part, column in self.parts.items()}
        self.values = [chosen(column) for column in self.values]


def _batch(arrays: Sequence[pa.Array], schema: pa.Schema, n_rows: int) -> pa.RecordBatch:
    if not arrays:  # rows are only counted
        return pa.RecordBatch.from_struct_array(pa.array([{}] * n_rows, pa.struct([])))
    typed = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(arrays, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(typed, schema=schema)
