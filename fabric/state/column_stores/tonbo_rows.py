"""Rows of a column store as Tonbo has them: one binary key, columns that it reads back, the rest.

    key: major | minor | number, 8 bytes each, big-endian      c0, c1, … | rest

One job: `Coding`. Major and minor are what rows are sorted by (`run_files.places`); the number says
which of equal ones was put first. Tonbo can't read all types back that it takes: columns of others
lie together in one binary column, a row as `RowCodec` writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.kernels.rows import RowCodec
from fabric.errors import ConfigError
from fabric.state.column_stores.contract import Found, Hashes, Order, Times
from fabric.state.column_stores.run_index import SHIFT, Place, n_before, sorted_places

KEY, _REST = "key", "rest"
KEY_BYTES = 24
_OWN = {
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(),
    pa.uint64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32(),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
}  # fmt: skip
"""Types of columns that are columns of Tonbo, too."""
_FLIP = np.uint64(SHIFT)
U64 = NDArray[np.uint64]


class Piece(NamedTuple):
    """Some rows as they lie in a store, in its order."""

    major: U64
    minor: U64
    numbers: U64
    rows: pa.RecordBatch

    def times(self, order: Order) -> Times:
        """The time of each row."""
        shifted = self.minor if order == "hash" else self.major
        times: Times = (shifted ^ _FLIP).view(np.int64)
        return times

    def hashes(self, order: Order) -> Hashes:
        """The hash of each row."""
        return self.major if order == "hash" else self.minor

    def kept(self, keep: NDArray[np.bool_]) -> Piece:
        """Only some rows."""
        if keep.all():
            return self
        rows = self.rows.filter(pa.array(keep))
        return Piece(self.major[keep], self.minor[keep], self.numbers[keep], rows)

    def slice(self, begin: int, end: int) -> Piece:
        """The rows from one on, up to another."""
        rows = self.rows.slice(begin, end - begin)
        return Piece(self.major[begin:end], self.minor[begin:end], self.numbers[begin:end], rows)

    def numbered(self, first: int) -> pa.RecordBatch:
        """The rows as they are stored, numbered anew from `first` on."""
        numbers = np.arange(first, first + len(self.major), dtype=np.uint64)
        key = keys(self.major, self.minor, numbers)
        return self.rows.set_column(0, self.rows.schema.field(0), key)

    def n_before(self, place: Place, side: Literal["left", "right"] = "left") -> int:
        """See `run_index.n_before`."""
        return n_before(self.major, self.minor, place, side)


def joined(pieces: Sequence[Piece]) -> Piece:
    """Pieces one after another."""
    if len(pieces) == 1:
        return pieces[0]
    return Piece(
        np.concatenate([each.major for each in pieces]),
        np.concatenate([each.minor for each in pieces]),
        np.concatenate([each.numbers for each in pieces]),
        pa.concat_batches([each.rows for each in pieces]),
    )


class Coding:
    """Between rows with the columns `schema` and those of Tonbo.

    >>> coding = Coding(pa.schema([("n", pa.int64()), ("day", pa.date64())]), "hash")
    >>> coding.stored.names
    ['key', 'c0', 'rest']
    >>> rows = pa.record_batch({"n": [1, 2], "day": pa.array([None, 0], pa.date64())})
    >>> hashes, times = np.array([9, 7], np.uint64), np.array([0, 0])
    >>> piece = coding.piece(coding.encoded(hashes, times, rows, 0))
    >>> piece.major.tolist(), piece.numbers.tolist()
    ([7, 9], [1, 0])
    >>> coding.found(piece).rows.column("n").to_pylist()
    [2, 1]
    """

    def __init__(self, schema: pa.Schema, order: Order) -> None:
        self._schema, self._order = schema, order
        own = [i for i, field in enumerate(schema) if field.type in _OWN]
        self._own = own
        self._packed = [i for i in range(len(schema)) if i not in set(own)]
        fields = [pa.field(f"c{place}", schema.field(i).type) for place, i in enumerate(own)]
        self._rest: RowCodec | None = None
        if self._packed:
            self._rest = _codec(pa.schema([schema.field(i) for i in self._packed]))
            fields.append(pa.field(_REST, pa.binary()))
        self.stored = pa.schema([pa.field(KEY, pa.binary(), nullable=False), *fields])

    def encoded(
        self, hashes: Hashes, times: Times, rows: pa.RecordBatch, number: int
    ) -> pa.RecordBatch:
        """Rows as Tonbo has them, in its order, numbered from `number` on as they are given."""
        shifted = times.view(np.uint64) ^ _FLIP
        major, minor = (hashes, shifted) if self._order == "hash" else (shifted, hashes)
        at = sorted_places(major, minor)
        columns = [rows.column(i) for i in self._own]
        if self._rest is not None:
            packed = self._rest.encode([rows.column(i) for i in self._packed])
            columns.append(packed.cast(pa.binary()))
        taken = [column.take(pa.array(at)) for column in columns]
        numbers = np.uint64(number) + at.astype(np.uint64)
        key = keys(major[at], minor[at], numbers)
        return pa.RecordBatch.from_arrays([key, *taken], schema=self.stored)

    def piece(self, stored: pa.RecordBatch) -> Piece:
        """What Tonbo gave, in which the columns are still its own."""
        column = stored.column(0)
        _, offsets, data = column.buffers()
        n = len(column)
        first = int(np.frombuffer(offsets, np.int32)[column.offset])
        words = np.frombuffer(data, ">u8", 3 * n, first).astype(np.uint64).reshape(n, 3)
        major, minor, numbers = (np.ascontiguousarray(words[:, i]) for i in range(3))
        return Piece(major, minor, numbers, stored)

    def found(self, piece: Piece) -> Found:
        """Rows with the columns of the schema."""
        columns = dict(zip(self._own, piece.rows.columns[1:], strict=False))
        if self._rest is not None:
            rest = piece.rows.column(_REST).cast(pa.large_binary())
            columns |= zip(self._packed, self._rest.decode(rest), strict=True)
        in_order = [columns[i] for i in range(len(self._schema))]
        rows = pa.RecordBatch.from_arrays(in_order, schema=self._schema)
        return Found(piece.hashes(self._order), piece.times(self._order), rows)


def keys(major: U64, minor: U64, numbers: U64) -> pa.BinaryArray:
    """The keys of rows, as one column."""
    words = np.empty((len(major), 3), ">u8")
    words[:, 0], words[:, 1], words[:, 2] = major, minor, numbers
    offsets = np.arange(0, KEY_BYTES * len(major) + 1, KEY_BYTES, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(words)]
    return pa.Array.from_buffers(pa.binary(), len(major), buffers)


def _codec(schema: pa.Schema) -> RowCodec:
    try:
        return RowCodec(schema)
    except TypeError as error:
        raise ConfigError(
            f"the engine tonbo can't store the columns {', '.join(map(str, schema))}: {error}; "
            "the engine arrow takes them"
        ) from error
