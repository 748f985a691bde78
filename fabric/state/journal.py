"""Calls that can be undone: what they overwrite is noted first.

One job: `Journal`, which remembers the old bytes of every entry of some tables that changes from
`begin` to `commit` or `rollback`. Only those who undo pay: a read before each write.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from fabric._cython.kernels.rows import RowCodec
from fabric.state.backend import Entries, Table
from fabric.state.spec import StateSpec

_Old = tuple["_JournaledTable", bytes, bytes, bytes | None]


class Journal:
    """What some tables held before what changed after `begin`."""

    def __init__(self) -> None:
        self._old: list[_Old] | None = None

    def begin(self) -> None:
        """What changes from now on may be undone."""
        self._old = []

    def commit(self) -> None:
        """It stays."""
        self._old = None

    def rollback(self) -> None:
        """It is as it was at `begin`."""
        old, self._old = self._old or [], None
        for table, key, sub, value in reversed(old):
            table.write_back(key, sub, value)

    def note(self, table: _JournaledTable, key: bytes, sub: bytes, value: bytes | None) -> None:
        """The value of an entry that is about to change."""
        if self._old is not None:
            self._old.append((table, key, sub, value))

    @property
    def is_noting(self) -> bool:
        """Whether changes are noted."""
        return self._old is not None

    def of(self, table: Table, spec: StateSpec) -> Table:
        """The table of a state, whose changes are noted."""
        return _JournaledTable(self, table, spec)


class _JournaledTable:
    """See `Table`."""

    def __init__(self, journal: Journal, table: Table, spec: StateSpec) -> None:
        self._journal, self._table, self._linked = journal, table, spec.linked
        self._keys = spec.key_codec()
        self.get, self.get_one, self.get_many = table.get, table.get_one, table.get_many
        self.children, self.children_many = table.children, table.children_many

    def write_back(self, key: bytes, sub: bytes, value: bytes | None) -> None:
        """Give an entry the value it had."""
        if value is None:
            self._table.remove(key, *self._place(sub))
        else:
            self._table.put(key, value, *self._place(sub))

    def put(self, key: bytes, value: bytes, sub: bytes = b"") -> None:
        self._note(key, sub)
        self._table.put(key, value, *self._place(sub))

    def put_one(self, key: object, value: object, values: RowCodec) -> None:
        if self._journal.is_noting:
            self._note(self._keys.encode_one(key), b"")
        self._table.put_one(key, value, values)

    def remove(self, key: bytes, sub: bytes = b"") -> object:
        self._note(key, sub)
        return self._table.remove(key, *self._place(sub))

    def clear(self, key: bytes) -> object:
        if self._journal.is_noting:
            for sub, value in self._table.children(key):
                self._journal.note(self, key, sub, value)
        return self._table.clear(key)

    def put_many(
        self,
        keys: pa.LargeBinaryArray,
        values: pa.LargeBinaryArray,
        subs: pa.LargeBinaryArray | None = None,
    ) -> None:
        self._note_many(keys, subs)
        self._table.put_many(keys, values, *self._places(subs))

    def remove_many(
        self, keys: pa.LargeBinaryArray, subs: pa.LargeBinaryArray | None = None
    ) -> object:
        self._note_many(keys, subs)
        return self._table.remove_many(keys, *self._places(subs))

    def clear_many(self, keys: pa.LargeBinaryArray) -> object:
        if self._journal.is_noting:
            counts, subs, values = self._table.children_many(keys)
            owners = keys.take(pa.array(np.repeat(np.arange(len(counts)), counts)))
            self._note_all(owners, subs, values)
        return self._table.clear_many(keys)

    def scan(self, groups: range) -> Iterator[Entries]:
        return self._table.scan(groups)

    def sweep(self, before_us: int) -> int:
        return self._table.sweep(before_us)

    def _note(self, key: bytes, sub: bytes) -> None:
        if self._journal.is_noting:
            self._journal.note(self, key, sub, self._table.get(key, *self._place(sub)))

    def _note_many(self, keys: pa.LargeBinaryArray, subs: pa.LargeBinaryArray | None) -> None:
        if self._journal.is_noting:
            self._note_all(keys, subs, self._table.get_many(keys, *self._places(subs)))

    def _note_all(
        self,
        keys: pa.LargeBinaryArray,
        subs: pa.LargeBinaryArray | None,
        values: pa.LargeBinaryArray,
    ) -> None:
        below = [b""] * len(keys) if subs is None else subs.to_pylist()
        for key, sub, value in zip(keys.to_pylist(), below, values.to_pylist(), strict=True):
            self._journal.note(self, key, sub, value)

    def _place(self, sub: bytes) -> tuple[bytes, ...]:
        return (sub,) if self._linked else ()

    def _places(self, subs: pa.LargeBinaryArray | None) -> tuple[pa.LargeBinaryArray, ...]:
        return () if subs is None else (subs,)
