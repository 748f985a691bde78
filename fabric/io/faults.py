"""What goes wrong with files, as Fabric errors that name the file.

One job: two context managers around every touch of a file, one for reading, one for writing. That
for reading first asks whether plans may read it, so that no error tells anything of one they may
not.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from fabric.cancellation import check_wanted
from fabric.errors import DataError, FabricError, NotFoundError, StorageError
from fabric.io import places

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def reading(path: str, format: str) -> Iterator[None]:
    """Turn what Arrow and the system raise while `path` is read into `FabricError`.

    Raises `PlanError` before anything is read where plans may not read it, see `places`.
    """
    check_wanted()
    places.check_read(path)
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
