"""What `mode="overwrite"` may replace, and how it does.

    out/name/                  what is there: data files, and nothing else (or `force`)
    out/.name.<job>.new/       changes places with it in one step, and is removed then
    out/.name.<job>.old/       where the file system can't do that: what was there waits here

One job: `check`, `put` and `tidy`, the only code that removes what somebody else wrote. At any
moment the folder has the old rows or the new ones, whole; where two steps are needed, a crash in
between leaves the old ones in ``.old``, and `put` or `tidy` goes on from there.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType

from fabric.errors import PlanError, StorageError
from fabric.io.files.folders import ENDINGS, is_hidden
from fabric.io.local_files import irregular
from fabric.io.sinks.stream_folders import synced

_DATA = tuple({ending for endings in ENDINGS.values() for ending in endings})
_MARKER = re.compile(r"_SUCCESS|_metadata|_common_metadata|_(committed|started)_\w+|\..+\.crc")
"""Of Spark, Databricks, Hadoop and Dask; they say something of the data files beside them."""
_COLUMN = re.compile(r"[^.=][^=]*=.*")
ExcInfo = tuple[type[BaseException], BaseException, TracebackType]
_SHOWN = 3
_EXCHANGE, _HERE = 2, -100
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV, errno.EPERM)


def is_data(name: str) -> bool:
    """Whether a file of this name holds rows that Fabric reads, or is a marker of such files.

    >>> [is_data(name) for name in ("a.parquet", "a.csv.gz", "_SUCCESS", ".a.parquet.crc")]
    [True, True, True, True]
    >>> [is_data(name) for name in ("notes.txt", ".a.parquet", "_delta_log", "part-00000")]
    [False, False, False, False]
    """
    if _MARKER.fullmatch(name):
        return True
    return not is_hidden(name) and name.lower().endswith(_DATA)


def foreign(folder: str | Path, below: str = "") -> Iterator[str]:
    """What lies in a folder that is no data file, with what it is; the links in it lead nowhere.

    Raises
    ------
    StorageError
        A folder in it may not be looked at or emptied by this user.
    """
    place = os.path.join(folder, below).rstrip("/")
    if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        raise StorageError(f"the folder {place} may not be replaced by this user")
    with os.scandir(place) as entries:
        for entry in entries:
            name = below + entry.name
            if entry.is_file(follow_symlinks=False):
                if not is_data(entry.name):
                    yield name
            elif not entry.is_dir(follow_symlinks=False):
                kind = irregular(entry.stat(follow_symlinks=False).st_mode)
                yield f"{name} ({kind or 'a link'})"
            elif _COLUMN.fullmatch(entry.name):
                yield from foreign(folder, f"{name}/")
            else:
                yield f"{name}/ (a folder)"


def foreign_keys(below: Iterable[str]) -> Iterator[str]:
    """What is no data file or lies in no folder of a column, of names below a prefix.

    >>> list(foreign_keys(["a.parquet", "k=1/b.csv", "_SUCCESS", "notes.txt", "old/c.parquet"]))
    ['notes.txt', 'old/c.parquet']
    """
    for each in below:
        *folders, name = each.split("/")
        if not is_data(name) or not all(map(_COLUMN.fullmatch, folders)):
            yield each


def check(path: Path, said: str | Path = "", lies: Path | None = None) -> None:
    """Refuse to replace `path` (called `said`) if it holds what is no data; it may `lie` aside.

    Raises
    ------
    PlanError
        It names what lies there, and what can be done.
    """
    kind = "" if lies or not path.exists() else irregular(path.stat().st_mode)
    if kind:
        raise PlanError(f"{_called(path, said)} is {kind}, which is not overwritten")
    if not (lies or path).is_dir():
        return
    found = list(islice(foreign(lies or path), _SHOWN + 1))
    if found:
        listed = ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
        raise PlanError(
            f"{_called(path, said)} holds more than data files: {listed}; overwriting would remove "
            "it: move it away, write elsewhere, or say force=True"
        )


def put(new: Path, path: Path, old: Path, *, force: bool) -> None:
    """Have the folder `new` at `path`; what was there lies at `new` or `old` then, for `tidy`.

    Raises
    ------
    PlanError
        `path` holds what is no data, and `force` is not said: nothing has changed.
    """
    if not path.is_dir() or not any(path.iterdir()):
        new.rename(path)
    else:
        if not force:
            check(path)
        back = _changed_places(new, path, old)
        try:
            if not force:  # somebody may just have put something there
                check(path, lies=old if old.exists() else new)
        except BaseException:
            back()
            raise
    synced(path.parent)  # before anything is removed


def tidy(path: Path, old: Path, *others: Path) -> None:
    """Remove what lay at `path` before; if nothing is there, two steps were cut short: undo one."""
    if old.exists() and not path.exists():
        old.rename(path)
    for folder in (old, *others):
        if folder.exists():
            shutil.rmtree(folder, onerror=_unless_gone)


def _unless_gone(_function: object, _path: object, error: ExcInfo) -> None:
    """Two may remove the same thing at the same time."""
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]


def _changed_places(new: Path, path: Path, old: Path) -> Callable[[], None]:
    """`new` is at `path`, and what was there at `new` or `old`; returns what undoes that."""
    if _exchanged(new, path):
        return lambda: _undone(_exchanged(new, path), path)
    path.rename(old)
    try:
        new.rename(path)
    except BaseException:
        old.rename(path)
        raise

    def back() -> None:
        path.rename(new)
        old.rename(path)

    return back


def _undone(done: bool, path: Path) -> None:
    if not done:
        raise StorageError(f"{path} could not be put back; its rows lie in a hidden folder beside")


def _exchanged(one: Path, other: Path) -> bool:
    """Have two folders change names in one step; False where the file system can't."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not libc.renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE):
        return True
    if (number := ctypes.get_errno()) in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(other))


def _called(path: Path, said: str | Path) -> str:
    return f"{said} (a link to {path})" if said and str(said) != str(path) else str(path)
