"""Files of snapshots that an agent keeps on its own disk, beside the object store that has them.

    <folder>/<job>/00000000000000000007/<hash of the object's key>      of checkpoint 7

One job: `LocalCopies`. A task that comes back to its agent restores from them. Each is compared
with the checksum in the manifest; what is missing or differs is read from the store. The newest
complete checkpoint of a stream stays, and what is made after it. A copy that can't be written is a
warning: the store has the file.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from fabric._cython.shuffle.checksum import RunningCrc32c, crc32c
from fabric.checkpoint.folder import plain
from fabric.checkpoint.manifest import FileRecord
from fabric.telemetry.logs import logger

_log = logger("fabric.agent")
_PIECE = 4 << 20


class LocalCopies:
    """Those in `folder`, which may be shared by the processes of one agent.

    Examples
    --------
    >>> import tempfile
    >>> copies = LocalCopies(Path(tempfile.mkdtemp()))
    >>> record = FileRecord("rows", 3, crc32c(b"abc"))
    >>> copies.of("job-1", 7).put("job-1/tasks/7/rows", b"abc")
    >>> copies.of("job-1", 7).read("job-1/tasks/7/rows", record).to_pybytes()
    b'abc'
    >>> copies.retain("job-1", newest=8)
    >>> copies.of("job-1", 7).read("job-1/tasks/7/rows", record) is None
    True
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def of(self, job: str, checkpoint: int) -> CheckpointCopies:
        """Those of one checkpoint."""
        return CheckpointCopies(self.folder / plain(job) / f"{checkpoint:020}")

    def retain(self, job: str, newest: int) -> None:
        """Remove those of checkpoints below `newest`, which is complete."""
        for path in _entries(self.folder / plain(job)):
            if path.name.isdecimal() and int(path.name) < newest:
                shutil.rmtree(path, ignore_errors=True)

    def sweep(self, older_s: float) -> None:
        """Remove those of streams that have stored nothing for so many seconds."""
        for path in _entries(self.folder):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > older_s:
                    shutil.rmtree(path, ignore_errors=True)


class CheckpointCopies:
    """Files of one checkpoint of one stream, by the keys of their objects."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, key: str, data: bytes | pa.Buffer | memoryview) -> None:
        """Keep these bytes."""
        self._keep(self._path(key), lambda path: _write(path, data))

    def hold(self, source: Path) -> Path:
        """Keep a file that never changes and may be removed, by a hard link where there are any.

        It is read once `name` has said which one it is.
        """
        held = self._folder / f"held-{secrets.token_hex(8)}"
        self._keep(held, lambda path: _link(source, path))
        return held

    def name(self, held: Path, key: str) -> None:
        """What was held is the object `key`."""
        self._keep(self._path(key), held.rename)

    def read(self, key: str, record: FileRecord) -> pa.Buffer | None:
        """The bytes of a file; None: they are not here."""
        try:
            data = self._path(key).read_bytes()
        except OSError:
            return None
        return pa.py_buffer(data) if self._is_same(key, record, len(data), crc32c(data)) else None

    def fetch(self, key: str, record: FileRecord, to: Path) -> bool:
        """Put a file at `to`, linked if it never changes; False: it is not here."""
        path, crc, n_bytes = self._path(key), RunningCrc32c(), 0
        try:
            with path.open("rb", buffering=0) as file:
                while piece := file.read(_PIECE):
                    crc.update(piece)
                    n_bytes += len(piece)
        except OSError:
            return False
        if not self._is_same(key, record, n_bytes, crc.value):
            return False
        if record.is_shared:
            _link(path, to)
        else:
            shutil.copyfile(path, to)
        return True

    # ---- inside

    def _path(self, key: str) -> Path:
        return self._folder / hashlib.sha256(key.encode()).hexdigest()[:32]

    def _keep(self, path: Path, write: Callable[[Path], object]) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.unlink(missing_ok=True)
            write(path)
        except OSError as error:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            why = error.strerror or type(error).__name__
            _log.warning("no local copy of a snapshot's file", file=str(path), error=why)

    def _is_same(self, key: str, record: FileRecord, n_bytes: int, crc: int) -> bool:
        if (n_bytes, crc) == (record.n_bytes, record.crc32c):
            return True
        path = self._path(key)
        _log.warning("a local copy is damaged, the store is read", file=str(path), name=record.name)
        path.unlink(missing_ok=True)
        return False


def _write(path: Path, data: bytes | pa.Buffer | memoryview) -> None:
    with path.open("xb", buffering=0) as out:
        left = memoryview(data).cast("B")
        while left:
            left = left[out.write(left) :]


def _link(source: Path, to: Path) -> None:
    try:
        os.link(source, to)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or too many links
        shutil.copyfile(source, to)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # nothing was kept
        return []
