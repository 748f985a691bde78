"""The metadata store of a single coordinator: RocksDB in a folder.

One job: `RocksStore`. One key space, ``table NUL key``. A write is on the disk before the call
returns (0.1 ms). A lock on the folder keeps a second coordinator out, so the epoch is only counted.

Nothing that was ever acknowledged is given up silently: of the log only a torn last record (a write
that never returned) is dropped, and a folder with a damaged or missing file is refused as it is:
all of it is read once, for reading only, before it is opened for writing. Files that are removed
or replaced under a running store end it (`own_files.py`): a write is acknowledged where it lies.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rocksdict import AccessType, DBRecoveryMode, Options, Rdict, WriteBatch

from fabric.coordinator.metadata.log_check import is_cut_short
from fabric.coordinator.metadata.own_files import OwnFiles
from fabric.coordinator.metadata.store import Table, Write, fenced, last_of_each
from fabric.errors import FencedError, StorageError
from fabric.state.rocksdb.database import impatient, is_stall, taken

_EPOCH = b"epoch"


class RocksStore:
    """See `MetadataStore`; `folder` is made when it is missing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._database: Any = None
        self._epoch = 0
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._held = _hold(folder)
        except StorageError:
            raise
        except OSError as error:
            why = error.strerror or error
            raise StorageError(f"the metadata store in {folder} can't be opened: {why}") from error
        try:
            self._stored_epoch = _check_whole(folder)
            self._database = Rdict(str(folder), options=_options())
            self._files = OwnFiles(folder.resolve())
        except Exception as error:  # rocksdict raises bare Exception
            self.close()
            raise StorageError(_damaged(folder, error)) from error

    def apply(self, writes: Sequence[Write]) -> None:
        """See `MetadataStore.apply`."""
        rows = {_key(table, key): value for (table, key), value in last_of_each(writes).items()}
        with self._lock:
            if self._epoch != self._stored_epoch:
                raise FencedError(fenced(self._epoch, self._stored_epoch))
            self._write(rows)

    def scan(self, table: Table) -> Iterator[tuple[str, bytes]]:
        """See `MetadataStore.scan`."""
        begin, found = _key(table, ""), []
        with self._lock:
            cursor = self._open().iter()
            try:
                cursor.seek(begin)
                while cursor.valid() and (key := cursor.key()).startswith(begin):
                    found.append((key[len(begin) :].decode(), cursor.value()))
                    cursor.next()
                cursor.status()
            except Exception as error:  # a block that is damaged ends the cursor
                raise StorageError(_damaged(self._folder, error)) from error
        return iter(found)

    def next_epoch(self) -> int:
        """See `MetadataStore.next_epoch`."""
        with self._lock:
            epoch = self._stored_epoch + 1
            self._write({_EPOCH: epoch.to_bytes(8, "big")})
            self._epoch = self._stored_epoch = epoch
        return epoch

    def check(self) -> None:
        """Raise `StorageError` when somebody has removed or replaced files of it."""
        with self._lock:
            self._open()
            if missed := self._files.missed(self._tables):
                raise StorageError(_removed(missed))

    def close(self) -> None:
        """See `MetadataStore.close`."""
        with self._lock:
            database, self._database = self._database, None
            if database is not None:
                with suppress(Exception):  # after a failed write; what was promised is on the disk
                    database.close()
                del database  # which closes it in any case
            held, self._held = self._held, -1
            if held >= 0:
                os.close(held)

    def _tables(self) -> set[str]:
        return {Path(file["name"]).name for file in self._database.live_files()}

    def _open(self) -> Any:
        if self._database is None:
            raise StorageError(f"the metadata store in {self._folder} is closed")
        return self._database

    def _write(self, rows: Mapping[bytes, bytes | None]) -> None:
        database, options = self._open(), impatient()
        options.sync = True

        def write() -> None:
            batch = WriteBatch(raw_mode=True)
            for key, value in rows.items():
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
            database.write(batch, options)

        try:
            taken(database, write)
        except Exception as error:  # rocksdict raises bare Exception
            missed = self._files.missed()
            why = _removed(missed) if missed else _why_not_written(error)
            raise StorageError(why) from error
        if missed := self._files.missed():
            raise StorageError(_removed(missed))


def _options() -> Any:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    options.set_paranoid_checks(True)
    options.set_keep_log_file_num(2)
    options.set_max_open_files(64)
    options.set_write_buffer_size(128 << 10)  # full soon, so that memory is soon what it stays
    return options


def _key(table: Table, key: str) -> bytes:
    return f"{table}\0{key}".encode()


def _hold(folder: Path) -> int:
    """A descriptor that keeps others out of the folder until it is closed."""
    held = os.open(folder / "held", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        raise StorageError(
            f"{folder} is in use by another coordinator; stop that one or use another folder"
        ) from None
    return held


def _check_whole(folder: Path) -> int:
    """Read everything there is, without a change to it; the epoch that is stored."""
    if not (folder / "CURRENT").exists():
        # RocksDB would begin anew, over what is there
        if any(path.suffix in (".sst", ".log") for path in folder.iterdir()):
            raise FileNotFoundError(f"{folder / 'CURRENT'} is missing")
        return 0
    for log in folder.glob("*.log"):
        if is_cut_short(log):
            raise OSError(f"a record in {log} has lost its end")
    database = Rdict(str(folder), options=_options(), access_type=AccessType.read_only(False))
    try:
        cursor = database.iter()
        cursor.seek_to_first()
        while cursor.valid():
            cursor.value()
            cursor.next()
        cursor.status()
        return int.from_bytes(database.get(_EPOCH) or b"", "big")
    finally:
        database.close()


def _why_not_written(error: Exception) -> str:
    """For clients, too: without the paths that RocksDB names; the coordinator's end tells those."""
    text = str(error)
    if "no space" in text.lower() or is_stall(error):
        return "the disk of the metadata store is full; make room and start the coordinator again"
    return f"the metadata store refused a write: {text.partition(':')[0]}"


def _removed(missed: str) -> str:
    return (
        f"files of the metadata store were removed or replaced while it was in use: {missed}; the "
        "coordinator ends, since nobody would ever read what it wrote from now on: put the folder "
        "back from a copy, or move it away to begin with none, and start the coordinator again"
    )


def _damaged(folder: Path, error: object) -> str:
    text = str(error)
    if not any(name in text for name in (".sst", ".log", "MANIFEST", "CURRENT")):
        text += " in " + ", ".join(sorted(path.name for path in folder.glob("*.log")))
    return (
        f"the metadata store in {folder} is damaged: {text}; nothing was changed: put the folder "
        "back from a copy, or move it away to begin with none"
    )
