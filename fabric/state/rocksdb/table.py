"""One state in RocksDB.

One job: `RocksTable`. A row's key is the number of its state (2 bytes), its key group (2 bytes),
the key and the sub-key, so a state's groups lie together in order, and so do the sub-keys of a key:
no row of a key is the beginning of another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rocksdict import ReadOptions, WriteBatch

from fabric._cython.kernels.rows import RowCodec
from fabric.state.backend import Entries
from fabric.state.rocksdb.database import failed, not_logged, taken
from fabric.state.schema import AGE_BYTES

CHUNK_ROWS = 16_384
_SWEPT_ROWS = 65_536
_N_GROUPS = 1 << 15
_FRONT = 4  # state and key group


class RocksTable:
    """See `Table`."""

    def __init__(self, database: Any, folder: Path, number: int, codec: RowCodec) -> None:
        self._database, self._folder, self._codec = database, folder, codec
        self._prefix = number.to_bytes(2, "big")
        self._options = not_logged()
        self._swept = b""

    def get(self, key: bytes, sub: bytes = b"") -> bytes | None:
        """See `Table.get`."""
        try:
            found: bytes | None = self._database.get(self._codec.group_key(self._prefix, key, sub))
        except Exception as error:  # rocksdict raises bare Exception
            raise failed(self._folder, error) from error
        return found

    def put(self, key: bytes, value: bytes, sub: bytes = b"") -> None:
        """See `Table.put`."""
        row = self._codec.group_key(self._prefix, key, sub)
        self._write(lambda: self._database.put(row, value, write_opt=self._options))

    def remove(self, key: bytes, sub: bytes = b"") -> None:
        """See `Table.remove`."""
        row = self._codec.group_key(self._prefix, key, sub)
        self._write(lambda: self._database.delete(row, write_opt=self._options))

    def get_one(self, key: object, values: RowCodec) -> object:
        """See `Table.get_one`."""
        found = self.get(self._codec.encode_one(key))
        return None if found is None else values.decode_one(found)

    def put_one(self, key: object, value: object, values: RowCodec) -> None:
        """See `Table.put_one`."""
        self.put(self._codec.encode_one(key), values.encode_one(value))

    def children(self, key: bytes) -> list[tuple[bytes, bytes]]:
        """See `Table.children`."""
        begin = self._codec.group_key(self._prefix, key)
        return [(row[len(begin) :], value) for row, value in self._between(begin, _after(begin))]

    def clear(self, key: bytes) -> None:
        """See `Table.clear`."""
        self._delete(self._rows_of(self._codec.group_key(self._prefix, key)))

    def get_many(
        self, keys: pa.LargeBinaryArray, subs: pa.LargeBinaryArray | None = None
    ) -> pa.LargeBinaryArray:
        """See `Table.get_many`."""
        rows = self._codec.group_keys(self._prefix, keys, subs)
        try:
            return pa.array(self._database.get(rows), pa.large_binary())
        except Exception as error:
            raise failed(self._folder, error) from error

    def put_many(
        self,
        keys: pa.LargeBinaryArray,
        values: pa.LargeBinaryArray,
        subs: pa.LargeBinaryArray | None = None,
    ) -> None:
        """See `Table.put_many`."""
        rows, found = self._codec.group_keys(self._prefix, keys, subs), values.to_pylist()

        def write() -> None:
            batch = WriteBatch(raw_mode=True)
            put = batch.put
            for row, value in zip(rows, found, strict=True):
                put(row, value)
            self._database.write(batch, self._options)

        self._write(write)

    def remove_many(
        self, keys: pa.LargeBinaryArray, subs: pa.LargeBinaryArray | None = None
    ) -> None:
        """See `Table.remove_many`."""
        self._delete(self._codec.group_keys(self._prefix, keys, subs))

    def children_many(
        self, keys: pa.LargeBinaryArray
    ) -> tuple[NDArray[np.int64], pa.LargeBinaryArray, pa.LargeBinaryArray]:
        """See `Table.children_many`."""
        counts, subs, values = [], list[bytes](), list[bytes]()
        for begin in self._codec.group_keys(self._prefix, keys, None):
            before = len(subs)
            for row, value in self._between(begin, _after(begin)):
                subs.append(row[len(begin) :])
                values.append(value)
            counts.append(len(subs) - before)
        return np.array(counts, np.int64), _bytes(subs), _bytes(values)

    def clear_many(self, keys: pa.LargeBinaryArray) -> None:
        """See `Table.clear_many`."""
        for begin in self._codec.group_keys(self._prefix, keys, None):
            self._delete(self._rows_of(begin))

    def scan(self, groups: range) -> Iterator[Entries]:
        """See `Table.scan`."""
        found = self._between(self._bound(groups.start), self._bound(groups.stop))
        while chunk := list(islice(found, CHUNK_ROWS)):
            keys, subs = self._codec.split([row for row, _ in chunk], _FRONT)
            yield _bytes(keys), _bytes(subs), _bytes([value for _, value in chunk])

    def entries(self, keys: pa.LargeBinaryArray, *, linked: bool) -> Entries:
        """All entries of these keys, each given once; `linked` ones have sub-keys."""
        if linked:
            counts, subs, values = self.children_many(keys)
            return keys.take(pa.array(np.repeat(np.arange(len(keys)), counts))), subs, values
        values = self.get_many(keys)
        if values.null_count:
            there = values.is_valid()
            keys, values = keys.filter(there), values.filter(there)
        return keys, _bytes([b""] * len(keys)), values

    def sweep(self, before_us: int) -> int:
        """See `Table.sweep`."""
        begin, end = max(self._swept, self._prefix), self._bound(_N_GROUPS)
        looked_at = list(islice(self._between(begin, end), _SWEPT_ROWS))
        self._swept = looked_at[-1][0] if len(looked_at) == _SWEPT_ROWS else b""
        old = [row for row, value in looked_at if _time(value) <= before_us]
        self._delete(old)
        return len(old)

    def drop_groups(self, groups: range) -> None:
        """Remove all entries of these key groups."""
        if groups.start < groups.stop:
            begin, end = self._bound(groups.start), self._bound(groups.stop)
            self._write(lambda: self._database.delete_range(begin, end, write_opt=self._options))

    def _bound(self, group: int) -> bytes:
        """Before every key of `group` of this state."""
        return (int.from_bytes(self._prefix, "big") * _N_GROUPS * 2 + group).to_bytes(_FRONT, "big")

    def _between(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(end)
        try:
            yield from self._database.items(from_key=begin, read_opt=bounds)
        except Exception as error:
            raise failed(self._folder, error) from error

    def _rows_of(self, begin: bytes) -> list[bytes]:
        return [row for row, _ in self._between(begin, _after(begin))]

    def _delete(self, rows: list[bytes]) -> None:
        def write() -> None:
            batch = WriteBatch(raw_mode=True)
            for row in rows:
                batch.delete(row)
            self._database.write(batch, self._options)

        self._write(write)

    def _write(self, write: Callable[[], None]) -> None:
        try:
            taken(self._database, write)
        except Exception as error:
            raise failed(self._folder, error) from error


def _after(begin: bytes) -> bytes:
    """Behind every key that begins so; there is one, for the first two bytes are a small number."""
    number = int.from_bytes(begin, "big") + 1
    return number.to_bytes(len(begin), "big")


def _bytes(found: list[bytes]) -> pa.LargeBinaryArray:
    return pa.array(found, pa.large_binary())


def _time(value: bytes) -> int:
    return int.from_bytes(value[:AGE_BYTES], "little", signed=True)
