"""What keeps the bytes of a task's states: the protocols between kinds of state and backends.

One job: `Table` (one state) and `Backend` (all states of a task), and what a snapshot is written to
and read from. `base.py` and the kinds above it know types, tables know rows (`RowCodec`) only: a
key, a sub-key where the kind has some (a list's element, a map's entry), a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.kernels.rows import RowCodec
from fabric.state.schema import Header

Entries = tuple[pa.LargeBinaryArray, pa.LargeBinaryArray, pa.LargeBinaryArray]
"""Keys, sub-keys (empty where the kind has none) and values."""


class SnapshotWriter(Protocol):
    """Where one task's snapshot of some state goes; names are of ``[a-z0-9_.-]``."""

    def put(self, name: str, data: bytes | pa.Buffer) -> None:
        """Store one file."""

    def link(self, name: str, path: Path, content: str) -> None:
        """Store an immutable file of this host; `content` names its bytes for ever.

        What an earlier snapshot stored under the same `content` is not copied again.
        """


class SnapshotReader(Protocol):
    """One old task's snapshot of some state; its files are whole, or nobody sees it."""

    @property
    def key_groups(self) -> range:
        """Those that the old task owned."""

    def names(self) -> list[str]:
        """The files, sorted."""

    def read(self, name: str) -> pa.Buffer:
        """The bytes of a file."""

    def fetch(self, name: str, to: Path, *, fixed: bool = False) -> None:
        """Put a file at `to`, linked or copied.

        Who leaves it as it is (`fixed`) gets a link where there can be one, and its bytes compared
        with what was stored.
        """


class Snapshot(Protocol):
    """State of a task as it was at a barrier: copies, or data that never changes."""

    def write(self, out: SnapshotWriter) -> int | None:
        """Store it, once, in any thread, while the owner goes on.

        Returns how many rows of state by key it has; None: nobody has counted them.
        """


def total(counts: Iterable[int | None]) -> int | None:
    """The sum; None where one of them is not known. All are asked for.

    >>> total([1, 2]), total([1, None])
    (3, None)
    """
    found = list(counts)
    known = [count for count in found if count is not None]
    return sum(known) if len(known) == len(found) else None


class Table(Protocol):
    """The entries of one state, for one owner thread.

    Without sub-keys (`linked` false in the spec) `sub` and `subs` are left out.
    """

    def get(self, key: bytes, sub: bytes = b"") -> bytes | None:
        """The value, or None."""

    def put(self, key: bytes, value: bytes, sub: bytes = b"") -> None:
        """Set it."""

    def remove(self, key: bytes, sub: bytes = b"") -> object:
        """Remove it, if it is there."""

    def get_one(self, key: object, values: RowCodec) -> object:
        """The value of a key, both of them as Python has them; no sub-key."""

    def put_one(self, key: object, value: object, values: RowCodec) -> None:
        """Set the value of a key, both of them as Python has them; no sub-key."""

    def children(self, key: bytes) -> list[tuple[bytes, bytes]]:
        """All sub-keys and values of a key, by sub-key."""

    def clear(self, key: bytes) -> object:
        """Remove all of a key."""

    def get_many(
        self, keys: pa.LargeBinaryArray, subs: pa.LargeBinaryArray | None = None
    ) -> pa.LargeBinaryArray:
        """The value of each, null where there is none."""

    def put_many(
        self,
        keys: pa.LargeBinaryArray,
        values: pa.LargeBinaryArray,
        subs: pa.LargeBinaryArray | None = None,
    ) -> None:
        """Set each; of equal ones the last counts."""

    def remove_many(
        self, keys: pa.LargeBinaryArray, subs: pa.LargeBinaryArray | None = None
    ) -> object:
        """Remove each that is there."""

    def children_many(
        self, keys: pa.LargeBinaryArray
    ) -> tuple[NDArray[np.int64], pa.LargeBinaryArray, pa.LargeBinaryArray]:
        """How many each key has, and all sub-keys and values."""

    def clear_many(self, keys: pa.LargeBinaryArray) -> object:
        """Remove all of these keys."""

    def scan(self, groups: range) -> Iterator[Entries]:
        """All entries of these key groups as of now, some at a time."""

    def sweep(self, before_us: int) -> int:
        """Remove the entries whose leading time is not after `before_us`; how many those were."""


class Backend(Protocol):
    """The tables of a task: memory, or RocksDB."""

    def table(self, name: str) -> Table:
        """Of the state of that name; as long as nothing is restored or closed."""

    def snapshot(self, header: Header) -> Snapshot:
        """All entries as of now; the owner goes on."""

    def restore(self, readers: Sequence[SnapshotReader], key_groups: range, /) -> None:
        """Take over these key groups; there is nothing in the tables yet."""

    @property
    def next_number(self) -> int:
        """After every list element's that was restored, or found in the folder."""

    @property
    def nbytes(self) -> int:
        """Memory and disk in use, about."""

    def close(self) -> None:
        """No call after this one."""
