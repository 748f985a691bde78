"""The file operations that checkpoints are made of, one by one, and what goes wrong with them.

One job: `Files`, what a storage may ask of a file system: the machine's own. Nothing here is
durable until `sync` was called: of a file for its bytes, of a folder for the names in it. Tests run
the same storage on files that forget what was not synced. `writing` and `reading` stand around
every use and turn the system's errors into Fabric errors that say what to do. Paths are told from
the root of the folder on: who reads an error need not learn where that lies. A folder of the user's
choice is named in `place`.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from typing_extensions import Buffer

from fabric._cython.shuffle.checksum import RunningCrc32c
from fabric.errors import DataError, FabricError, NotFoundError, StorageError

_PIECE = 4 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (errno.EACCES, errno.EPERM)


class Files:
    """The machine's own file system; everything raises `OSError`."""

    def make_folder(self, path: Path) -> None:
        """Make a folder in one that is there; nothing when it is there already."""
        path.mkdir(mode=0o700, exist_ok=True)

    def write(self, path: Path, data: Buffer) -> None:
        """Make a new file; `FileExistsError` when there is one."""
        with path.open("xb", buffering=0) as out:
            _write(out.fileno(), data)

    def copy(self, source: Path, to: Path) -> tuple[int, int]:
        """Make a new file of a host's file; its bytes and their CRC32C."""
        with to.open("xb", buffering=0) as out:
            return _walk(source, out.fileno())

    def link(self, source: Path, to: Path) -> None:
        """Give a file another name on the same file system."""
        os.link(source, to)

    def rename(self, source: Path, to: Path) -> None:
        """Move a file over another one or to a new name, at once."""
        source.replace(to)

    def sync(self, path: Path) -> None:
        """Force a file's bytes, or a folder's names, to the disk."""
        held = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(held)
        finally:
            os.close(held)

    def read(self, path: Path) -> bytes:
        """All of a file."""
        return path.read_bytes()

    def pieces(self, path: Path) -> Iterator[bytes]:
        """A file, some megabytes at a time."""
        with path.open("rb", buffering=0) as file:
            while piece := file.read(_PIECE):
                yield piece

    def checksum(self, path: Path) -> tuple[int, int]:
        """The bytes of a file and their CRC32C."""
        return _walk(path, None)

    def names(self, path: Path) -> list[str]:
        """What is in a folder, sorted."""
        return sorted(os.listdir(path))

    def size(self, path: Path) -> int:
        """The bytes of a file."""
        return path.stat().st_size

    def n_links(self, path: Path) -> int:
        """How many names a file has."""
        return path.stat().st_nlink

    def is_same(self, path: Path, other: Path) -> bool:
        """Whether two names are of one file."""
        return path.samefile(other)

    @contextmanager
    def locked(self, path: Path) -> Iterator[None]:
        """Hold a file that is made for it and removed after; `BlockingIOError`: another has it.

        The system drops the lock of a process that ends; its file stays, and is taken over.
        """
        held = _lock(path)
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()
            os.close(held)

    def remove_file(self, path: Path) -> None:
        """Take a name away; the file goes with its last one."""
        path.unlink()

    def remove_folder(self, path: Path) -> None:
        """Remove a folder that is empty."""
        path.rmdir()


def _lock(path: Path) -> int:
    while True:
        held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(held), path.stat()):
                    return held
        except BaseException:
            os.close(held)
            raise
        os.close(held)  # whoever held it has removed it meanwhile


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


OURS = "the checkpoint folder"


@contextmanager
def writing(root: Path, path: Path, place: str = OURS) -> Iterator[None]:
    """Turn what the system raises while `path` is written into `StorageError`."""
    try:
        yield
    except FabricError:
        raise
    except OSError as error:
        raise StorageError(_why_not_written(_below(root, path), error, place)) from error


@contextmanager
def reading(files: Files, root: Path, path: Path, place: str = OURS) -> Iterator[None]:
    """The same for reading; what is missing is a `NotFoundError`, unless all of a job is away."""
    try:
        yield
    except FabricError:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        if not _is_there(files, root, path):
            raise StorageError(_away(place)) from error
        raise NotFoundError(
            f"{_below(root, path)} is missing in {place}; was it moved or removed?"
        ) from error
    except IsADirectoryError as error:
        raise DataError(f"{_below(root, path)} is a folder, a file was stored") from error
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise StorageError(f"{_below(root, path)} in {place} can't be read: {why}") from error


def _why_not_written(name: str, error: OSError, place: str) -> str:
    if error.errno in _FULL:
        return f"the disk of {place} is full: {name} was not written; make room"
    if error.errno == errno.EROFS:
        return f"{place} is read-only: {name} was not written; mount it for writing"
    if error.errno in _REFUSED:
        return f"{name} in {place} may not be written by this user"
    if isinstance(error, FileNotFoundError):
        return _away(place)
    why = error.strerror or type(error).__name__
    return f"{name} could not be written in {place}: {why}"


def _is_there(files: Files, root: Path, path: Path) -> bool:
    """Whether the root is there, and the job's folder in it."""
    try:
        for folder in (root, *(root / name for name in path.relative_to(root).parts[:1])):
            files.names(folder)
    except OSError:
        return False
    return True


def _away(place: str) -> str:
    return (
        f"{place}, or the job's part of it, is not there; is its disk mounted, and the same on all "
        "hosts?"
    )


def _below(root: Path, path: Path) -> str:
    return str(path.relative_to(root)) if path != root else "the root"
