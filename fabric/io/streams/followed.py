"""The files of a folder as they come, each once and whole.

One job: the cursor of `FollowedFiles`. Files go to a split by their name and are read by age, then
name. A position names the file in work and its next row, and holds 16 characters for each file that
was read and still lies in the folder: move read files away where there are very many.
"""

from __future__ import annotations

import base64
import hashlib
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from fabric.clock import Clock
from fabric.errors import ConfigError, DataError, NotFoundError
from fabric.io.faults import reading
from fabric.io.streams.ordered import FORMATS, Pieces, rows_of_file
from fabric.io.streams.protocol import Later, Unreadable
from fabric.io.streams.reader import Plain, whole
from fabric.plan.sources import FollowedFiles, Split

_HIDDEN = (".", "_")


@dataclass(frozen=True, slots=True, order=True)
class _Found:
    """A file of the folder; older ones come first."""

    mtime_ns: int
    name: str
    n_bytes: int


def check(source: FollowedFiles) -> None:
    """Raise `ConfigError` for numbers, formats and options that mean nothing."""
    if source.format not in FORMATS:
        raise ConfigError(f"there is no format {source.format!r}; use {', '.join(FORMATS)}")
    if source.n_splits < 1:
        raise ConfigError(f"n_splits of followed files must be positive, got {source.n_splits}")
    if source.poll_s <= 0 or source.settle_s < 0:
        raise ConfigError(
            f"followed files need poll_s > 0 and settle_s >= 0, got {source.poll_s} and "
            f"{source.settle_s}"
        )
    if source.until not in ("", "now"):
        raise ConfigError(f'until of followed files is "" or "now", got {source.until!r}')
    known = FORMATS[source.format].OPTIONS
    for name, _ in source.options:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise ConfigError(f"{source.format} files have no option {name!r}; they have: {listed}")
    if source.grows and source.format not in ("csv", "ndjson"):
        raise ConfigError(f"a growing file is csv or ndjson, not {source.format}")
    if source.grows and source.n_splits != 1:
        raise ConfigError(f"a growing file is one split, got n_splits={source.n_splits}")


def first_file(source: FollowedFiles) -> str:
    """Some file to find the schema from; raises `NotFoundError` when there is none yet."""
    if source.grows:
        if os.path.exists(source.path):
            return source.path
    elif names := sorted(_names(source.path)):
        return str(Path(source.path) / names[0])
    raise NotFoundError(
        f"there is no file at {source.path} yet to find columns and types from; give them with "
        "schema="
    )


class FolderCursor(Plain):
    """One split of the folder; see `Cursor`."""

    def __init__(self, source: FollowedFiles, schema: pa.Schema, split: Split, clock: Clock):
        self._source, self._schema, self._clock = source, schema, clock
        self._index = int(split.uri.partition("-")[0])
        self._done: set[str] = set()
        self._queue: list[str] = []
        self._listed_s: float | None = None
        self._left: list[str] | None = None
        self._name, self._n_bytes, self._row = "", 0, 0
        self._pieces: Pieces | None = None
        self._unreadable: list[Unreadable] = []

    def read(self, rows_max: int) -> pa.RecordBatch | Later | None:
        """See `Cursor.read`."""
        while True:
            if not self._name:
                name = self._next_name()
                if not isinstance(name, str):
                    return name
                self._begin_file(name)
            try:
                batch = self._open().next(rows_max)
            except DataError as error:
                if self._source.on_bad == "fail":
                    raise DataError(f"{error.message} (behind row {self._row})") from error
                left_out = Unreadable(self._path, self._row, None, error.message)
                self._unreadable.append(left_out)
                batch = None
            if batch is not None:
                self._row += batch.num_rows
                return batch
            self._end_file()

    def take_unreadable(self) -> list[Unreadable]:
        """Files whose rest is no use."""
        found, self._unreadable = self._unreadable, []
        return found

    def position(self) -> dict[str, Any]:
        """The file in work, and what was read before."""
        position = {"done": sorted(self._done), "file": self._name, "row": self._row}
        if self._name:
            position["bytes"] = self._n_bytes
        if self._source.until:
            position["left"] = self._remaining()
        return position

    def seek(self, position: dict[str, Any]) -> None:
        """See `Cursor.seek`."""
        self._done, self._row = set(position["done"]), whole(position, "row")
        self._name, self._left = position["file"], position.get("left")
        if self._name:
            self._n_bytes = whole(position, "bytes")
            with reading(self._path, self._source.format):
                n_bytes = os.stat(self._path).st_size
            if n_bytes != self._n_bytes:
                raise DataError(
                    f"{self._path} was being read when the checkpoint was taken, and has changed: "
                    f"{n_bytes} bytes where {self._n_bytes} were; put it back as it was"
                )

    def close(self) -> None:
        """Close the file in work."""
        self._pieces = None

    @property
    def _path(self) -> str:
        return str(Path(self._source.path) / self._name)

    def _open(self) -> Pieces:
        if self._pieces is None:
            options = dict(self._source.options)
            batches = rows_of_file(
                self._source.format, self._path, options, self._schema, self._row
            )
            self._pieces = Pieces(batches, self._row)
        return self._pieces

    def _begin_file(self, name: str) -> None:
        self._name, self._row = name, 0
        with reading(self._path, self._source.format):
            self._n_bytes = os.stat(self._path).st_size

    def _next_name(self) -> str | Later | None:
        """The next file, or when to look again; None at the end."""
        if self._source.until:
            left = self._remaining()
            return left.pop(0) if left else None
        while self._queue:
            name = self._queue.pop(0)
            if (Path(self._source.path) / name).exists():  # else moved away since it was listed
                return name
        wait_s = self._look()
        return self._queue.pop(0) if self._queue else Later(wait_s)

    def _remaining(self) -> list[str]:
        """With `until` "now": the files not begun yet, as they were found at the start."""
        if self._left is None:
            self._left = [file.name for file in self._listed(settle_s=0.0)]
        return self._left

    def _look(self) -> float:
        """List the folder if it is time to; returns how long until the next time."""
        now_s = self._clock.monotonic_s()
        if self._listed_s is not None:
            rest_s = self._listed_s + self._source.poll_s - now_s
            if rest_s > 0:
                return rest_s
        self._listed_s = now_s
        files = self._listed(self._source.settle_s)
        self._queue = [file.name for file in files if _digest(file.name) not in self._done]
        return self._source.poll_s

    def _listed(self, settle_s: float) -> list[_Found]:
        """This split's files, oldest first; what is gone is forgotten."""
        before_ns = (self._clock.wall_s() - settle_s) * 1e9 if settle_s else float("inf")
        files, seen = [], set()
        for name in _names(self._source.path):
            if zlib.crc32(name.encode()) % self._source.n_splits != self._index:
                continue
            seen.add(_digest(name))
            try:
                facts = (Path(self._source.path) / name).stat()
            except FileNotFoundError:  # moved away since it was listed
                continue
            if facts.st_mtime_ns <= before_ns:
                files.append(_Found(facts.st_mtime_ns, name, facts.st_size))
        self._done &= seen
        return sorted(files)

    def _end_file(self) -> None:
        self._done.add(_digest(self._name))
        self._name, self._row, self._n_bytes, self._pieces = "", 0, 0, None


def _names(folder: str) -> list[str]:
    with reading(folder, "folder of files"):
        try:
            with os.scandir(folder) as entries:
                return [e.name for e in entries if e.is_file() and not e.name.startswith(_HIDDEN)]
        except FileNotFoundError as error:
            raise NotFoundError(f"there is no folder {folder} to follow; create it") from error


def _digest(name: str) -> str:
    """A name in 16 characters; two of a million names are the same once in 10^17 folders."""
    return base64.urlsafe_b64encode(
        hashlib.blake2b(name.encode(), digest_size=12).digest()
    ).decode()
