"""The faces of values, lists and maps by key.

One job: typed access, a key at a time from Python or a column of keys at a time. Columns are the
fast path: nothing there runs a Python step a row. What folds its values is `folding.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from fabric.state.backend import Table
from fabric.state.base import (
    ALL_GROUPS,
    Keys,
    ManyState,
    SingleState,
    distinct_keys,
    ends,
    numbered,
)
from fabric.state.spec import StateSpec
from fabric.state.ttl import Now


class ValueState(SingleState):
    """One value a key.

    >>> from fabric.state import StateSpec, open_states
    >>> keys = pa.schema({"user": "string"})
    >>> specs = [StateSpec(name="n", kind="value", keys=keys, dtype="int64")]
    >>> store = open_states("memory", specs)
    >>> store.state("n").put("ada", 7)
    >>> store.state("n").get_many([pa.array(["bob", "ada"])]).to_pylist()
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
        return self._lists(self.key_rows(keys))

    def _lists(self, rows: pa.LargeBinaryArray, *, renew: bool = True) -> pa.LargeListArray:
        counts, _, values = self._children_many(rows, renew=renew)
        return pa.LargeListArray.from_arrays(ends(counts), self._decoded(values))

    def scan(
        self, groups: range = ALL_GROUPS
    ) -> Iterator[tuple[pa.RecordBatch, pa.LargeListArray]]:
        """Keys and their lists, as of now, in no order, some keys at a time."""
        for keys in distinct_keys(self._table, groups):
            batch = pa.RecordBatch.from_arrays(self._keys.decode(keys), schema=self.spec.keys)
            yield batch, self._lists(keys, renew=False)


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
        self._table.put(self._row(self._keys, key), element, self._sub_row(sub))

    def remove(self, key: object, sub: object) -> None:
        """Forget an entry."""
        self._table.remove(self._row(self._keys, key), self._sub_row(sub))

    def items(self, key: object) -> dict[Any, Any]:
        """All entries, always in the same order."""
        decode = self._subs.decode_one
        return {decode(sub): self._value(value) for sub, value in self._children(key)}

    def get_many(self, keys: Keys, subs: pa.Array) -> pa.Array:
        """The value of each entry, null where there is none."""
        return self._get_rows(self.key_rows(keys), self._sub_rows(subs))

    def put_many(self, keys: Keys, subs: pa.Array, values: pa.Array) -> None:
        """Set entries; of equal ones the last counts."""
        self._table.put_many(
            self.key_rows(keys), self._rows(self._values, [values], self._prefix()),
            self._sub_rows(subs),
        )  # fmt: skip

    def remove_many(self, keys: Keys, subs: pa.Array) -> None:
        """Forget entries."""
        self._table.remove_many(self.key_rows(keys), self._sub_rows(subs))

    def items_many(self, keys: Keys) -> pa.MapArray:
        """All entries of each key."""
        return self._maps(self.key_rows(keys))

    def scan(self, groups: range = ALL_GROUPS) -> Iterator[tuple[pa.RecordBatch, pa.MapArray]]:
        """Keys and their maps, as of now, in no order, some keys at a time."""
        for keys in distinct_keys(self._table, groups):
            batch = pa.RecordBatch.from_arrays(self._keys.decode(keys), schema=self.spec.keys)
            yield batch, self._maps(keys, renew=False)

    def _sub_row(self, sub: object) -> bytes:
        if sub is None:
            raise self._wrong(TypeError("a map's key is never null"))
        return self._row(self._subs, sub)

    def _sub_rows(self, subs: pa.Array) -> pa.LargeBinaryArray:
        if subs.null_count:
            raise self._wrong(TypeError("a map's key is never null"))
        return self._rows(self._subs, [subs])

    def _maps(self, rows: pa.LargeBinaryArray, *, renew: bool = True) -> pa.MapArray:
        counts, subs, values = self._children_many(rows, renew=renew)
        (sub_keys,) = self._subs.decode(subs)
        return pa.MapArray.from_arrays(
            pa.array(ends(counts).to_numpy(), pa.int32()), sub_keys, self._decoded(values)
        )

    def _stored(self, key: object, sub: object) -> bytes | None:
        row, sub_row = self._row(self._keys, key), self._sub_row(sub)
        stored = self._table.get(row, sub_row)
        if stored is None or self._aging is None:
            return stored
        if not self._aging.is_alive(stored):
            return None
        if self._aging.renews(stored):
            self._table.put(row, self._aging.renewed(stored), sub_row)
        return stored
