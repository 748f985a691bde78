"""A snapshot of which some keys are read again and again, while its job goes on.

    a file ─► held in a folder of ours ─► mapped, opened or indexed once ─► rows of some keys

One job: `OpenedSnapshot`, and what is asked of one: `Keys`, found by their groups (`ByGroup`) or
hashes. Files are held when they are first needed, by hard links where there are any, so that a
checkpoint may be removed while it is read. What never changes is taken over from the snapshot
before: of a checkpoint every few seconds only the new files are opened.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.kernels.hash import hash_columns
from fabric.errors import InternalError, StorageError
from fabric.state.backend import SnapshotReader

HASH_SHIFT = 49
"""A key's group is the upper 15 bits of its hash."""
Hashes = NDArray[np.uint64]
Groups = NDArray[np.uint16]
Asked = tuple[str, bytes]
"""A state, and keys as Arrow IPC."""
ANSWERS_BYTES = 1 << 20
_ANSWER_BYTES = 256
"""What an answer without rows takes."""


class Sized(Protocol):
    """What is made of a file, and takes memory."""

    @property
    def nbytes(self) -> int:
        """Memory in use, about."""


T = TypeVar("T")
S = TypeVar("S", bound=Sized)


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """Keys that are asked for, each once.

    >>> keys = Keys.of(pa.record_batch({"k": [7, 8]}))
    >>> len(keys.hashes), keys.groups.dtype, bool((keys.hashes[:-1] < keys.hashes[1:]).all())
    (2, dtype('uint16'), True)
    """

    columns: pa.RecordBatch
    hashes: Hashes
    """Rising."""
    groups: Groups
    """The key groups that they are in, rising."""

    @classmethod
    def of(cls, columns: pa.RecordBatch) -> Keys:
        """The keys in the rows of `columns`, which are distinct."""
        hashes = np.unique(hash_columns(columns.columns))
        groups = group_of(hashes)
        return cls(columns, hashes, groups[np.diff(groups, prepend=-1) != 0])


Wanted = range | Keys
"""What is read of a snapshot: all of some key groups, or these keys, maybe with others beside."""


def group_of(hashes: Hashes) -> Groups:
    """The key group of each hash: its upper 15 bits."""
    return (hashes >> np.uint64(HASH_SHIFT)).astype(np.uint16)


class ByGroup:
    """Where the rows of each key group are among rows in any order.

    >>> at = ByGroup(np.array([3, 1, 3, 2], np.uint16))
    >>> at.rows(np.array([0, 3], np.uint16)).tolist()
    [0, 2]
    """

    def __init__(self, groups: Groups) -> None:
        order = np.argsort(groups, kind="stable")  # of 16 bits: a radix sort
        self._groups, self._order = groups[order], order.astype(np.uint32)

    def rows(self, groups: Groups) -> NDArray[np.uint32]:
        """The rows of these groups, one group's after the other's, each in their order."""
        begins = np.searchsorted(self._groups, groups, "left")
        counts = np.searchsorted(self._groups, groups, "right") - begins
        before = np.cumsum(counts) - counts
        at = np.repeat(begins - before, counts) + np.arange(counts.sum())
        found: NDArray[np.uint32] = self._order[at]
        return found

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return int(self._groups.nbytes + self._order.nbytes)


class IndexedRows:
    """Rows of a file that stay where they are mapped, found by their key groups."""

    def __init__(
        self,
        schema: pa.Schema,
        batches: Sequence[pa.RecordBatch],
        groups: Callable[[pa.RecordBatch], Groups],
    ) -> None:
        self._schema = schema
        self._parts = [(rows, ByGroup(groups(rows))) for rows in batches]

    def of(self, keys: Keys) -> pa.Table:
        """All rows in the key groups of `keys`."""
        some = [rows.take(pa.array(at.rows(keys.groups))) for rows, at in self._parts]
        return pa.Table.from_batches(some, self._schema)

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return sum(at.nbytes for _, at in self._parts)


class _File:
    """A file of a snapshot, held as long as some snapshot has it, and what was made of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.made: Sized | None = None
        weakref.finalize(self, path.unlink, missing_ok=True)


class _Held:
    """The files of a snapshot that were needed so far, and what was made of all of it."""

    def __init__(self, reader: SnapshotReader, folder: Path, contents: Mapping[str, str]) -> None:
        self.reader, self.contents = reader, contents
        self.names = reader.names()
        self.lock = threading.RLock()
        self.files: dict[str, _File] = {}
        self.once: dict[str, Any] = {}
        self.answers: dict[Asked, list[pa.RecordBatch]] = {}
        self.answers_bytes = 0
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.folder = Path(tempfile.mkdtemp(prefix="snapshot-", dir=folder))
        except OSError as error:
            raise StorageError(f"{folder} can't hold a snapshot: {error.strerror}") from error
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def remember(self, asked: Asked, rows: list[pa.RecordBatch]) -> None:
        """Keep an answer beside those that were asked for last."""
        self.forget(asked)
        self.answers[asked] = rows
        self.answers_bytes += _bytes_of(asked, rows)
        while self.answers_bytes > ANSWERS_BYTES:
            self.forget(next(iter(self.answers)))

    def forget(self, asked: Asked) -> list[pa.RecordBatch] | None:
        """The answer that is not kept any more, if there was one."""
        rows = self.answers.pop(asked, None)
        if rows is not None:
            self.answers_bytes -= _bytes_of(asked, rows)
        return rows

    def file(self, name: str, *, fixed: bool) -> _File:
        """A file, held from now on."""
        if name not in self.files:
            path = self.folder.with_name(f"file-{secrets.token_hex(8)}")
            self.reader.fetch(name, path, fixed=fixed)
            self.files[name] = _File(path)
        return self.files[name]


@dataclass(frozen=True, slots=True)
class OpenedSnapshot:
    """See `SnapshotReader`; any thread. What it holds goes when nobody refers to it any more.

    Made by `opened`.
    """

    _held: _Held
    _prefix: str = ""

    def part(self, name: str) -> OpenedSnapshot:
        """One of the parts that it was joined of."""
        return OpenedSnapshot(self._held, f"{self._prefix}{name}.")

    @property
    def key_groups(self) -> range:
        """See `SnapshotReader.key_groups`."""
        return self._held.reader.key_groups

    def names(self) -> list[str]:
        """See `SnapshotReader.names`."""
        front = self._prefix
        return [name.removeprefix(front) for name in self._held.names if name.startswith(front)]

    def read(self, name: str) -> pa.Buffer:
        """See `SnapshotReader.read`; facts, which are small, are read once."""
        whole = self._prefix + name
        if not name.endswith(".json"):
            return self._held.reader.read(whole)
        return self.once(name, lambda: self._held.reader.read(whole))

    def fetch(self, name: str, to: Path, *, fixed: bool = False) -> None:
        """See `SnapshotReader.fetch`; what never changes is linked to what is held already."""
        whole = self._prefix + name
        if whole in self._held.contents:
            with self._held.lock:
                held = self._held.file(whole, fixed=fixed)
            with suppress(OSError):  # as it may have too many names
                os.link(held.path, to)
                return
        self._held.reader.fetch(whole, to, fixed=fixed)

    def of_file(self, name: str, make: Callable[[Path], S], *, is_checked: bool = False) -> S:
        """What `make` makes of a file, once for this and all snapshots after it that have the file.

        Its bytes were compared with what was stored, unless `make` does so with those that it needs
        (`is_checked`). Nobody else gets something else made of it.
        """
        with self._held.lock:
            held = self._held.file(self._prefix + name, fixed=not is_checked)
            if held.made is None:
                held.made = make(held.path)
            return cast(S, held.made)

    def once(self, what: str, make: Callable[[], T]) -> T:
        """What `make` makes of this snapshot, once for each name `what`."""
        whole = self._prefix + what
        with self._held.lock:
            if whole not in self._held.once:
                self._held.once[whole] = make()
            return cast(T, self._held.once[whole])

    def answer(
        self, asked: Asked, find: Callable[[], Iterable[pa.RecordBatch]]
    ) -> list[pa.RecordBatch]:
        """The rows that `find` gives, of the keys of a state; the last answers are remembered.

        Many who read keys poll the same ones, and in a checkpoint they stay what they are.
        """
        with self._held.lock:
            rows = self._held.forget(asked)
        if rows is None:
            rows = list(find())
        with self._held.lock:
            self._held.remember(asked, rows)
        return rows

    def folder(self, name: str) -> Path:
        """A folder that goes when the snapshot does; it is not there yet."""
        return self._held.folder / f"{self._prefix}{name}"

    @property
    def nbytes(self) -> int:
        """Memory in use, about; databases count theirs themselves."""
        with self._held.lock:
            made = [each.made for each in self._held.files.values()]
            answers = self._held.answers_bytes
        return answers + sum(each.nbytes for each in made if each is not None)


def opened(
    reader: SnapshotReader,
    folder: Path,
    contents: Mapping[str, str] | None = None,
    before: OpenedSnapshot | None = None,
) -> OpenedSnapshot:
    """A snapshot, to be read again and again.

    Parameters
    ----------
    folder
        For files of all opened snapshots, on the file system of the checkpoints if they are to be
        linked; it is made when it is not there.
    contents
        What its files are known by, of those that never change.
    before
        An earlier snapshot: what it holds of files that both have is taken over.
    """
    held = _Held(reader, folder, contents or {})
    if before is not None:
        ours = {content: name for name, content in held.contents.items()}
        with before._held.lock:
            for name, file in before._held.files.items():
                if own := ours.get(before._held.contents.get(name, "")):
                    held.files[own] = file
    return OpenedSnapshot(held)


def _bytes_of(asked: Asked, rows: list[pa.RecordBatch]) -> int:
    return _ANSWER_BYTES + len(asked[1]) + sum(int(each.get_total_buffer_size()) for each in rows)


def mapped(path: Path) -> pa.Buffer:
    """The bytes of a file that is not changed, where they lie."""
    try:
        with pa.memory_map(os.fspath(path)) as file:
            return file.read_buffer()
    except OSError as error:
        raise StorageError(f"{path} can't be read: {error}") from error


def as_opened(snapshot: SnapshotReader) -> OpenedSnapshot:
    """One in which keys are looked up."""
    if not isinstance(snapshot, OpenedSnapshot):
        raise InternalError("keys are looked up in a snapshot that was opened for that")
    return snapshot
