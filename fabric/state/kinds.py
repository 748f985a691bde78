"""The faces of a task's states: values, lists and maps by key.

One job: typed access, a key at a time from Python or a column of keys at a time, over a `Table` of
rows. Columns are the fast path: nothing there runs a Python step a row. What folds its values is
`folding.py`.

A key is a Python value, or a tuple of them where there are several key columns. Keys of columns are
a record batch (its columns are found by name), a list of arrays in the order of the spec, or rows
that `key_rows` made once for several states. None is stored like any other value, though `get`
can't tell it from nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.kernels.rows import RowCodec
from fabric.errors import DataError, StorageError
from fabric.state.aging import Aging, Now
from fabric.state.backend import Table
from fabric.state.spec import StateSpec

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

    def _get_rows(self, rows: pa.LargeBinaryArray) -> pa.Array:
        found = self._table.get_many(rows)
        if self._aging:
            found = self._aging.only_alive(found)
            if self._aging.on_read:
                there = found.is_valid()
                self._table.put_many(
                    rows.filter(there), self._aging.renewed_many(found.filter(there))
                )
        return self._decoded(found)

    def _put_rows(self, rows: pa.LargeBinaryArray, values: pa.Array) -> None:
        self._table.put_many(rows, self._rows(self._values, [values], self._prefix()))


class ValueState(SingleState):
    """One value a key.

    >>> from fabric.state import StateSpec, open_states
    >>> keys = pa.schema({"user": "string"})
    >>> specs = [StateSpec(name="n", kind="value", keys=keys, dtype="int64")]
    >>> store = open_states("memory", specs)
    >>> store.value("n").put("ada", 7)
    >>> store.value("n").get_many([pa.array(["bob", "ada"])]).to_pylist()
    [None, 7]
    """

    # one call less than methods of its own that do nothing else
    get = SingleState._get
    put = SingleState._put

    def get_many(self, keys: Keys) -> pa.Array:
        """The value of each key, null where there is none."""
        return self._get_rows(self.key_rows(keys))

    def put_many(self, keys: Keys, values: pa.Array) -> None:
        """Set the value of each key; of equal keys the last one counts."""
        self._put_rows(self.key_rows(keys), values)


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
        self, rows: pa.LargeBinaryArray
    ) -> tuple[NDArray[np.int64], pa.LargeBinaryArray, pa.LargeBinaryArray]:
        """Counts, sub-keys and values of those that are alive."""
        counts, subs, values = self._table.children_many(rows)
        if self._aging is None:
            return counts, subs, values
        alive = self._aging.alive(values)
        owner = np.repeat(np.arange(len(counts)), counts)[alive]
        mask = pa.array(alive)
        subs, values = subs.filter(mask), values.filter(mask)
        if self._aging.on_read and len(subs):
            renewed = self._aging.renewed_many(values)
            self._table.put_many(rows.take(pa.array(owner)), renewed, subs)
        return np.bincount(owner, minlength=len(counts)).astype(np.int64), subs, values


class ListState(ManyState):
    """A list of elements a key, in the order in which they came."""

    def __init__(self, spec: StateSpec, table: Table, now: Now) -> None:
        super().__init__(spec, table, now)
        self._now = now

    def get(self, key: object) -> list[Any]:
        """The elements; none for a key without any."""
        return [self._value(value) for _, value in self._children(key)]

    def append(self, key: object, value: object) -> None:
        """Add one element."""
        row, element = self._row(self._keys, key), self._row(self._values, value, self._prefix())
        self._table.put(row, element, self._now.next_number().to_bytes(8, "big"))

    def extend(self, key: object, values: Iterable[object]) -> None:
        """Add several."""
        for value in values:
            self.append(key, value)

    def put(self, key: object, values: Iterable[object]) -> None:
        """Put these in the place of all there are."""
        elements = list(values)
        self.clear(key)
        self.extend(key, elements)

    def append_many(self, keys: Keys, values: pa.Array) -> None:
        """Add an element to each key, in the order of the rows."""
        rows = self.key_rows(keys)
        numbers = numbered(self._now.next_number(len(rows)), len(rows))
        self._table.put_many(rows, self._rows(self._values, [values], self._prefix()), numbers)

    def get_many(self, keys: Keys) -> pa.LargeListArray:
        """The elements of each key."""
        counts, _, values = self._children_many(self.key_rows(keys))
        return pa.LargeListArray.from_arrays(ends(counts), self._decoded(values))

    def scan(
        self, groups: range = ALL_GROUPS
    ) -> Iterator[tuple[pa.RecordBatch, pa.LargeListArray]]:
        """Keys and their lists, as of now, in no order, some keys at a time."""
        for keys in distinct_keys(self._table, groups):
            batch = pa.RecordBatch.from_arrays(self._keys.decode(keys), schema=self.spec.keys)
            yield batch, self.get_many(keys)


class MapState(ManyState):
    """A map a key: values by a key of their own."""

    def __init__(self, spec: StateSpec, table: Table, now: Now) -> None:
        super().__init__(spec, table, now)
        codec = spec.sub_codec()
        assert codec is not None
        self._subs = codec

    def get(self, key: object, sub: object) -> Any:
        """The value of an entry, or None."""
        stored = self._stored(key, sub)
        return None if stored is None else self._value(stored)

    def contains(self, key: object, sub: object) -> bool:
        """Whether there is such an entry."""
        return self._stored(key, sub) is not None

    def put(self, key: object, sub: object, value: object) -> None:
        """Set an entry."""
        element = self._row(self._values, value, self._prefix())
        self._table.put(self._row(self._keys, key), element, self._row(self._subs, sub))

    def remove(self, key: object, sub: object) -> None:
        """Forget an entry."""
        self._table.remove(self._row(self._keys, key), self._row(self._subs, sub))

    def items(self, key: object) -> dict[Any, Any]:
        """All entries, always in the same order."""
        decode = self._subs.decode_one
        return {decode(sub): self._value(value) for sub, value in self._children(key)}

    def get_many(self, keys: Keys, subs: pa.Array) -> pa.Array:
        """The value of each entry, null where there is none."""
        rows, sub_rows = self.key_rows(keys), self._rows(self._subs, [subs])
        found = self._table.get_many(rows, sub_rows)
        if self._aging:
            found = self._aging.only_alive(found)
            if self._aging.on_read:
                there = found.is_valid()
                renewed = self._aging.renewed_many(found.filter(there))
                self._table.put_many(rows.filter(there), renewed, sub_rows.filter(there))
        return self._decoded(found)

    def put_many(self, keys: Keys, subs: pa.Array, values: pa.Array) -> None:
        """Set entries; of equal ones the last counts."""
        self._table.put_many(
            self.key_rows(keys), self._rows(self._values, [values], self._prefix()),
            self._rows(self._subs, [subs]),
        )  # fmt: skip

    def remove_many(self, keys: Keys, subs: pa.Array) -> None:
        """Forget entries."""
        self._table.remove_many(self.key_rows(keys), self._rows(self._subs, [subs]))

    def items_many(self, keys: Keys) -> pa.MapArray:
        """All entries of each key."""
        return self._maps(self.key_rows(keys))

    def scan(self, groups: range = ALL_GROUPS) -> Iterator[tuple[pa.RecordBatch, pa.MapArray]]:
        """Keys and their maps, as of now, in no order, some keys at a time."""
        for keys in distinct_keys(self._table, groups):
            batch = pa.RecordBatch.from_arrays(self._keys.decode(keys), schema=self.spec.keys)
            yield batch, self._maps(keys)

    def _maps(self, rows: pa.LargeBinaryArray) -> pa.MapArray:
        counts, subs, values = self._children_many(rows)
        (sub_keys,) = self._subs.decode(subs)
        return pa.MapArray.from_arrays(
            pa.array(ends(counts).to_numpy(), pa.int32()), sub_keys, self._decoded(values)
        )

    def _stored(self, key: object, sub: object) -> bytes | None:
        row, sub_row = self._row(self._keys, key), self._row(self._subs, sub)
        stored = self._table.get(row, sub_row)
        if stored is None or self._aging is None:
            return stored
        if not self._aging.is_alive(stored):
            return None
        if self._aging.renews(stored):
            self._table.put(row, self._aging.renewed(stored), sub_row)
        return stored


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
