"""Regular files, and nothing else, are opened for reading.

One job: `opened` and its like. To open a named pipe waits until somebody writes to
it, a device may never end, and both may take the place of a file after a plan was made. So a path
is looked at, opened without waiting, and looked at again as it is open; Arrow is given that very
file. All of them belong inside `faults.reading`, which names what the system raises.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from fabric import failpoints
from fabric.errors import DataError
from fabric.io import places

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_PACKINGS = {"bz2": "bz2", "gz": "gzip", "lz4": "lz4", "zst": "zstd"}
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


def n_bytes(path: str) -> int:
    """The length of a regular file; raises what `facts` does."""
    return facts(path).st_size


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


def opened(path: str) -> pa.OSFile:
    """The regular file `path` as Arrow reads it; raises what `facts` does."""
    with _named(path) as name:
        return pa.OSFile(name)


def unpacked(path: str) -> pa.NativeFile:
    """The same, decompressed where the ending of `path` says so."""
    kind = next((kind for kind in _PACKINGS if path.endswith(f".{kind}")), None)
    file = opened(path)
    return file if kind is None else pa.CompressedInputStream(file, _PACKINGS[kind])


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
