"""A `StreamReader` over one cursor a split.

One job: who is read next, waiting, pauses and positions; what differs from source to source is the
`Cursor`. Of the splits that have rows the one with the least `head` is read, so that splits in
event-time order stay side by side; those that are alike take turns. A split that had no more rows
is asked again at the next step of the clock, so that what trickles in is handed out together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from threading import Event
from typing import Any

import pyarrow as pa
from pyarrow import types as t

from fabric.clock import Clock
from fabric.errors import InternalError
from fabric.io.streams.pace import step_after
from fabric.io.streams.positions import decode, encode
from fabric.io.streams.protocol import (
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


class CursorReader:
    """See `StreamReader`; `kind` marks its positions, `open_cursor` opens a split."""

    def __init__(self, kind: str, open_cursor: OpenCursor, clock: Clock) -> None:
        self._kind, self._open_cursor, self._clock = kind, open_cursor, clock
        self._gather_s = 0.0
        self._turns: dict[str, _Turn] = {}
        self._paused: frozenset[str] = frozenset()
        self._n_polls = 0
        self._unreadable: list[Unreadable | BadRecord] = []
        self._woken, self._interrupted = Event(), Event()

    def open(self, splits: Sequence[Split]) -> None:
        """See `StreamReader.open`."""
        for split in splits:
            if split.uri in self._turns:
                raise InternalError(f"split {split.uri!r} is given to one task twice")
            self._turns[split.uri] = _Turn(self._open_cursor(split, self._woken.set))

    def seek(self, positions: Mapping[str, bytes]) -> None:
        """See `StreamReader.seek`; raises `DataError` for a position of another source."""
        if unknown := sorted(positions.keys() - self._turns.keys()):
            raise InternalError(f"a position of split {unknown[0]!r}, which is not read here")
        for split, data in positions.items():
            self._turns[split].cursor.seek(decode(self._kind, split, data))

    def poll(self, rows_max: int, wait_s: float, gather_s: float = 0.0) -> Polled | Ended | Poll:
        """See `StreamReader.poll`."""
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
        """See `StreamReader.counts`."""
        return {}

    def take_unreadable(self) -> Sequence[Unreadable | BadRecord]:
        """See `StreamReader.take_unreadable`."""
        found, self._unreadable = self._unreadable, []
        return found

    def pause(self, splits: frozenset[str]) -> None:
        """See `StreamReader.pause`."""
        self._paused = splits

    def positions(self) -> dict[str, bytes]:
        """See `StreamReader.positions`."""
        return {
            split: encode(self._kind, turn.cursor.position()) for split, turn in self._turns.items()
        }

    def on_barrier(self, checkpoint: int) -> dict[str, bytes]:
        """See `StreamReader.on_barrier`."""
        for turn in self._turns.values():
            turn.cursor.on_barrier(checkpoint)
        return self.positions()

    def on_complete(self, checkpoint: int) -> None:
        """See `StreamReader.on_complete`."""
        for turn in self._turns.values():
            turn.cursor.on_complete(checkpoint)

    def interrupt(self) -> None:
        """See `StreamReader.interrupt`."""
        self._interrupted.set()
        self._woken.set()

    def close(self) -> None:
        """See `StreamReader.close`."""
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


class Plain:
    """What most cursors have in common: no preference, no acknowledgement, nothing to close."""

    gather_s = 0.0
    """See `Cursor.gather_s`."""

    def take_unreadable(self) -> Sequence[Unreadable | BadRecord]:
        """All can be read, or is an error."""
        return []

    def head(self) -> float:
        """See `Cursor.head`."""
        return 0.0

    def on_barrier(self, checkpoint: int) -> None:
        """Nobody waits for acknowledgements."""

    def on_complete(self, checkpoint: int) -> None:
        """Nobody waits for acknowledgements."""

    def close(self) -> None:
        """Nothing is held."""


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
