"""The files of a folder, or below a prefix of an object store, as they come, each once and whole.

One job: the cursor of `FollowedFiles`. Files go to a split by their name and are read by age, then
name; which are followed is said by `followed`. Folders named ``column=value`` give their files
columns, as for tables (see `files/hive`); a file is named by its path from the followed folder on.

A position names the file in work and its next row, and holds some 20 characters for each file that
was read and still lies in the folder: move read files away where there are very many.

Each look compares the lengths of files that were read with what they were then: one that was still
being written is an error, not a silent loss. One that is written over in the same length is not
noticed, nor with `until` one that grows after it was read. An object that is replaced while it is
read, or while the stream is stopped amid it, is always an error: its tag tells.
"""

from __future__ import annotations

import base64
import hashlib
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from fabric.clock import Clock
from fabric.errors import ConfigError, DataError, NotFoundError
from fabric.io.files import hive, with_store
from fabric.io.files.folders import ENDINGS, Listed
from fabric.io.files.options import check_known
from fabric.io.local_files import reading
from fabric.io.object_options import check_reach
from fabric.io.readers.followed import Folder, Found, followed
from fabric.io.readers.ordered_files import FORMATS, Pieces, rows_of_file
from fabric.io.readers.protocol import Cursor, Later, SplitsOf, Unreadable, numbered
from fabric.io.readers.reader import StreamReader, whole
from fabric.io.readers.tail import GrowingCursor
from fabric.io.schemas import checked_schema, texts_for_nulls
from fabric.object_urls import is_object_url
from fabric.plan.sources import EMPTY_SCHEMA, FollowedFiles, Split

_DIGEST_LETTERS = 16
_OF_WHOLE_FILES = frozenset(("skip_rows", "n_rows", "comment", "ragged"))


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
    check_reach(source, [source.path])
    if source.grows and is_object_url(source.path):
        raise ConfigError(
            f"an object never grows, so {source.path} can't be followed with grows=True; follow "
            "the prefix that new objects are written below"
        )
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
    options = with_store(source.options, source)
    found = checked_schema(FORMATS[source.format].file_schema(path, options), path)
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
    elif names := sorted((place := _place(source)).names(whole=True)):
        return place.path_of(names[0])
    what = "file" if source.grows else f"file that ends with {', '.join(ENDINGS[source.format])}"
    raise NotFoundError(
        f"there is no {what} at {source.path} yet to find columns and types from; give them with "
        "schema="
    )


def folder_columns(source: FollowedFiles) -> pa.Schema:
    """The columns that folders give the files there are now, as tables have them."""
    if source.grows:
        return EMPTY_SCHEMA
    place = _place(source)
    paths = tuple(map(place.path_of, sorted(place.names(whole=True))))
    with _said_for_streams("say with schema= which columns to read"):
        return hive.found_columns(Listed(paths, (source.path,) * len(paths)), None)


def _place(source: FollowedFiles) -> Folder:
    return followed(source.path, source.format, source.store)


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
        self._place = _place(source)
        self._index = int(split.uri.partition("-")[0])
        self._done: dict[str, int] = {}
        """The length of each file that was read, by its name's digest; -1: unknown."""
        self._queue: list[str] = []
        self._listed_s: float | None = None
        self._left: list[str] | None = None
        self._name, self._n_bytes, self._row = "", 0, 0
        self._tag = ""
        """Of the object in work."""
        self._pieces: Pieces | None = None
        self._unreadable: list[Unreadable] = []

    def read(self, rows_max: int) -> pa.RecordBatch | Later | None:
        """See `Cursor.read`."""
        while True:
            if not self._name:
                found = self._next_file()
                if not isinstance(found, Found):
                    return found
                self._name, self._n_bytes, self._tag, self._row = (
                    found.name, found.n_bytes, found.tag, 0,
                )  # fmt: skip
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
            if self._tag:
                position["tag"] = self._tag
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
            self._n_bytes, self._tag = whole(position, "bytes"), position.get("tag", "")
            now = self._now(self._name)
            if (now.n_bytes, now.tag if self._tag else "") != (self._n_bytes, self._tag):
                what = "it is another object, as long"
                if now.n_bytes != self._n_bytes:
                    what = f"{now.n_bytes} bytes where {self._n_bytes} were"
                raise DataError(
                    f"{self._path} was being read when the checkpoint was taken, and has changed: "
                    f"{what}; put it back as it was"
                )

    def close(self) -> None:
        """Close the file in work."""
        self._pieces = None

    @property
    def _path(self) -> str:
        return self._path_of(self._name)

    def _path_of(self, name: str) -> str:
        return self._place.path_of(name)

    def _now(self, name: str) -> Found:
        """A file that has to be there."""
        path = self._path_of(name)
        with reading(path, self._source.format):
            if (found := self._place.now(name)) is None:
                raise FileNotFoundError(path)
        return found

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
        inner, options = schema, with_store(source.options, source)
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

    def _next_file(self) -> Found | Later | None:
        """The next file, or when to look again; None at the end."""
        if self._source.until:
            left = self._remaining()
            return self._now(left.pop(0)) if left else None
        while True:
            while self._queue:
                found = self._place.now(self._queue.pop(0))
                if found is not None:  # else moved away since it was listed
                    return found
            wait_s = self._look()
            if not self._queue:
                return Later(wait_s)

    def _remaining(self) -> list[str]:
        """With `until` "now": the files not begun yet, as they were found at the start, but for
        those that were read before it was given."""
        if self._left is None:
            self._left = [file.name for file in self._listed(0.0) if not self._is_done(file.name)]
        return self._left

    def _is_done(self, name: str) -> bool:
        """Whether a file was read, or is in work."""
        return _digest(name) in self._done or name == self._name

    def _look(self) -> float:
        """List the folder if it is time to; returns how long until the next time."""
        now_s = self._clock.monotonic_s()
        if self._listed_s is not None:
            rest_s = self._listed_s + self._source.poll_s - now_s
            if rest_s > 0:
                return rest_s
        self._listed_s = now_s
        files = self._listed(self._source.settle_s)
        self._queue = [file.name for file in files if not self._is_done(file.name)]
        return self._source.poll_s

    def _listed(self, settle_s: float) -> list[Found]:
        """This split's files, oldest first; what is gone is forgotten."""
        before_ns = (self._clock.wall_s() - settle_s) * 1e9 if settle_s else float("inf")
        files, seen = [], set()
        for name in self._place.names():
            if zlib.crc32(_raw(name)) % self._source.n_splits != self._index:
                continue
            seen.add(_digest(name))
            if (found := self._place.listed(name)) is None:
                continue
            self._check_read(name, found.n_bytes)
            if found.mtime_ns <= before_ns:
                files.append(found)
        if self._place.is_whole:
            self._done = {digest: n for digest, n in self._done.items() if digest in seen}
        return sorted(files)

    def _end_file(self) -> None:
        self._done[_digest(self._name)] = self._n_bytes
        name, tag, row = self._name, self._tag, self._row
        self._name, self._tag, self._row, self._n_bytes, self._pieces = "", "", 0, 0, None
        if not (tag or self._source.until):
            return
        if (now := self._place.now(name)) is None:
            return
        if tag and now.tag != tag:
            path = self._path_of(name)
            self._leave_out(name, row, f"{path} was replaced while it was read; read it again")
        elif self._source.until:  # it is the last look at this one
            self._check_read(name, now.n_bytes)


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
