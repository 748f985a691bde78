"""One old task's snapshot, read from a checkpoint folder.

One job: `FolderReader`, and `check_file`, which holds a file against its record. What is read or
copied is checked once more on the way; what is linked was checked by `verify`.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from fabric._cython.shuffle.checksum import crc32c
from fabric.checkpoint.faults import reading
from fabric.checkpoint.files import Files
from fabric.checkpoint.manifest import FileRecord, TaskSnapshot
from fabric.errors import DataError, NotFoundError


class FolderReader:
    """See `fabric.checkpoint.storage.TaskReader`."""

    def __init__(self, root: Path, folder: Path, snapshot: TaskSnapshot, files: Files) -> None:
        self._root, self._folder, self._files = root, folder, files
        self._records = {file.name: file for file in snapshot.files}

    def names(self) -> list[str]:
        """See `TaskReader.names`."""
        return sorted(self._records)

    def read(self, name: str) -> pa.Buffer:
        """See `TaskReader.read`."""
        record = self._record(name)
        path = self._folder / name
        with reading(self._files, self._root, path):
            data = self._files.read(path)
        _compare(self._root, path, record, len(data), crc32c(data))
        return pa.py_buffer(data)

    def fetch(self, name: str, to: Path) -> None:
        """See `TaskReader.fetch`; only what never changes is linked."""
        record = self._record(name)
        path = self._folder / name
        with reading(self._files, self._root, path):
            if record.content:
                # Any refusal of a link is answered by a copy, and that says what is wrong.
                with suppress(OSError):
                    self._files.link(path, to)
                    return
            found = self._files.copy(path, to)
        _compare(self._root, path, record, *found)

    def _record(self, name: str) -> FileRecord:
        if (record := self._records.get(name)) is None:
            known = ", ".join(self.names()) or "it has none"
            raise NotFoundError(f"the snapshot has no file {name[:80]!r}; files: {known}")
        return record


def check_file(root: Path, path: Path, record: FileRecord, files: Files) -> None:
    """Read a file; `DataError` or `NotFoundError` when it is not as recorded."""
    with reading(files, root, path):
        found = files.checksum(path)
    _compare(root, path, record, *found)


def _compare(root: Path, path: Path, record: FileRecord, n_bytes: int, crc: int) -> None:
    where = path.relative_to(root)
    if n_bytes != record.n_bytes:
        raise DataError(f"{where} has {n_bytes} bytes, {record.n_bytes} were stored")
    if crc != record.crc32c:
        raise DataError(f"{where} is damaged: its checksum is not that of what was stored")
