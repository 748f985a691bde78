"""The rows of a bounded table in the order of one of its columns.

One job: the cursors of a `ReplayStream` whose rows lie in memory: all rows of a task's splits are
read once, dealt out by the value of `split_by` and sorted, which needs room for them. A file that
is in order already is followed row by row instead (`ordered_files.py`). With a `speed`, rows come
when `order_by` says, counted from the first of all splits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fabric._cython.kernels.take import take
from fabric.clock import Clock
from fabric.errors import InternalError, NotFoundError
from fabric.io.readers.protocol import Cursor, Later
from fabric.io.readers.reader import selected, whole
from fabric.io.sources import read_split
from fabric.plan.sources import ReplayStream, Split
from fabric.plan.types import flat_type

NULL_SPLIT = "null"
ALL = "all"
LAST = float("inf")
_ROWS_MIN = 1_024
"""Splits stay side by side only as far as batches do not become crumbs."""
_ROWS_MIN_AT_ONCE = 1 << 15
"""The same where nobody waits for the clock: a batch costs the same however few rows it has."""
_SECOND_US = 1_000_000

Places = NDArray[np.float64]
Rowed = TypeVar("Rowed", pa.Table, pa.RecordBatch)


class Headed(Protocol):
    """A split being replayed, as `Tempo` sees it."""

    def head(self) -> float:
        """The place of its next row in the order; `LAST` when it has none."""


class Tempo:
    """When rows are due, for all splits of one reader."""

    def __init__(self, speed: float, clock: Clock) -> None:
        self._speed, self._clock = speed, clock
        self._cursors: list[Headed] = []
        self._begun_s: float | None = None
        self.base_us: float | None = None
        """What is due at the start; None: what comes first."""

    def join(self, cursor: Headed) -> None:
        """One split more."""
        self._cursors.append(cursor)

    def restart(self) -> None:
        """A position was taken: what comes first is due at once."""
        self.base_us, self._begun_s = None, None

    def due_us(self) -> float:
        """Rows up to this place are due; all of them without a speed."""
        if not self._speed:
            return LAST
        if self._begun_s is None:
            self._begun_s = self._clock.monotonic_s()
            if self.base_us is None:
                self.base_us = min(cursor.head() for cursor in self._cursors)
        assert self.base_us is not None
        passed_s = self._clock.monotonic_s() - self._begun_s
        return self.base_us + passed_s * self._speed * _SECOND_US

    def wait_s(self, place: float) -> float:
        """How long until `place` is due."""
        return max(1e-4, (place - self.due_us()) / _SECOND_US / self._speed)

    def n_rows(self, cursor: Headed, ahead: Places) -> int:
        """How many rows of `cursor` come next, of those at the places `ahead`; 0: none is due.

        Those behind where the next other split begins wait for it, but for the least of a batch.
        """
        if ahead[0] == LAST:  # no clock gets there: without a time they come last, at once
            return int(ahead.size)
        due = int(np.searchsorted(ahead, self.due_us(), side="right"))
        limit = min((c.head() for c in self._cursors if c is not cursor), default=LAST)
        beside = int(np.searchsorted(ahead, limit, side="right"))
        return min(due, max(beside, _ROWS_MIN if self._speed else _ROWS_MIN_AT_ONCE))


class Rows:
    """The rows of all splits that one task replays, read with the first question."""

    def __init__(self, source: ReplayStream, schema: pa.Schema, full: pa.Schema) -> None:
        self._source, self._names, self._full = source, schema.names, full
        wanted = dict.fromkeys([*self._names, source.order_by, source.split_by or source.order_by])
        self._schema = pa.schema([full.field(name) for name in wanted])
        self._wanted: list[str] = []
        self._parts: list[Split] = []
        self._tables: dict[str, pa.Table] | None = None

    def want(self, split: Split) -> None:
        """This split is read here too."""
        self._wanted.append(split.uri)
        self._parts = parts_of(split)

    def of(self, split_id: str) -> pa.Table:
        """The rows of one split, in order."""
        if self._tables is None:
            self._tables = dict(self._load())
        return self._tables.pop(split_id)

    def _load(self) -> Iterator[tuple[str, pa.Table]]:
        table = pa.Table.from_batches(self._batches(), self._schema)
        if not self._source.split_by:
            yield ALL, self._sorted(table)
            return
        ids = split_ids(table[self._source.split_by])
        for wanted in self._wanted:
            # pyarrow 25 dies of `indices_nonzero` of no chunks at all.
            among = pc.equal(ids, wanted).combine_chunks()
            yield wanted, self._sorted(_at(table, pc.indices_nonzero(among)))

    def _batches(self) -> Iterator[pa.RecordBatch]:
        inner, names = self._source.source, self._schema.names
        wanted = pa.array(self._wanted, pa.string())
        for part in self._parts:
            for batch in read_split(inner, self._full, part, names):
                rows = pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)
                if self._source.split_by:
                    ids = split_ids(rows.column(self._source.split_by))
                    rows = _at(rows, pc.indices_nonzero(pc.is_in(ids, wanted)))
                yield rows

    def _sorted(self, table: pa.Table) -> pa.Table:
        by = table[self._source.order_by]
        if not pa.types.is_temporal(by.type):
            by = by.cast(flat_type(by.type))  # Arrow sorts no views and no dictionaries
        keys = [("by", "ascending", "at_end")]
        return _at(table, pc.sort_indices(pa.table({"by": by}), sort_keys=keys)).combine_chunks()


def _at(rows: Rowed, indices: pa.Array) -> Rowed:
    """Those rows, in that order."""
    taken = [_taken(column, indices) for column in rows.columns]
    return type(rows).from_arrays(taken, schema=rows.schema)


def _taken(column: pa.Array | pa.ChunkedArray, indices: pa.Array) -> pa.Array | pa.ChunkedArray:
    try:
        return column.take(indices)
    except pa.ArrowNotImplementedError:  # of views, at any depth
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        return take(whole, indices.to_numpy().astype(np.uint32))


class ReplayCursor(Cursor):
    """One split; see `Cursor`."""

    def __init__(self, rows: Rows, source: ReplayStream, schema: pa.Schema, split_id: str,
                 tempo: Tempo) -> None:  # fmt: skip
        self._rows, self._source, self._names = rows, source, schema.names
        self._id, self._tempo, self._row = split_id, tempo, 0
        self._table: pa.Table | None = None
        self._places: Places = np.empty(0)
        tempo.join(self)

    def read(self, rows_max: int) -> pa.RecordBatch | Later | None:
        """See `Cursor.read`."""
        self._load()
        assert self._table is not None
        places = self._places[self._row : self._row + rows_max]
        if not places.size:
            return None
        n_rows = self._tempo.n_rows(self, places)
        if not n_rows:
            return Later(self._tempo.wait_s(float(places[0])))
        batch = self._table.slice(self._row, n_rows).to_batches()[0]
        self._row += batch.num_rows
        return selected(batch, self._names)

    def head(self) -> float:
        """The place of the next row."""
        self._load()
        return float(self._places[self._row]) if self._row < self._places.size else LAST

    def position(self) -> dict[str, Any]:
        """How many rows are out."""
        return {"row": self._row}

    def seek(self, position: dict[str, Any]) -> None:
        """See `Cursor.seek`."""
        self._row = whole(position, "row")
        self._tempo.restart()

    def close(self) -> None:
        """Forget the rows."""
        self._table = None

    def _load(self) -> None:
        if self._table is None:
            self._table = self._rows.of(self._id)
            self._places = places(self._table[self._source.order_by])
            if self._row > self._table.num_rows:
                raise InternalError(
                    f"split {self._id!r} has {self._table.num_rows} rows, {self._row} were read; "
                    "was its source changed?"
                )


def places(column: pa.ChunkedArray) -> Places:
    """A column in order as numbers in order: times in microseconds; `LAST` for nulls."""
    dtype = column.type
    if pa.types.is_timestamp(dtype) or pa.types.is_date(dtype):
        us = pa.timestamp("us", tz=getattr(dtype, "tz", None))
        # What is left of nanoseconds tells nothing of when a row is due.
        column = pc.cast(column, options=pc.CastOptions(us, allow_time_truncate=True))
        column = column.cast(pa.int64())
    elif not (pa.types.is_integer(dtype) or pa.types.is_floating(dtype)):
        # Of other types only the order is known.
        return np.where(column.is_null().to_numpy(), LAST, 0.0)
    numbers = column.cast(pa.float64(), safe=False)
    found: Places = numbers.fill_null(LAST).to_numpy()
    return np.where(np.isnan(found), LAST, found)


def split_ids(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The id of the split that each row belongs to."""
    text = pc.binary_join_element_wise("=", column.cast(pa.string()), "")
    return text.fill_null(NULL_SPLIT)


def encode_parts(parts: list[Split], first_us: float | None) -> bytes:
    """What a split of a replay says about its source: the parts to read, and what comes first."""
    listed = [(part.uri, part.begin, part.end, part.ticket.hex()) for part in parts]
    return json.dumps({"v": 1, "parts": listed, "first_us": first_us}).encode()


def parts_of(split: Split) -> list[Split]:
    """The parts of the source that hold the rows of `split`."""
    listed = json.loads(split.ticket)["parts"]
    return [Split(uri, begin, end, bytes.fromhex(ticket)) for uri, begin, end, ticket in listed]


def first_us(split: Split) -> float | None:
    """The first place of all splits, if it matters."""
    found = json.loads(split.ticket)["first_us"]
    return None if found is None else float(found)


def order_type(schema: pa.Schema, name: str) -> pa.DataType:
    """The type of column `name`; raises `NotFoundError` when there is none."""
    if name not in schema.names:
        raise NotFoundError(
            f"the source to replay has no column {name!r}; it has {', '.join(schema.names)}"
        )
    return schema.field(name).type
