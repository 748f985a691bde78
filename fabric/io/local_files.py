"""Files by their paths: regular ones alone are opened, and errors name the file.

`opened` and its like: to open a named pipe waits until somebody writes to it, a device may never
end, and both may take the place of a file after a plan was made. So a path is looked at, opened
without waiting, and looked at again as it is open; Arrow is given that very file.

The URL of an object in a bucket is a path here, too: `n_bytes`, `opened`, `unpacked` and `reading`
go on to `object_files`.

`reading` and `writing`, around every touch of a file: what the system and Arrow raise comes out as
a Fabric error. `reading` first asks whether plans may read the file, so that no error tells
anything of one they may not.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from fabric import failpoints
from fabric.cancellation import check_wanted
from fabric.errors import DataError, FabricError, NotFoundError, StorageError
from fabric.io import object_files, places
from fabric.object_urls import is_object_url
from fabric.plan.places import Settings

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
PACKINGS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
"""How a file of text is compressed, by its ending."""
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def irregular(mode: int) -> str:
    """What a file of such `st_mode` is, if not a regular file or a folder; else empty.

    >>> irregular(os.stat("/dev/null").st_mode)
    'a device'
    """
    return _KINDS.get(stat.S_IFMT(mode), "")


def facts(path: str) -> os.stat_result:
    """What the system says of a regular file; it is not opened.

    Raises
    ------
    DataError
        It is a named pipe, a socket or a device.
    IsADirectoryError, OSError
        It is a folder, or the system can't say.
    """
    found = os.stat(path)
    _check(path, found.st_mode)
    return found


def n_bytes(path: str, store: Settings = ()) -> int:
    """The length of a regular file; raises what `facts` does. Here and below an object is asked for
    with the options `store`."""
    return object_files.n_bytes(path, store) if is_object_url(path) else facts(path).st_size


def descriptor(path: str) -> int:
    """A descriptor of the regular file `path`, to read from; raises what `facts` does."""
    failpoints.reach("file.opening")
    facts(path)  # first: a device may do something when it is opened
    opened = os.open(path, _FLAGS)
    try:
        _check(path, os.fstat(opened).st_mode)
        places.check_opened(opened)
    except BaseException:
        os.close(opened)
        raise
    return opened


def opened(path: str, ahead: int = 0, store: Settings = ()) -> pa.NativeFile:
    """The regular file `path` as Arrow reads it, of objects `ahead` bytes at least at once; raises
    what `facts` does."""
    if is_object_url(path):
        return object_files.opened(path, ahead, store)
    with _named(path) as name:
        return pa.OSFile(name)


def unpacked(path: str, store: Settings = ()) -> pa.NativeFile:
    """The same, decompressed where the ending of `path` says so."""
    packing = next((PACKINGS[ending] for ending in PACKINGS if path.endswith(ending)), None)
    file = object_files.streamed(path, store) if is_object_url(path) else opened(path)
    return file if packing is None else pa.CompressedInputStream(file, packing)


def mapped(path: str) -> pa.MemoryMappedFile:
    """The regular file `path` in memory; raises what `facts` does."""
    with _named(path) as name:
        return pa.memory_map(name)


@contextmanager
def _named(path: str) -> Iterator[str]:
    """A name by which Arrow opens the file that is open here, whatever `path` names by then."""
    number = descriptor(path)
    try:
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)


def _check(path: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if kind := irregular(mode):
        raise DataError(
            f"{path} is {kind}, and only regular files are read; write what comes from it to a "
            "file first"
        )


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def reading(path: str, format: str) -> Iterator[None]:
    """Turn what Arrow and the system raise while `path` is read into `FabricError`.

    Raises `PlanError` before anything is read where plans may not read it, see `places`.
    """
    check_wanted()
    places.check_input(path)
    try:
        yield
    except FabricError:
        raise
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no file {path}; was it moved or deleted?") from error
    except IsADirectoryError as error:
        raise NotFoundError(f"{path} is a folder, not a {format} file") from error
    except PermissionError as error:
        raise StorageError(f"{path} may not be read by this user") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        if getattr(error, "errno", None) in (errno.EIO, errno.ESTALE, errno.ENXIO):
            raise StorageError(f"reading {path} failed: {first_line(error)}") from error
        raise DataError(
            f"{path} is not a whole {format} file: {first_line(error)}; write or copy it anew"
        ) from error


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Turn what Arrow and the system raise while `path` is written into `FabricError`."""
    try:
        yield
    except FabricError:
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise StorageError(
                f"the disk is full: {path} could not be written; make room, or write elsewhere"
            ) from error
        raise StorageError(f"{path} could not be written: {first_line(error)}") from error
    except pa.ArrowException as error:
        raise DataError(f"{path} can't hold these rows: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """The first line of an error's text, at most 300 characters that can be printed."""
    text = str(error) or type(error).__name__
    line = text.split("\n", 1)[0][:300].removesuffix(".")
    return "".join(c if c.isprintable() and c != "\ufffd" else "?" for c in line)
