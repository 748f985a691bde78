"""What the faces of all states share: keys and values to rows of a `Table`, and back.

One job: `State`, `SingleState` (one row a key) and `ManyState` (several, by sub-key), with the few
functions on columns that the kinds need.

A key is a Python value, or a tuple of them where there are several key columns. Keys of columns are
a record batch (its columns are found by name), a list of arrays in the order of the spec, or rows
that `key_rows` made once for several states. None is stored like any other value, though `get`
can't tell it from nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.kernels.rows import RowCodec
from fabric.errors import DataError, StorageError
from fabric.plan.literals import array_of
from fabric.state.backend import Table
from fabric.state.spec import StateSpec
from fabric.state.ttl import Aging, Now

Keys: TypeAlias = pa.RecordBatch | Sequence[pa.Array] | pa.LargeBinaryArray
ALL_GROUPS = range(1 << 15)
_NOT_OF_TYPE = (TypeError, ValueError, OverflowError)


class State:
    """What all kinds share; made by a `StateStore`."""

    def __init__(self, spec: StateSpec, table: Table, now: Now) -> None:
        self.spec = spec
        self._table = table
        self._keys, self._values = spec.key_codec(), spec.value_codec()
        self._aging = Aging(spec, now) if spec.ttl_us else None
        self._skip = self._aging.n_bytes if self._aging else 0
        self._decode = self._values.decode_one

    def key_rows(self, keys: Keys) -> pa.LargeBinaryArray:
        """Keys as rows: all states of a store with the same key columns take them."""
        if isinstance(keys, pa.LargeBinaryArray):
            return keys
        if isinstance(keys, pa.RecordBatch):
            keys = [keys.column(name) for name in self._keys.schema.names]
        return self._rows(self._keys, keys)

    def _rows(
        self, codec: RowCodec, columns: Sequence[pa.Array], prefix: bytes = b""
    ) -> pa.LargeBinaryArray:
        try:
            fitted = [
                fit(array, field.type) for array, field in zip(columns, codec.schema, strict=True)
            ]
            return codec.encode(fitted, prefix)
        except _NOT_OF_TYPE as error:
            raise self._wrong(error) from error

    def _row(self, codec: RowCodec, value: object, prefix: bytes = b"") -> bytes:
        try:
            return codec.encode_one(value, prefix)
        except _NOT_OF_TYPE as error:
            raise self._wrong(error) from error

    def _prefix(self) -> bytes:
        return self._aging.prefix() if self._aging else b""

    def _value(self, stored: bytes) -> Any:
        try:
            return self._decode(stored, self._skip)
        except RuntimeError as error:
            raise self._damaged(error) from error

    def _decoded(self, rows: pa.LargeBinaryArray) -> pa.Array:
        try:
            return self._values.decode(rows, self._skip)[0]
        except RuntimeError as error:
            raise self._damaged(error) from error

    def _get_rows(self, rows: pa.LargeBinaryArray, *subs: pa.LargeBinaryArray) -> pa.Array:
        """The values of keys that are there and alive, else null; those live longer from now."""
        found = self._table.get_many(rows, *subs)
        if self._aging:
            found = self._aging.only_alive(found)
            if self._aging.on_read:
                there = found.is_valid()
                renewed = self._aging.renewed_many(found.filter(there))
                below = (each.filter(there) for each in subs)
                self._table.put_many(rows.filter(there), renewed, *below)
        return self._decoded(found)

    def _damaged(self, error: Exception) -> StorageError:
        return StorageError(f"state {self.spec.name!r} is damaged: {error}")

    def _wrong(self, error: Exception) -> DataError:
        return DataError(f"state {self.spec.name!r}: {error}")


class SingleState(State):
    """One row a key: what a value and the folding kinds share."""

    def __init__(self, spec: StateSpec, table: Table, now: Now) -> None:
        super().__init__(spec, table, now)
        self._get_one, self._put_one = table.get_one, table.put_one

    def remove(self, key: object) -> None:
        """Forget the key."""
        self._table.remove(self._row(self._keys, key))

    def remove_many(self, keys: Keys) -> None:
        """Forget each of these keys."""
        self._table.remove_many(self.key_rows(keys))

    def scan(self, groups: range = ALL_GROUPS) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """Keys and what is stored for them, in no order, as of now, some at a time."""
        for keys, _, rows in self._table.scan(groups):
            if self._aging:
                alive = pa.array(self._aging.alive(rows))
                keys, rows = keys.filter(alive), rows.filter(alive)  # noqa: PLW2901
            batch = pa.RecordBatch.from_arrays(self._keys.decode(keys), schema=self.spec.keys)
            yield batch, self._decoded(rows)

    def _get(self, key: object) -> Any:
        """The value, or None."""
        if self._aging is not None:
            return self._get_aged(key, self._aging)
        try:
            return self._get_one(key, self._values)
        except _NOT_OF_TYPE as error:
            raise self._wrong(error) from error
        except RuntimeError as error:
            raise self._damaged(error) from error

    def _get_aged(self, key: object, aging: Aging) -> Any:
        row = self._row(self._keys, key)
        stored = self._table.get(row)
        if stored is None or not aging.is_alive(stored):
            return None
        if aging.renews(stored):
            self._table.put(row, aging.renewed(stored))
        return self._value(stored)

    def _put(self, key: object, value: object) -> None:
        """Set it."""
        if self._aging is not None:
            row = self._row(self._keys, key)
            return self._table.put(row, self._row(self._values, value, self._aging.prefix()))
        try:
            self._put_one(key, value, self._values)
        except _NOT_OF_TYPE as error:
            raise self._wrong(error) from error

    def _array(self, values: list[Any]) -> pa.Array:
        try:
            return array_of(values, self.spec.dtype)
        except _NOT_OF_TYPE as error:
            raise self._wrong(error) from error

    def _put_rows(self, rows: pa.LargeBinaryArray, values: pa.Array) -> None:
        self._table.put_many(rows, self._rows(self._values, [values], self._prefix()))


class ManyState(State):
    """Several rows a key: what lists and maps share."""

    def clear(self, key: object) -> None:
        """Forget all of a key."""
        self._table.clear(self._row(self._keys, key))

    def clear_many(self, keys: Keys) -> None:
        """Forget all of each key."""
        self._table.clear_many(self.key_rows(keys))

    def _children(self, key: object) -> list[tuple[bytes, bytes]]:
        row = self._row(self._keys, key)
        found = self._table.children(row)
        if self._aging is not None:
            found = [(sub, value) for sub, value in found if self._aging.is_alive(value)]
            for sub, value in found:
                if self._aging.renews(value):
                    self._table.put(row, self._aging.renewed(value), sub)
        return found

    def _children_many(
        self, rows: pa.LargeBinaryArray, *, renew: bool = True
    ) -> tuple[NDArray[np.int64], pa.LargeBinaryArray, pa.LargeBinaryArray]:
        """Counts, sub-keys and values of those that are alive."""
        counts, subs, values = self._table.children_many(rows)
        if self._aging is None:
            return counts, subs, values
        alive = self._aging.alive(values)
        owner = np.repeat(np.arange(len(counts)), counts)[alive]
        mask = pa.array(alive)
        subs, values = subs.filter(mask), values.filter(mask)
        if renew and self._aging.on_read and len(subs):
            renewed = self._aging.renewed_many(values)
            self._table.put_many(rows.take(pa.array(owner)), renewed, subs)
        return np.bincount(owner, minlength=len(counts)).astype(np.int64), subs, values


def fit(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    """`array` in the layout of `dtype`: dictionaries, run ends and views hold the same values."""
    if array.type == dtype:
        return array
    held = array.type
    if pa.types.is_dictionary(held) or pa.types.is_run_end_encoded(held):
        held = held.value_type
    plain = {
        pa.string_view(): pa.string(), pa.binary_view(): pa.binary(),
        pa.large_string(): pa.string(), pa.large_binary(): pa.binary(),
    }  # fmt: skip
    if plain.get(held, held) != plain.get(dtype, dtype):
        raise TypeError(f"wanted is a column of {dtype}, got {array.type}")
    if pa.types.is_run_end_encoded(array.type):
        array = pa.compute.run_end_decode(array)
    return array.cast(dtype)


def ends(counts: NDArray[np.int64]) -> pa.Int64Array:
    """Offsets of lists that have so many elements."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return pa.array(offsets)


def numbered(first: int, n: int) -> pa.LargeBinaryArray:
    """Numbers from `first` on as bytes that sort like them."""
    data = np.arange(first, first + n, dtype=np.uint64).astype(">u8")
    offsets = np.arange(n + 1, dtype=np.int64) * 8
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), n, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def distinct_keys(table: Table, groups: range) -> Iterator[pa.LargeBinaryArray]:
    """Each key of these groups once."""
    seen: pa.LargeBinaryArray = pa.array([], pa.large_binary())
    for keys, _, _ in table.scan(groups):
        fresh = keys.unique()
        fresh = fresh.filter(pa.compute.invert(pa.compute.is_in(fresh, value_set=seen)))
        seen = pa.concat_arrays([seen, fresh])
        yield fresh
