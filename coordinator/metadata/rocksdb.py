"""The metadata store of a coordinator process: RocksDB.

One job: `RocksStore`. One key space, ``table NUL key``. Every write survives a crash of the
process; agents, datasets and transactions are also on the disk before the call returns (0.1 ms),
while job progress is not worth a sync each. RocksDB's own lock keeps a second coordinator out.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rocksdict import Options, Rdict, WriteBatch, WriteOptions

from fabric.coordinator.metadata.store import Table, Write
from fabric.errors import StorageError

_EPOCH = b"epoch"
_SYNCED: frozenset[Table] = frozenset(("agents", "datasets", "transactions"))


class RocksStore:
    """See `MetadataStore`; `folder` is made when it is missing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._database: Any = Rdict(str(folder), options=_options())
        except Exception as error:  # rocksdict raises bare Exception
            raise StorageError(_why_not_open(folder, error)) from error

    def apply(self, writes: Sequence[Write]) -> None:
        """See `MetadataStore.apply`."""
        batch = WriteBatch(raw_mode=True)
        for write in writes:
            key = _key(write.table, write.key)
            if write.value is None:
                batch.delete(key)
            else:
                batch.put(key, write.value)
        self._write(batch, sync=any(write.table in _SYNCED for write in writes))

    def scan(self, table: Table) -> Iterator[tuple[str, bytes]]:
        """See `MetadataStore.scan`."""
        prefix = _key(table, "")
        found: list[tuple[str, bytes]] = []
        with self._lock:
            for key, value in self._open().items(from_key=prefix):
                if not key.startswith(prefix):
                    break
                found.append((key[len(prefix) :].decode(), value))
        return iter(found)

    def next_epoch(self) -> int:
        """See `MetadataStore.next_epoch`."""
        with self._lock:
            stored = self._open().get(_EPOCH)
        epoch = 1 + (int.from_bytes(stored, "big") if stored else 0)
        batch = WriteBatch(raw_mode=True)
        batch.put(_EPOCH, epoch.to_bytes(8, "big"))
        self._write(batch, sync=True)
        return epoch

    def close(self) -> None:
        """See `MetadataStore.close`."""
        with self._lock:
            database, self._database = self._database, None
            if database is not None:
                database.close()

    def _open(self) -> Any:
        if self._database is None:
            raise StorageError(f"the metadata store in {self._folder} is closed")
        return self._database

    def _write(self, batch: Any, *, sync: bool) -> None:
        options = WriteOptions()
        options.sync = sync
        with self._lock:
            database = self._open()
            try:
                database.write(batch, options)
            except Exception as error:  # rocksdict raises bare Exception
                raise StorageError(f"the metadata store refused a write: {error}") from error


def _options() -> Any:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_keep_log_file_num(2)
    options.set_max_open_files(64)
    options.set_write_buffer_size(4 << 20)
    return options


def _key(table: Table, key: str) -> bytes:
    return f"{table}\0{key}".encode()


def _why_not_open(folder: Path, error: Exception) -> str:
    if "lock" in str(error).lower():
        return f"{folder} is in use by another coordinator; stop that one or use another folder"
    return f"the metadata store in {folder} can't be opened: {error}"
