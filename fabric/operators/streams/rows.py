"""Rows that stay, by number: put in batches, taken in any order, dropped one by one.

One job: `RowStore`. Rows lie in chunks that never change, so a snapshot is a list of chunks and a
copy of where each row lies. Chunks of like size are merged, eight at a time, and one that is half
empty is written anew: each row is copied O(log rows) times, and small chunks are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fabric.operators.streams.columns import Ints, gathered, grown, rows_of

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
        self._places: Ints = np.empty(0, np.int64)
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
        return _taken(chunks, self._schema, self._places[numbers], columns)

    def drop(self, numbers: Ints) -> None:
        """Forget rows."""
        if not len(numbers):
            return
        places = self._places[numbers]
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
        return FrozenRows(self._schema, chunks, self._places[: self._n_numbers].copy())

    def _new_numbers(self, n: int) -> Ints:
        used = self._free[max(0, len(self._free) - n) :]
        self._free = self._free[: len(self._free) - len(used)]
        first = self._n_numbers
        self._n_numbers += n - len(used)
        self._places = grown(self._places, self._n_numbers)
        return np.concatenate([used, np.arange(first, self._n_numbers)])

    def _add(self, rows: pa.RecordBatch, numbers: Ints) -> None:
        at, self._next_chunk = self._next_chunk, self._next_chunk + 1
        self._chunks[at] = _Chunk(rows, numbers.copy(), len(numbers))
        self._places[numbers] = (at << _CHUNK_SHIFT) + np.arange(len(numbers))

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
