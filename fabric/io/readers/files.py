"""The files of a folder as they come, each once and whole.

One job: the cursor of `FollowedFiles`. Files go to a split by their name and are read by age, then
name; names that begin with a dot or underscore, or don't end as the format's do, are left out. Of
the folders in it those named ``column=value`` are followed, too, and give their files columns, as
for tables (see `files/hive`); a file is named by its path from the followed folder on.

A position names the file in work and its next row, and holds some 20 characters for each file that
was read and still lies in the folder: move read files away where there are very many.

Each look compares the lengths of files that were read with what they were then: one that was still
being written is an error, not a silent loss. One that is written over in the same length is not
noticed, nor with `until` one that grows after it was read.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import Any

import pyarrow as pa

from fabric.clock import Clock
from fabric.errors import ConfigError, DataError, NotFoundError
from fabric.io.files import hive
from fabric.io.files.folders import ENDINGS, Listed
from fabric.io.files.options import check_known
from fabric.io.local_files import reading
from fabric.io.readers.ordered_files import FORMATS, Pieces, rows_of_file
from fabric.io.readers.protocol import Cursor, Later, SplitsOf, Unreadable, numbered
from fabric.io.readers.reader import StreamReader, whole
from fabric.io.readers.tail import GrowingCursor
from fabric.io.schemas import checked_schema, texts_for_nulls
from fabric.plan.sources import EMPTY_SCHEMA, FollowedFiles, Split

_HIDDEN = (".", "_")
_COLUMN = re.compile(r"[^.=][^=]*=")
"""How the name of a folder begins that gives a column."""
_DIGEST_LETTERS = 16
_OF_WHOLE_FILES = frozenset(("skip_rows", "n_rows", "comment", "ragged"))


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
    reader = FORMATS[source.format]
    options = check_known("read_stream", reader.OPTIONS, source.options)
    reader.check(options)
    if source.grows and source.format not in ("csv", "ndjson"):
        raise ConfigError(f"a growing file is csv or ndjson, not {source.format}")
    if source.grows and (wrong := sorted(_OF_WHOLE_FILES & options.keys())):
        raise ConfigError(f"a growing file has no option {wrong[0]!r}: it is read piece by piece")
    if source.grows and source.n_splits != 1:
        raise ConfigError(f"a growing file is one split, got n_splits={source.n_splits}")


def stream_schema(source: FollowedFiles) -> pa.Schema:
    """The columns of some file, and of the folders; raises `NotFoundError` without any file."""
    check(source)
    path = first_file(source)
    found = checked_schema(FORMATS[source.format].file_schema(path, dict(source.options)), path)
    found = texts_for_nulls(found) if source.format in ("csv", "ndjson") else found
    columns = {field.name: field.type for field in found}
    outside = {field.name: field.type for field in folder_columns(source)}
    return pa.schema(list((columns | outside).items()))


def enumerate_splits(source: FollowedFiles, splits_of: SplitsOf) -> list[Split]:
    """As many splits as `source.n_splits` says."""
    check(source)
    return numbered(source.n_splits)


def open_reader(source: FollowedFiles, schema: pa.Schema, clock: Clock, *_: object) -> StreamReader:
    """A reader with one cursor per split, or with that of the file that grows."""
    if source.grows:
        return StreamReader("growing", lambda split: GrowingCursor(source, schema), clock)
    return StreamReader("folder", lambda split: FolderCursor(source, schema, split, clock), clock)


def first_file(source: FollowedFiles) -> str:
    """Some file to find the schema from; raises `NotFoundError` when there is none yet."""
    if source.grows:
        if os.path.exists(source.path):
            return source.path
    elif names := sorted(names_in(source.path, source.format)):
        return str(Path(source.path) / names[0])
    what = "file" if source.grows else f"file that ends with {', '.join(ENDINGS[source.format])}"
    raise NotFoundError(
        f"there is no {what} at {source.path} yet to find columns and types from; give them with "
        "schema="
    )


def folder_columns(source: FollowedFiles) -> pa.Schema:
    """The columns that folders give the files there are now, as tables have them."""
    if source.grows:
        return EMPTY_SCHEMA
    names = sorted(names_in(source.path, source.format))
    paths = tuple(str(Path(source.path) / name) for name in names)
    with _said_for_streams("say with schema= which columns to read"):
        return hive.found_columns(Listed(paths, (source.path,) * len(paths)), None)


@contextmanager
def _said_for_streams(todo: str) -> Iterator[None]:
    """What to do about folders is another thing than for tables, which have `hive`."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{error.message.rpartition('; ')[0]}; {todo}") from error


class FolderCursor(Cursor):
    """One split of the folder; see `Cursor`."""

    def __init__(self, source: FollowedFiles, schema: pa.Schema, split: Split, clock: Clock):
        self._source, self._schema, self._clock = source, schema, clock
        self._index = int(split.uri.partition("-")[0])
        self._done: dict[str, int] = {}
        """The length of each file that was read, by its name's digest; -1: unknown."""
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
                behind = f" (behind row {self._row})" if self._source.on_bad == "fail" else ""
                self._leave_out(self._name, self._row, error.message + behind)
                batch = None
            if batch is not None:
                self._row += batch.num_rows
                return batch
            self._end_file()

    def position(self) -> dict[str, Any]:
        """The file in work, and what was read before."""
        done = [digest + (f"{n:x}" if n >= 0 else "") for digest, n in sorted(self._done.items())]
        position = {"done": done, "file": self._name, "row": self._row}
        if self._name:
            position["bytes"] = self._n_bytes
        if self._source.until:
            position["left"] = self._remaining()
        return position

    def seek(self, position: dict[str, Any]) -> None:
        """See `Cursor.seek`."""
        self._done = {
            each[:_DIGEST_LETTERS]: int(each[_DIGEST_LETTERS:] or "-1", 16)
            for each in position["done"]
        }
        self._row = whole(position, "row")
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
        return self._path_of(self._name)

    def _path_of(self, name: str) -> str:
        return os.path.join(self._source.path, name)

    def _open(self) -> Pieces:
        if self._pieces is None:
            if not _is_text(self._name):
                raise DataError(f"the name of {_shown(self._path)} is not UTF-8; rename it")
            self._pieces = Pieces(self._rows(), self._row)
        return self._pieces

    def _rows(self) -> Iterator[pa.RecordBatch]:
        """The rows of the file in work from `_row` on, with the columns of its folders."""
        source, path, schema = self._source, self._path, self._schema
        given = hive.names_of(path, source.path)
        outside = pa.schema([field for field in schema if field.name in given])
        inner, options = schema, dict(source.options)
        if len(outside):
            inner = pa.schema([field for field in schema if field.name not in given])
            if not len(inner):  # its rows must be counted
                inner = pa.schema([FORMATS[source.format].file_schema(path, options).field(0)])
                inner = texts_for_nulls(checked_schema(inner, path))
        with _said_for_streams("give its column another type with schema="):
            values = dict(zip(outside.names, hive.values_of(path, outside), strict=True))
        for batch in rows_of_file(source.format, path, options, inner, self._row):
            columns = dict(zip(inner.names, batch.columns, strict=True))
            for name, value in values.items():
                columns[name] = pa.repeat(value, batch.num_rows)
            ordered = [columns[name] for name in schema.names]
            yield pa.RecordBatch.from_arrays(ordered, schema=schema)

    def _leave_out(self, name: str, offset: int, message: str) -> None:
        if self._source.on_bad == "fail":
            raise DataError(message)
        self._unreadable.append(Unreadable(_shown(self._path_of(name)), offset, None, message))

    def _check_read(self, name: str, n_bytes: int) -> None:
        """A file that was read should be what it was: `n_bytes` long."""
        digest = _digest(name)
        n_read = self._done.get(digest, -1)
        if n_read not in (-1, n_bytes):
            self._leave_out(
                name,
                n_read,
                f"{_shown(self._path_of(name))} had {n_read} bytes when it was "
                f"read and has {n_bytes} now: a file is read once; write it under another name "
                "and rename it when it is whole, or say with settle= how long it must be left "
                "alone; move this one away to go on",
            )
            self._done[digest] = n_bytes

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
            if os.path.exists(self._path_of(name)):  # else moved away since it was listed
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
        for name in names_in(self._source.path, self._source.format):
            if zlib.crc32(_raw(name)) % self._source.n_splits != self._index:
                continue
            seen.add(_digest(name))
            try:
                facts = os.stat(self._path_of(name))
            except FileNotFoundError:  # moved away since it was listed
                continue
            self._check_read(name, facts.st_size)
            if facts.st_mtime_ns <= before_ns:
                files.append(_Found(facts.st_mtime_ns, name, facts.st_size))
        self._done = {digest: n for digest, n in self._done.items() if digest in seen}
        return sorted(files)

    def _end_file(self) -> None:
        self._done[_digest(self._name)] = self._n_bytes
        name, self._pieces = self._name, None
        self._name, self._row, self._n_bytes = "", 0, 0
        if self._source.until:  # it is the last look at this one
            with suppress(FileNotFoundError):
                self._check_read(name, os.stat(self._path_of(name)).st_size)


def names_in(folder: str, format: str | None = None) -> list[str]:
    """The files that are followed, by their paths from `folder` on; None: of any ending."""
    endings = ENDINGS[format] if format else ("",)
    with reading(folder, "folder of files"):
        try:
            return [name for name in _walked(folder, "") if name.lower().endswith(endings)]
        except FileNotFoundError as error:
            parent = Path(folder).parent
            todo = f"patterns are not taken here, name the folder: {parent}"
            raise NotFoundError(
                f"there is no folder {folder} to follow; "
                + (todo if has_magic(folder) else "create it")
            ) from error
        except NotADirectoryError as error:
            raise NotFoundError(
                f"{folder} is a file, not a folder to follow; name its folder, "
                f"{Path(folder).parent}, or follow this file by itself with grows=True (CSV and "
                "NDJSON)"
            ) from error


def _walked(folder: str, below: str) -> Iterator[str]:
    with os.scandir(os.path.join(folder, below)) as entries:
        for entry in entries:
            name = below + entry.name
            if _COLUMN.match(entry.name) and entry.is_dir():
                with suppress(FileNotFoundError):  # moved away since it was listed
                    yield from _walked(folder, name + "/")
            elif not entry.name.startswith(_HIDDEN) and entry.is_file():
                yield name


def _is_text(name: str) -> bool:
    """Whether a name is UTF-8: Python has other bytes as lone surrogates."""
    return name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)


def _raw(name: str) -> bytes:
    return name.encode(errors="surrogateescape")


def _shown(path: str) -> str:
    """A path that can be printed and sent."""
    return _raw(path).decode(errors="backslashreplace")


def _digest(name: str) -> str:
    """A name in 16 characters; two of a million names are the same once in 10^17 folders."""
    return base64.urlsafe_b64encode(hashlib.blake2b(_raw(name), digest_size=12).digest()).decode()
