"""What every engine for columnar state does.

One job: `ColumnStore`. Rows lie in generations, which are dropped whole. A row is known by its
time and its hash, which stands for a key and whose upper bits are the key group. Several rows may
have the same hash and time, as different keys may have the same hash: who looks a key up compares
it with what is found.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.errors import DataError
from fabric.state.backend import Snapshot, SnapshotReader

Hashes = NDArray[np.uint64]
Times = NDArray[np.int64]
Order = Literal["hash", "time"]
Span = tuple[int, int]
"""From the first on, up to the second, which is not in it."""
ALL_HASHES: Span = (0, 1 << 64)
ALL_TIMES: Span = (-(1 << 63), 1 << 63)


class Found(NamedTuple):
    """Rows of a store, in its order."""

    hashes: Hashes
    times: Times
    rows: pa.RecordBatch
    """The columns of the store's schema."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What a store holds, and what that took."""

    rows: int = 0
    """Those that have expired or are another task's among them, where their files have others."""
    bytes: int = 0
    pieces: int = 0
    """Files, or batches in memory."""
    bytes_written: int = 0
    """Since the store was opened, merges included."""
    merges: int = 0


class ColumnStore(ABC):
    """Rows of `schema`, for one owner thread; snapshots are written in any."""

    schema: pa.Schema
    order: Order

    def put(
        self,
        generation: int,
        hashes: Hashes,
        times: Times,
        rows: pa.RecordBatch,
        *,
        replaces: bool = False,
    ) -> None:
        """Add rows of `schema`, in any order.

        If they replace: what was put before into this generation with the same hash and time is
        gone. Nothing is added after an error.

        Raises
        ------
        DataError
            The rows have other columns than `schema`.
        StorageError
            They can't be written.
        """
        if not rows.schema.equals(self.schema):
            raise DataError(
                f"the store has the columns {columns_of(self.schema)}, "
                f"got {columns_of(rows.schema)}"
            )
        if len(hashes):
            self._put(generation, hashes, times, rows, replaces)

    @abstractmethod
    def _put(
        self, generation: int, hashes: Hashes, times: Times, rows: pa.RecordBatch, replaces: bool
    ) -> None:
        """`put` of one row at least, which have the right columns."""

    @abstractmethod
    def remove(self, generation: int, hashes: Hashes, times: Times) -> None:
        """Remove what was put before into this generation with these hashes and times, in pairs."""

    @abstractmethod
    def take(self, hashes: Hashes) -> list[Found]:
        """Remove all rows with these hashes, and give them as `scan` does: a batch a generation.

        What it costs should grow with the rows that are found, not with those of the store: it is
        asked once a batch. `tonbo` scans the generations that may have one of them.

        Raises
        ------
        StorageError
            As `scan`.
        """

    @abstractmethod
    def scan(
        self,
        generations: Collection[int] | None = None,
        *,
        times: Span = ALL_TIMES,
    ) -> Iterator[Found]:
        """Rows in the order of the store; of equal hash and time in that in which they were put.

        A batch has tens of thousands of rows, or few more; all rows of equal hash and time are in
        one. The store may be changed meanwhile: a scan sees it as it was at the first row.

        Parameters
        ----------
        generations
            Those to look in; None: all.

        Raises
        ------
        StorageError
            Rows can't be read, or are damaged; the message names the file.
        """

    @abstractmethod
    def drop(self, generation: int) -> None:
        """Forget all rows of a generation, without reading them."""

    @abstractmethod
    def expire(self, before: int) -> None:
        """Forget all rows with an earlier time, without reading them.

        A file goes when it has no others; so a generation should hold rows that expire together.
        """

    @abstractmethod
    def generations(self) -> list[int]:
        """Those that hold anything, sorted."""

    @abstractmethod
    def stored(self) -> Stored:
        """What it holds now."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """All rows as of now."""

    @abstractmethod
    def restore(self, snapshots: Sequence[SnapshotReader], hashes: Span) -> None:
        """Add the rows of snapshots that have these hashes; other rows are not this store's.

        Raises
        ------
        DataError
            A snapshot has rows of another schema or order, or is damaged.
        """

    @abstractmethod
    def close(self) -> None:
        """Remove its files; twice is fine. Snapshots stay until they are written."""


def columns_of(schema: pa.Schema) -> str:
    """A schema for a message."""
    return ", ".join(f"{each.name}: {each.type}" for each in schema)
