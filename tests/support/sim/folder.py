"""A simulated folder tree that forgets what was not synced, for `fabric.checkpoint.files.Files`.

One job: `SimulatedFiles`. The bytes of a file are kept by a `sync` of the file, the names in a
folder by one of the folder. After a crash each name is as it was at the last sync or as any change
since has left it, independently of others, and each file has any beginning of what was not synced.
That is more than any real file system loses. Where to crash, or to be full, is counted in steps.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from typing_extensions import Buffer

from fabric._cython.shuffle.checksum import crc32c
from fabric.checkpoint.files import Files


class Crashed(BaseException):
    """The process is gone; nobody may catch this but the test."""


@dataclass(eq=False, slots=True)
class _File:
    data: bytes = b""
    synced: bytes = b""


@dataclass(eq=False, slots=True)
class _Folder:
    entries: dict[str, _File | _Folder] = field(default_factory=dict)
    past: dict[str, list[_File | _Folder | None]] = field(default_factory=dict)
    """What each name stood for, from the last sync on, before what it stands for now."""

    def put(self, name: str, entry: _File | _Folder | None) -> None:
        """Let a name stand for something else, or nothing."""
        self.past.setdefault(name, []).append(self.entries.get(name))
        if entry is None:
            del self.entries[name]
        else:
            self.entries[name] = entry


class SimulatedFiles(Files):
    """See `Files`. `crash_at` and `full_at` count the steps from 0; None: never."""

    def __init__(self) -> None:
        self._root = _Folder()
        self.n_steps = 0
        self.crash_at: int | None = None
        self.full_at: int | None = None
        self._gone = False

    def crash(self, rng: Random) -> None:
        """The machine stops, and starts again with what the disk kept."""
        _forget(self._root, rng)
        self._gone, self.crash_at, self.full_at = False, None, None

    def make_folder(self, path: Path) -> None:
        """See `Files.make_folder`."""
        self._step(path)
        parent = self._folder(path.parent)
        if path.name not in parent.entries:
            parent.put(path.name, _Folder())

    def write(self, path: Path, data: Buffer) -> None:
        """See `Files.write`."""
        file = _File()
        self._new(path, file)
        self._step(path, grows=True)
        file.data = bytes(data)

    def copy(self, source: Path, to: Path) -> tuple[int, int]:
        """See `Files.copy`."""
        data = self.read(source)
        self.write(to, data)
        return len(data), crc32c(data)

    def link(self, source: Path, to: Path) -> None:
        """See `Files.link`."""
        self._new(to, self._file(source))

    def rename(self, source: Path, to: Path) -> None:
        """See `Files.rename`."""
        self._step(to)
        file = self._file(source)
        self._folder(source.parent).put(source.name, None)
        self._folder(to.parent).put(to.name, file)

    def sync(self, path: Path) -> None:
        """See `Files.sync`."""
        self._step(path)
        entry = self._find(path)
        if isinstance(entry, _File):
            entry.synced = entry.data
        else:
            entry.past.clear()

    def read(self, path: Path) -> bytes:
        """See `Files.read`."""
        return self._file(path).data

    def checksum(self, path: Path) -> tuple[int, int]:
        """See `Files.checksum`."""
        return self.size(path), crc32c(self.read(path))

    def names(self, path: Path) -> list[str]:
        """See `Files.names`."""
        return sorted(self._folder(path).entries)

    def size(self, path: Path) -> int:
        """See `Files.size`."""
        return len(self._file(path).data)

    def n_links(self, path: Path) -> int:
        """See `Files.n_links`."""
        file = self._file(path)
        return sum(each is file for each in _files(self._root))

    def is_same(self, path: Path, other: Path) -> bool:
        """See `Files.is_same`."""
        return self._file(path) is self._file(other)

    @contextmanager
    def locked(self, path: Path) -> Iterator[None]:
        """See `Files.locked`; a process that crashes leaves its file."""
        if path.name not in self.names(path.parent):
            self._new(path, _File())
        yield
        self.remove_file(path)

    def remove_file(self, path: Path) -> None:
        """See `Files.remove_file`."""
        self._step(path)
        self._file(path)
        self._folder(path.parent).put(path.name, None)

    def remove_folder(self, path: Path) -> None:
        """See `Files.remove_folder`."""
        self._step(path)
        if self._folder(path).entries:
            raise OSError(errno.ENOTEMPTY, "not empty", str(path))
        self._folder(path.parent).put(path.name, None)

    def n_files(self) -> int:
        """How many names of files there are."""
        return len(_files(self._root))

    # ---- inside

    def _step(self, path: Path, *, grows: bool = False) -> None:
        if self._gone or self.n_steps == self.crash_at:
            self._gone = True
            raise Crashed
        self.n_steps += 1
        if grows and self.full_at is not None and self.n_steps > self.full_at:
            raise OSError(errno.ENOSPC, "no space left", str(path))

    def _new(self, path: Path, file: _File) -> None:
        self._step(path)
        folder = self._folder(path.parent)
        if path.name in folder.entries:
            raise FileExistsError(errno.EEXIST, "exists", str(path))
        folder.put(path.name, file)

    def _find(self, path: Path) -> _File | _Folder:
        found: _File | _Folder = self._root
        for name in path.parts[1:]:
            if not isinstance(found, _Folder) or name not in found.entries:
                raise FileNotFoundError(errno.ENOENT, "missing", str(path))
            found = found.entries[name]
        return found

    def _file(self, path: Path) -> _File:
        found = self._find(path)
        if not isinstance(found, _File):
            raise IsADirectoryError(errno.EISDIR, "folder", str(path))
        return found

    def _folder(self, path: Path) -> _Folder:
        found = self._find(path)
        if not isinstance(found, _Folder):
            raise NotADirectoryError(errno.ENOTDIR, "file", str(path))
        return found


def _files(folder: _Folder) -> list[_File]:
    """Every file as often as it has names."""
    found = []
    for entry in folder.entries.values():
        found += [entry] if isinstance(entry, _File) else _files(entry)
    return found


def _forget(folder: _Folder, rng: Random) -> None:
    for name, past in sorted(folder.past.items()):
        kept = rng.choice([*past, folder.entries.get(name)])
        folder.entries.pop(name, None)
        if kept is not None:
            folder.entries[name] = kept
    folder.past.clear()
    for _, entry in sorted(folder.entries.items()):
        if isinstance(entry, _Folder):
            _forget(entry, rng)
        elif entry.data != entry.synced:
            n_kept = rng.choice((0, rng.randrange(len(entry.data) + 1), len(entry.data)))
            entry.data = entry.synced = entry.data[:n_kept]
