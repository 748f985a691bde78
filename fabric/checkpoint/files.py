"""The file operations that checkpoints are made of, one by one.

One job: `Files`, what a storage may ask of a file system, and `SystemFiles`, the machine's own.
Nothing here is durable until `sync` was called: of a file for its bytes, of a folder for the names
in it. Tests run the same storage on files that forget what was not synced. Errors are the system's
own; the storage says what they mean.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from typing_extensions import Buffer

from fabric._cython.shuffle.checksum import RunningCrc32c

_PIECE = 4 << 20


class Files(Protocol):
    """A file system; everything raises `OSError`."""

    def make_folder(self, path: Path) -> None:
        """Make a folder in one that is there; nothing when it is there already."""

    def write(self, path: Path, data: Buffer) -> None:
        """Make a new file; `FileExistsError` when there is one."""

    def copy(self, source: Path, to: Path) -> tuple[int, int]:
        """Make a new file of a host's file; its bytes and their CRC32C."""

    def link(self, source: Path, to: Path) -> None:
        """Give a file another name on the same file system."""

    def rename(self, source: Path, to: Path) -> None:
        """Move a file over another one or to a new name, at once."""

    def sync(self, path: Path) -> None:
        """Force a file's bytes, or a folder's names, to the disk."""

    def read(self, path: Path) -> bytes:
        """All of a file."""

    def checksum(self, path: Path) -> tuple[int, int]:
        """The bytes of a file and their CRC32C."""

    def names(self, path: Path) -> list[str]:
        """What is in a folder, sorted."""

    def size(self, path: Path) -> int:
        """The bytes of a file."""

    def n_links(self, path: Path) -> int:
        """How many names a file has."""

    def remove_file(self, path: Path) -> None:
        """Take a name away; the file goes with its last one."""

    def remove_folder(self, path: Path) -> None:
        """Remove a folder that is empty."""


class SystemFiles:
    """See `Files`."""

    def make_folder(self, path: Path) -> None:
        """See `Files.make_folder`."""
        path.mkdir(mode=0o700, exist_ok=True)

    def write(self, path: Path, data: Buffer) -> None:
        """See `Files.write`."""
        with path.open("xb", buffering=0) as out:
            _write(out.fileno(), data)

    def copy(self, source: Path, to: Path) -> tuple[int, int]:
        """See `Files.copy`; one pass."""
        with to.open("xb", buffering=0) as out:
            return _walk(source, out.fileno())

    def link(self, source: Path, to: Path) -> None:
        """See `Files.link`."""
        os.link(source, to)

    def rename(self, source: Path, to: Path) -> None:
        """See `Files.rename`."""
        source.replace(to)

    def sync(self, path: Path) -> None:
        """See `Files.sync`."""
        held = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(held)
        finally:
            os.close(held)

    def read(self, path: Path) -> bytes:
        """See `Files.read`."""
        return path.read_bytes()

    def checksum(self, path: Path) -> tuple[int, int]:
        """See `Files.checksum`."""
        return _walk(path, None)

    def names(self, path: Path) -> list[str]:
        """See `Files.names`."""
        return sorted(os.listdir(path))

    def size(self, path: Path) -> int:
        """See `Files.size`."""
        return path.stat().st_size

    def n_links(self, path: Path) -> int:
        """See `Files.n_links`."""
        return path.stat().st_nlink

    def remove_file(self, path: Path) -> None:
        """See `Files.remove_file`."""
        path.unlink()

    def remove_folder(self, path: Path) -> None:
        """See `Files.remove_folder`."""
        path.rmdir()


def _walk(source: Path, out: int | None) -> tuple[int, int]:
    """Read a file in pieces, write them to `out`; its bytes and checksum."""
    crc, n_bytes = RunningCrc32c(), 0
    room = memoryview(bytearray(_PIECE))
    with source.open("rb", buffering=0) as file:
        while n_read := file.readinto(room):
            crc.update(room[:n_read])
            n_bytes += n_read
            if out is not None:
                _write(out, room[:n_read])
    return n_bytes, crc.value


def _write(out: int, data: Buffer) -> None:
    left = memoryview(data).cast("B")
    while left:
        left = left[os.write(out, left) :]
