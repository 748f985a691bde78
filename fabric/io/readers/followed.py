"""Where followed files lie: in a folder, or below a prefix of an object store.

One job: `followed`, which says which files there are, by their names from the place on, and how old
and how long each is. Names that begin with "." or "_", or don't end as the format's do, are left
out. Of the folders only those named ``column=value`` are followed, and of a prefix the same.

A store lists a thousand objects a request. Where more lie there, most looks list what comes behind
the last key only: so names that begin with a time, or a number, are found at once. All others are
found by a look at everything, after so many that a look takes about two requests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path

from fabric.errors import NotFoundError
from fabric.io import object_files
from fabric.io.files.folders import ENDINGS
from fabric.io.local_files import reading
from fabric.object_store import ObjectFacts
from fabric.object_urls import is_object_url, split_url
from fabric.plan.places import Settings

LISTED_AT_ONCE = 1_000
"""Objects that a request lists."""
_HIDDEN = (".", "_")
_COLUMN = re.compile(r"[^.=][^=]*=")
"""How the name of a folder begins that gives a column."""


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """A file; older ones come first. The tag of an object changes with its bytes."""

    mtime_ns: int
    name: str
    n_bytes: int
    tag: str = ""


class Folder:
    """A folder of this machine."""

    is_whole = True
    """Whether the last look was one at everything."""

    def __init__(self, path: str, format: str | None) -> None:
        self._path, self._endings = path, ENDINGS[format] if format else ("",)

    def path_of(self, name: str) -> str:
        """By which the file is read."""
        return os.path.join(self._path, name)

    def names(self, *, whole: bool = False) -> list[str]:
        """The files that are followed; with `whole` all of them, else those new ones may miss that
        a later look finds.

        Raises
        ------
        NotFoundError, StorageError
            There is no such place, or it can't be looked at.
        """
        with reading(self._path, "folder of files"):
            try:
                found = _walked(self._path, "")
                return [name for name in found if name.lower().endswith(self._endings)]
            except FileNotFoundError as error:
                parent = Path(self._path).parent
                todo = f"patterns are not taken here, name the folder: {parent}"
                raise NotFoundError(
                    f"there is no folder {self._path} to follow; "
                    + (todo if has_magic(self._path) else "create it")
                ) from error
            except NotADirectoryError as error:
                raise NotFoundError(
                    f"{self._path} is a file, not a folder to follow; name its folder, "
                    f"{Path(self._path).parent}, or follow this file by itself with grows=True "
                    "(CSV and NDJSON)"
                ) from error

    def listed(self, name: str) -> Found | None:
        """A file that the last look found; None: it was moved away since."""
        return self.now(name)

    def now(self, name: str) -> Found | None:
        """A file as it is now; None: there is none."""
        try:
            facts = os.stat(self.path_of(name))
        except FileNotFoundError:
            return None
        return Found(facts.st_mtime_ns, name, facts.st_size)


class Prefix(Folder):
    """What lies below a prefix of an object store, which `store` is opened with."""

    def __init__(self, path: str, format: str | None, store: Settings) -> None:
        super().__init__(path, format)
        self._store, self._key = store, split_url(path)[1]
        self._found: dict[str, Found] = {}
        self._last, self._n_keys, self._n_short = "", 0, 0
        """The last key, how many there are, and looks since that at everything."""

    def names(self, *, whole: bool = False) -> list[str]:
        """See `Folder.names`."""
        is_first = not self._last
        self.is_whole = whole or is_first or self._n_short >= self._n_keys // LISTED_AT_ONCE
        with reading(self._path, "prefix of files"):
            bucket, _ = object_files.place_of(self._path, self._store)
            listed = bucket.listed(self._key, "" if self.is_whole else self._last)
            if not listed and is_first:
                self._check_is_prefix()
        self._n_keys = len(listed) + (0 if self.is_whole else self._n_keys)
        self._n_short = 0 if self.is_whole else self._n_short + 1
        self._last = max(listed, default="" if self.is_whole else self._last)
        begin = len(self._key) + 1 if self._key else 0
        self._found = {
            key[begin:]: _found(key[begin:], facts)
            for key, facts in listed.items()
            if _is_followed(key[begin:]) and key.lower().endswith(self._endings)
        }
        return list(self._found)

    def listed(self, name: str) -> Found | None:
        """See `Folder.listed`."""
        return self._found.get(name)

    def now(self, name: str) -> Found | None:
        """See `Folder.now`."""
        url = self.path_of(name)
        with suppress(NotFoundError), reading(url, "prefix of files"):
            object_files.look_at([url], self._store)
            return _found(name, object_files.facts(url, self._store))
        return None

    def _check_is_prefix(self) -> None:
        """Nothing lies there yet, or it never will."""
        bucket, key = object_files.place_of(self._path, self._store)
        if key and object_files.is_there(bucket, key):
            raise NotFoundError(
                f"{self._path} is an object, not a prefix to follow; name what its key lies below"
            )
        if has_magic(key):
            raise NotFoundError(
                f"nothing lies below {self._path}; patterns are not taken here, name the prefix"
            )


def followed(path: str, format: str | None = None, store: Settings = ()) -> Folder:
    """The place at a path or URL; without a `format` files of any ending are followed."""
    return Prefix(path, format, store) if is_object_url(path) else Folder(path, format)


def _found(name: str, facts: ObjectFacts) -> Found:
    return Found(round(facts.written_at.timestamp() * 1e9), name, facts.size, facts.e_tag)


def _is_followed(name: str) -> bool:
    """Whether an object lies in the place itself or in folders of columns.

    >>> [_is_followed(name) for name in ("a.csv", "k=1/a.csv", "k/a.csv", "_a.csv", "k=1/.a.csv")]
    [True, True, False, False, False]
    """
    *folders, last = name.split("/")
    return all(map(_COLUMN.match, folders)) and bool(last) and not last.startswith(_HIDDEN)


def _walked(folder: str, below: str) -> Iterator[str]:
    with os.scandir(os.path.join(folder, below)) as entries:
        for entry in entries:
            name = below + entry.name
            if _COLUMN.match(entry.name) and entry.is_dir():
                with suppress(FileNotFoundError):  # moved away since it was listed
                    yield from _walked(folder, name + "/")
            elif not entry.name.startswith(_HIDDEN) and entry.is_file():
                yield name
