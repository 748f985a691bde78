"""What goes wrong with a checkpoint folder, as Fabric errors that say what to do.

One job: two context managers around every touch of a file. Paths are told from the root of the
folder on: who reads an error need not learn where that lies.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fabric.checkpoint.files import Files
from fabric.errors import DataError, FabricError, NotFoundError, StorageError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (errno.EACCES, errno.EPERM)


@contextmanager
def writing(root: Path, path: Path) -> Iterator[None]:
    """Turn what the system raises while `path` is written into `StorageError`."""
    try:
        yield
    except FabricError:
        raise
    except OSError as error:
        raise StorageError(_why_not_written(_below(root, path), error)) from error


@contextmanager
def reading(files: Files, root: Path, path: Path) -> Iterator[None]:
    """The same for reading; what is missing is a `NotFoundError`, unless all of a job is away."""
    try:
        yield
    except FabricError:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        if not _is_there(files, root, path):
            raise StorageError(_away()) from error
        raise NotFoundError(
            f"{_below(root, path)} is missing in the checkpoint folder; was it moved or removed?"
        ) from error
    except IsADirectoryError as error:
        raise DataError(f"{_below(root, path)} is a folder, a file was stored") from error
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise StorageError(
            f"{_below(root, path)} in the checkpoint folder can't be read: {why}"
        ) from error


def _why_not_written(name: str, error: OSError) -> str:
    if error.errno in _FULL:
        return f"the disk of the checkpoint folder is full: {name} was not written; make room"
    if error.errno == errno.EROFS:
        return f"the checkpoint folder is read-only: {name} was not written; mount it for writing"
    if error.errno in _REFUSED:
        return f"{name} in the checkpoint folder may not be written by this user"
    if isinstance(error, FileNotFoundError):
        return _away()
    why = error.strerror or type(error).__name__
    return f"{name} could not be written in the checkpoint folder: {why}"


def _is_there(files: Files, root: Path, path: Path) -> bool:
    """Whether the root is there, and the job's folder in it."""
    try:
        for folder in (root, *(root / name for name in path.relative_to(root).parts[:1])):
            files.names(folder)
    except OSError:
        return False
    return True


def _away() -> str:
    return (
        "the checkpoint folder, or the job's part of it, is not there; is its disk mounted, and "
        "the same on all hosts?"
    )


def _below(root: Path, path: Path) -> str:
    return str(path.relative_to(root)) if path != root else "the root"
