"""Rows that operators keep, in Arrow batches: by number, or one row a group.

One job: `RowStore`, rows that are put in batches, taken in any order and dropped one by one, and
`GroupRows`, at most one row a group, which can be replaced. Chunks of rows never change, so a
snapshot of a `RowStore` is a list of chunks and a copy of where each row lies. Chunks of like size
are merged, and those that are half empty written anew: each row is copied O(log rows) times, and
chunks are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.operators.streams.columns import Ints, gathered, rows_of
from fabric.operators.streams.group_values import Numbers

_FAN = 8
_ROWS_MAX = 1 << 17
_BYTES_MAX = 128 << 20
_CHUNK_SHIFT = 32
_ROW = (1 << _CHUNK_SHIFT) - 1


@dataclass(slots=True)
class _Chunk:
    rows: pa.RecordBatch
    numbers: Ints
    """The number of each row, -1 once it was dropped."""
    n_live: int


@dataclass(frozen=True, slots=True)
class FrozenRows:
    """The rows of a `RowStore` at one moment; for any thread."""

    schema: pa.Schema
    chunks: dict[int, pa.RecordBatch]
    places: Ints

    def take(self, numbers: Ints, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """See `RowStore.take`."""
        return _taken(self.chunks, self.schema, self.places[numbers], columns)


class RowStore:
    """Rows of one schema.

    >>> store = RowStore(pa.schema([("a", pa.string())]))
    >>> numbers = store.put(pa.record_batch({"a": ["x", "y", "z"]}))
    >>> store.drop(numbers[:1])
    >>> store.take(numbers[[2, 1, 2]]).column(0).to_pylist(), len(store)
    (['z', 'y', 'z'], 2)
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._chunks: dict[int, _Chunk] = {}
        self._next_chunk = 0
        self._places = Numbers(np.int64, 0)
        self._free: Ints = np.empty(0, np.int64)
        self._n_numbers = 0

    def __len__(self) -> int:
        return sum(chunk.n_live for chunk in self._chunks.values())

    def put(self, rows: pa.RecordBatch) -> Ints:
        """Keep rows; returns their numbers, of which dropped ones are used again."""
        if not rows.num_rows:
            return np.empty(0, np.int64)
        numbers = self._new_numbers(rows.num_rows)
        self._add(rows, numbers)
        self._merge()
        return numbers

    def take(self, numbers: Ints, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """The rows with these numbers, in that order; all columns or some."""
        chunks = {at: chunk.rows for at, chunk in self._chunks.items()}
        return _taken(chunks, self._schema, self._places.values[numbers], columns)

    def drop(self, numbers: Ints) -> None:
        """Forget rows."""
        if not len(numbers):
            return
        places = self._places.values[numbers]
        chunk_of = places >> _CHUNK_SHIFT
        for at in np.unique(chunk_of).tolist():
            chunk = self._chunks[at]
            gone = places[chunk_of == at] & _ROW
            chunk.numbers[gone] = -1
            chunk.n_live -= len(gone)
            if 2 * chunk.n_live < len(chunk.numbers):
                self._rewrite([at])
        self._free = np.concatenate([self._free, numbers])

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        rows = sum(int(each.rows.nbytes) + each.numbers.nbytes for each in self._chunks.values())
        return rows + self._places.nbytes + self._free.nbytes

    def freeze(self) -> FrozenRows:
        """What is kept now, for another thread."""
        chunks = {at: chunk.rows for at, chunk in self._chunks.items()}
        return FrozenRows(self._schema, chunks, self._places.values[: self._n_numbers].copy())

    def _new_numbers(self, n: int) -> Ints:
        used = self._free[max(0, len(self._free) - n) :]
        self._free = self._free[: len(self._free) - len(used)]
        first = self._n_numbers
        self._n_numbers += n - len(used)
        self._places.resize(self._n_numbers)
        return np.concatenate([used, np.arange(first, self._n_numbers)])

    def _add(self, rows: pa.RecordBatch, numbers: Ints) -> None:
        at, self._next_chunk = self._next_chunk, self._next_chunk + 1
        self._chunks[at] = _Chunk(rows, numbers.copy(), len(numbers))
        self._places.values[numbers] = (at << _CHUNK_SHIFT) + np.arange(len(numbers))

    def _merge(self) -> None:
        """Join the newest chunks when there are `_FAN` of about the same size."""
        while True:
            newest = self._newest()
            chunks = [self._chunks[at] for at in newest]
            if len(chunks) < _FAN or sum(chunk.rows.nbytes for chunk in chunks) > _BYTES_MAX:
                return
            self._rewrite(newest)

    def _newest(self) -> list[int]:
        """The last chunks that are no larger than `_FAN` times the very last."""
        found: list[int] = []
        level = 0
        for at, chunk in reversed(self._chunks.items()):
            level = level if found else _level(chunk.n_live)
            if _level(chunk.n_live) > level or chunk.n_live > _ROWS_MAX:
                break
            found.append(at)
        return found[::-1]

    def _rewrite(self, places: list[int]) -> None:
        """Put what is left of some chunks into one new chunk."""
        chunks = [self._chunks.pop(at) for at in places]
        live = [chunk.numbers >= 0 for chunk in chunks]
        kept = [rows_of(c.rows, mask) for c, mask in zip(chunks, live, strict=True) if mask.any()]
        if kept:
            numbers = [c.numbers[mask] for c, mask in zip(chunks, live, strict=True)]
            self._add(pa.concat_batches(kept), np.concatenate(numbers))


def _taken(
    chunks: dict[int, pa.RecordBatch],
    schema: pa.Schema,
    places: Ints,
    columns: Sequence[str] | None,
) -> pa.RecordBatch:
    """Rows from wherever they lie."""
    wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    if not len(places):
        return _empty(wanted)
    chunk_of, row = places >> _CHUNK_SHIFT, places & _ROW
    if (chunk_of == chunk_of[0]).all():
        return gathered(chunks[int(chunk_of[0])].select(wanted.names), row)
    order = np.argsort(chunk_of, kind="stable")
    cuts = np.flatnonzero(np.diff(chunk_of[order], prepend=-1))
    pieces = np.split(row[order], cuts[1:])
    found = [
        gathered(chunks[at].select(wanted.names), piece)
        for at, piece in zip(chunk_of[order[cuts]].tolist(), pieces, strict=True)
    ]
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return gathered(pa.concat_batches(found), back)


def _level(n_rows: int) -> int:
    """Which power of `_FAN` a chunk has reached."""
    return (max(n_rows, 1).bit_length() - 1) // 3


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


_FEW = 65_536


class GroupRows:
    """At most one row of `schema` for each group.

    >>> store = GroupRows(pa.schema([("name", pa.string())]))
    >>> store.resize(3)
    >>> store.put(np.array([2, 0]), pa.record_batch({"name": ["c", "a"]}))
    >>> store.put(np.array([2]), pa.record_batch({"name": ["d"]}))
    >>> store.get(np.array([0, 1, 2])).to_pydict(), store.has(np.array([0, 1, 2])).tolist()
    ({'name': ['a', None, 'd']}, [True, False, True])
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._at = Numbers(np.int64, -1)
        self._chunks: list[pa.RecordBatch] = []
        self._n_rows = self._n_live = 0

    def resize(self, n_groups: int) -> None:
        """Make room for groups below `n_groups`; new ones have no row."""
        self._at.resize(n_groups)

    def has(self, ids: Ints) -> NDArray[np.bool_]:
        """Which of these groups have a row."""
        found: NDArray[np.bool_] = self._at.values[ids] >= 0
        return found

    def put(self, ids: Ints, rows: pa.RecordBatch) -> None:
        """Rows for these groups, which are different."""
        if not len(ids):
            return
        self._n_live += int(np.count_nonzero(self._at.values[ids] < 0))
        self._at.values[ids] = np.arange(self._n_rows, self._n_rows + len(ids))
        self._n_rows += len(ids)
        self._chunks.append(rows)
        if self._n_rows > 2 * self._n_live + _FEW:
            self._compact()
        while len(self._chunks) > 1 and 2 * len(self._chunks[-1]) >= len(self._chunks[-2]):
            self._chunks[-2:] = [_joined(self._chunks[-2:])]

    def get(self, ids: Ints) -> pa.RecordBatch:
        """The rows of these groups; of nulls where there is none."""
        places = self._at.values[ids]
        lengths = [len(chunk) for chunk in self._chunks]
        ends = np.cumsum(lengths, dtype=np.int64)
        which = np.where(places < 0, -1, np.searchsorted(ends, places, side="right"))
        parts, order = [], []
        for number, chunk in enumerate(self._chunks):
            wanted = np.flatnonzero(which == number)
            if len(wanted):
                begin = ends[number] - lengths[number]
                parts.append(chunk.take(pa.array(places[wanted] - begin)))
                order.append(wanted)
        return _placed(parts, order, len(ids), self.schema)

    def clear(self, ids: Ints) -> None:
        """These groups have no row any more."""
        self._n_live -= int(np.count_nonzero(self._at.values[ids] >= 0))
        self._at.clear(ids)

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return self._at.nbytes + sum(int(chunk.nbytes) for chunk in self._chunks)

    def _compact(self) -> None:
        live = np.flatnonzero(self._at.values >= 0)
        live = live[np.argsort(self._at.values[live])]  # as they lie, which is cheaper to read
        rows = self.get(live)
        self._chunks = [rows] if len(live) else []
        self._at.values[live] = np.arange(len(live))
        self._n_rows = self._n_live = len(live)


def _joined(chunks: list[pa.RecordBatch]) -> pa.RecordBatch:
    columns = [
        pa.concat_arrays([c.column(i) for c in chunks]) for i in range(chunks[0].num_columns)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=chunks[0].schema)


def _placed(
    parts: list[pa.RecordBatch], order: list[Ints], n_rows: int, schema: pa.Schema
) -> pa.RecordBatch:
    """The rows of `parts` at the places of `order`, nulls elsewhere."""
    if len(parts) == 1 and len(order[0]) == n_rows:
        return parts[0]
    if not parts:
        nulls = [pa.nulls(n_rows, field.type) for field in schema]
        return pa.RecordBatch.from_arrays(nulls, schema=schema)
    places = np.concatenate(order)
    source = np.full(n_rows, -1, np.int64)
    source[places] = np.arange(len(places))
    missing = source < 0
    return _joined(parts).take(pa.array(source, mask=missing if missing.any() else None))
