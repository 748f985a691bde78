"""Tonbo stores: rows by one binary key, in files of a folder (see `fabric/_rust` of Fabric)."""

from collections.abc import Sequence
from os import PathLike
from typing import final

import pyarrow as pa

class StoreError(Exception):
    """A store can't be opened, read or written; the message says what to do."""

@final
class Store:
    """A table of rows by one binary key, in a folder of its own; for any thread."""

    @staticmethod
    def open(
        folder: str | PathLike[str],
        schema: pa.Schema,
        key: str,
        *,
        sync: bool = True,
        seal_batches: int = 64,
        without: Sequence[str] = (),
    ) -> Store:
        """The store in `folder`, which is made if it is missing.

        Parameters
        ----------
        key
            The column that is the key: binary, without nulls.
        sync
            Whether a put is on the disk when it returns; if not, it outlives this process alone.
        seal_batches
            After so many puts the rows in memory are written to a sorted file.
        without
            Guards that are off, for tests: flush_race, lock, stale_files, types, closed_files,
            read_ahead.

        Raises
        ------
        StoreError
            It is in use, damaged, was made with another schema, or can't be written.
        TypeError
            A column has a type that Tonbo can't read back.
        """

    @property
    def schema(self) -> pa.Schema:
        """The columns, all of which but the key may have nulls."""

    def put(self, batch: pa.RecordBatch, tombstones: pa.BooleanArray | None = None) -> None:
        """Add or replace rows; those with a tombstone are removed. All of a batch or nothing."""

    def delete(self, keys: pa.BinaryArray) -> None:
        """Remove rows; keys that are not there are fine."""

    def scan(
        self,
        begin: bytes | None = None,
        end: bytes | None = None,
        *,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """Rows by key from `begin` on, up to `end`, which is not in it, as they are now.

        Few are in memory at once, unless something is put while they are read.
        """

    def get(self, key: bytes) -> pa.RecordBatch | None:
        """The row with a key."""

    def sync(self) -> None:
        """Write all that was put to the disk."""

    def close(self, *, note: bool = True) -> None:
        """End its threads and let others open it; twice is fine.

        It waits for what other threads are at, and nobody writes in its folder once it returns.
        With `note` the log and the flush at work are ended well, and the next one to open it
        compares its files with what they are then; without it what they do is cut off.
        """
