"""The reader of a stream, over one cursor a split.

One job: `StreamReader`: who is read next, waiting, pauses and positions; what differs from source
to source is the `Cursor`. Of the splits that have rows the one with the least `head` is read, so
that splits in event-time order stay side by side; those that are alike take turns. A split that had
no more rows is asked again at the next step of the clock, so that what trickles in is handed out
together.

`Pace` says how many rows of a split are due, a rate against a monotonic clock; `Ahead` has rows
that are made many at a time and dealt a few at a time. A pace begins with the first question, so
that a restored split goes on at its rate instead of making up for the time away. `MadeCursor` is
a cursor of such rows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from threading import Event
from typing import Any

import pyarrow as pa
from pyarrow import types as t

from fabric.clock import Clock
from fabric.errors import InternalError
from fabric.io.readers.protocol import (
    END,
    IDLE,
    BadRecord,
    Cursor,
    Ended,
    Later,
    OpenCursor,
    Poll,
    Polled,
    Unreadable,
    decode,
    encode,
)
from fabric.plan.sources import Split

GATHER_MAX_S = 0.1
"""Rows of a buffer that others fill are kept no longer: nobody tells here how full it is."""
JOINED_ROWS = 8_192
"""A batch of more rows is worth a walk of its own; joining it would copy it for nothing."""


@dataclass(slots=True)
class _Turn:
    cursor: Cursor
    last: int = 0
    """When it was read last, counted in polls."""
    ended: bool = False
    out_s: float = -inf
    """When its last rows were handed out."""
    due_s: float = -inf
    """It has no rows that are to go before."""


class StreamReader:
    """The splits that one task reads. Calls: open, [seek], then the others; close at the end.

    One thread owns a reader; only `interrupt` may come from another one. `kind` marks its
    positions, `open_cursor` opens a split.
    """

    def __init__(self, kind: str, open_cursor: OpenCursor, clock: Clock) -> None:
        self._kind, self._open_cursor, self._clock = kind, open_cursor, clock
        self._gather_s = 0.0
        self._turns: dict[str, _Turn] = {}
        self._paused: frozenset[str] = frozenset()
        self._n_polls = 0
        self._unreadable: list[Unreadable | BadRecord] = []
        self._woken, self._interrupted = Event(), Event()

    def open(self, splits: Sequence[Split]) -> None:
        """Take these splits (perhaps none: then the stream has ended), from their beginnings."""
        for split in splits:
            if split.uri in self._turns:
                raise InternalError(f"split {split.uri!r} is given to one task twice")
            self._turns[split.uri] = _Turn(self._open_cursor(split))

    def seek(self, positions: Mapping[str, bytes]) -> None:
        """Go on where `positions` say; splits that they leave out begin at the beginning.

        Raises `DataError` for a position of another source.
        """
        if unknown := sorted(positions.keys() - self._turns.keys()):
            raise InternalError(f"a position of split {unknown[0]!r}, which is not read here")
        for split, data in positions.items():
            self._turns[split].cursor.seek(decode(self._kind, split, data))

    def poll(self, rows_max: int, wait_s: float, gather_s: float = 0.0) -> Polled | Ended | Poll:
        """At most `rows_max` rows of one split, or `IDLE` after about `wait_s` without any.

        Rows may be kept for `gather_s` so that more of them are handed out at once; not where
        `rows_max` of a split are there.
        """
        self._gather_s = min(gather_s, GATHER_MAX_S)
        for turn in self._turns.values():
            turn.cursor.gather_s = gather_s
        while True:
            self._woken.clear()
            found = self._read(rows_max)
            if not isinstance(found, Later):
                return found
            if wait_s <= 0 or self._interrupted.is_set():
                self._interrupted.clear()
                return IDLE
            waited = min(wait_s, found.seconds)
            self._woken.wait(waited)
            wait_s -= waited

    def counts(self) -> dict[str, int]:
        """What it knows of its splits in numbers, such as how many rows wait, by name."""
        return {}

    def take_unreadable(self) -> Sequence[Unreadable | BadRecord]:
        """What `poll` has left out since the last call; positions count it as read."""
        found, self._unreadable = self._unreadable, []
        return found

    def pause(self, splits: frozenset[str]) -> None:
        """Hand out nothing of these until the next call says otherwise."""
        self._paused = splits

    def positions(self) -> dict[str, bytes]:
        """By split: where to go on behind what `poll` has handed out."""
        return {
            split: encode(self._kind, turn.cursor.position()) for split, turn in self._turns.items()
        }

    def on_barrier(self, checkpoint: int) -> dict[str, bytes]:
        """The `positions` that checkpoint `checkpoint` holds."""
        for turn in self._turns.values():
            turn.cursor.on_barrier(checkpoint)
        return self.positions()

    def on_complete(self, checkpoint: int) -> None:
        """A checkpoint with the positions of the last `on_barrier` of this id is complete."""
        for turn in self._turns.values():
            turn.cursor.on_complete(checkpoint)

    def interrupt(self) -> None:
        """From any thread: a `poll` that waits, else the next one that would, answers `IDLE`."""
        self._interrupted.set()
        self._woken.set()

    def close(self) -> None:
        """Let go of files and memory; nothing is called afterwards but `interrupt`."""
        for turn in self._turns.values():
            turn.cursor.close()
        self._turns = {}

    def _read(self, rows_max: int) -> Polled | Ended | Poll | Later:
        """Rows of the first split that has any, or when the first one may have."""
        self._n_polls += 1
        open_turns = [(name, turn) for name, turn in self._turns.items() if not turn.ended]
        if not open_turns:
            return END
        soonest, now_s = inf, self._clock.monotonic_s()
        for name, turn in sorted(open_turns, key=_order):
            if name in self._paused:
                continue
            if now_s < turn.due_s:
                soonest = min(soonest, turn.due_s - now_s)
                continue
            found = turn.cursor.read(rows_max)
            self._unreadable += turn.cursor.take_unreadable()
            if isinstance(found, Later):
                turn.due_s = step_after(turn.out_s, self._gather_s)
                soonest = min(soonest, max(found.seconds, turn.due_s - now_s))
                continue
            turn.last, turn.out_s, turn.due_s = self._n_polls, now_s, -inf
            if found is None:
                turn.ended = True
                return Ended(name)
            return Polled(name, found)
        return Later(soonest)


def _order(entry: tuple[str, _Turn]) -> tuple[float, int]:
    return entry[1].cursor.head(), entry[1].last


def can_join(schema: pa.Schema) -> bool:
    """Arrow counts no rows without columns, and unifies no dictionaries inside of other values."""
    return bool(schema.names) and not any(map(_has_inner_dictionary, schema.types))


def _has_inner_dictionary(dtype: pa.DataType) -> bool:
    inner = [dtype.field(i).type for i in range(dtype.num_fields)]
    return any(t.is_dictionary(one) or _has_inner_dictionary(one) for one in inner)


def selected(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Its columns `names`, in that order."""
    return batch if batch.schema.names == list(names) else batch.select(list(names))


def whole(position: dict[str, Any], name: str) -> int:
    """A count of a position, which was written by us: anything else is an `InternalError`."""
    value = position.get(name)
    if not isinstance(value, int) or value < 0:
        raise InternalError(f"a position has {name}={value!r}, expected a count")
    return value


STEP_S = 5e-4
"""Rows come due together at most so often: a batch for each would cost more than they do."""
_ROUNDING = 1e-6
_AHEAD_ROWS = 1_024


class Pace:
    """Row `r` of split `index` of `n_splits` is due ``(r * n_splits + index) / rate`` s after 0.

    It comes with the first step that is not before that. Steps are as long as rows may be gathered,
    at least `STEP_S`, and counted from the clock's beginning: tasks of a host deal out at the same
    time, so that those behind an exchange get the rows of all of them at once.

    Examples
    --------
    >>> from fabric.testing import ManualClock
    >>> clock = ManualClock()
    >>> pace = Pace(10, 0, 1, clock)
    >>> pace.due(0), pace.wait_s(1)
    (1, 0.1)
    >>> clock.advance(1.0)
    >>> pace.due(1)
    11
    """

    def __init__(self, rate: float, index: int, n_splits: int, clock: Clock) -> None:
        self._rate, self._index, self._n_splits, self._clock = rate, index, n_splits, clock
        self._begun_s: float | None = None

    def due(self, row: int, gather_s: float = 0.0) -> int:
        """How many rows of the split are due in all, where the next one is `row`."""
        now_s = self._clock.monotonic_s()
        if self._begun_s is None:
            self._begun_s = now_s - row * self._n_splits / self._rate
        step_s = max(STEP_S, gather_s)
        passed_s = int(now_s / step_s + _ROUNDING) * step_s - self._begun_s
        return max(0, int((passed_s * self._rate - self._index + _ROUNDING) // self._n_splits) + 1)

    def wait_s(self, row: int, gather_s: float = 0.0) -> float:
        """How long until `row` is due; `due` was asked before."""
        assert self._begun_s is not None
        at_s = self._begun_s + (row * self._n_splits + self._index) / self._rate
        step_s = max(STEP_S, gather_s)
        at_s = math.ceil(at_s / step_s - _ROUNDING) * step_s
        return max(_ROUNDING, at_s - self._clock.monotonic_s())


def step_after(time_s: float, step_s: float) -> float:
    """The next step of the clock, at which all that deal out every `step_s` do.

    >>> step_after(0.113, 0.02), step_after(0.113, 0.0)
    (0.12, 0.113)
    """
    if not step_s or math.isinf(time_s):
        return time_s
    return (int(time_s / step_s + _ROUNDING) + 1) * step_s


class Ahead:
    """Rows of one split, made by ``make(begin, end)``; `n_rows` are all there will ever be.

    >>> made = []
    >>> def make(begin, end):
    ...     made.append((begin, end))
    ...     return pa.record_batch({"row": range(begin, end)})
    >>> ahead = Ahead(make, None)
    >>> ahead.rows(0, 2)["row"].to_pylist(), ahead.rows(2, 3)["row"].to_pylist(), made
    ([0, 1], [2], [(0, 1024)])
    """

    def __init__(self, make: Callable[[int, int], pa.RecordBatch], n_rows: int | None) -> None:
        self._make, self._n_rows = make, n_rows
        self._begin = self._end = 0
        self._made: pa.RecordBatch | None = None

    def rows(self, begin: int, end: int) -> pa.RecordBatch:
        """Rows `begin` to `end`, at least one."""
        if self._made is None or not self._begin <= begin < end <= self._end:
            last = max(end, begin + _AHEAD_ROWS)
            self._begin = begin
            self._end = last if self._n_rows is None else min(last, self._n_rows)
            self._made = self._make(self._begin, self._end)
        return self._made.slice(begin - self._begin, end - begin)


class MadeCursor(Cursor):
    """One split whose rows are made by number: at most `rows_max` at once, at the pace of `pace`.

    `n_rows` are all there will ever be; None: there is no end.
    """

    def __init__(self, n_rows: int | None, rows_max: int, pace: Pace | None) -> None:
        self._end, self._rows_max, self._pace = n_rows, rows_max, pace
        self._ahead, self._row = Ahead(self._made, n_rows), 0

    def read(self, rows_max: int) -> pa.RecordBatch | Later | None:
        """See `Cursor.read`."""
        end = self._row + min(rows_max, self._rows_max)
        if self._end is not None:
            end = min(end, self._end)
            if end <= self._row:
                return None
        if self._pace is not None:
            end = min(end, self._pace.due(self._row, self.gather_s))
            if end <= self._row:
                return Later(self._pace.wait_s(self._row, self.gather_s))
        make = self._made if self._pace is None else self._ahead.rows
        batch = make(self._row, end)
        self._row = end
        return batch

    def head(self) -> float:
        """How far it is."""
        return float(self._row)

    def position(self) -> dict[str, Any]:
        """The next row."""
        return {"row": self._row}

    def seek(self, position: dict[str, Any]) -> None:
        """See `Cursor.seek`."""
        self._row = whole(position, "row")

    @abstractmethod
    def _made(self, begin: int, end: int) -> pa.RecordBatch:
        """Rows `begin` to `end`."""
