"""One generation of the column store ``tonbo``: a Tonbo database in a folder of its own.

One job: `Generation`. It knows which hashes it may have (`_Filter`), and which rows were deleted or
have expired (`_Gone`). Tonbo is told of neither: it never takes a row out of its files, and a scan
passes each of its tombstones, too. Rows that are gone are left out where rows are read. A `Pin`
keeps the rows of a generation at one moment, for a snapshot.
"""

from __future__ import annotations

import shutil
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from fabric_tonbo import Store, StoreError
from numpy.typing import NDArray

from fabric._cython.kernels.lookup import add_to_filter, in_filter
from fabric.errors import StorageError
from fabric.state.column_stores.contract import (
    ALL_HASHES,
    ALL_TIMES,
    Hashes,
    Order,
    Span,
    Times,
)
from fabric.state.column_stores.run_index import FILTER_BITS, SHIFT
from fabric.state.column_stores.scans import Run, in_span
from fabric.state.column_stores.tonbo_rows import KEY, U64, Coding, Piece

PUT_ROWS = 1 << 13
"""Rows that are put at once."""
SEAL_BATCHES = 16
"""So many puts become a file; each file, and what is in none, costs memory where rows are read."""
LOOKED_UP = 40_000
"""Looking one key up costs about as much as scanning so many rows."""
_ALL = 1 << 64
_FREE = 1 << 20
"""With fewer bytes a disk is full: a batch and what Tonbo writes beside it need more."""


@dataclass(frozen=True, slots=True)
class _Gone:
    """Rows that were deleted or have expired. A change makes a new one, for scans keep theirs."""

    dead: NDArray[np.bool_]
    """Of each number that a row may have, whether that row was deleted."""
    expired: tuple[tuple[int, int], ...] = ()
    """Rows with a number below one and a time before another, for each of these pairs."""

    def among(self, piece: Piece, order: Order) -> NDArray[np.bool_]:
        """Which rows of a piece are gone."""
        gone = self.dead[piece.numbers]
        for number, before in self.expired:
            gone |= (piece.times(order) < before) & (piece.numbers < np.uint64(number))
        return gone


class Generation:
    """One Tonbo database; its folder goes when nobody refers to it any more, such as a scan."""

    def __init__(self, path: Path, coding: Coding, order: Order) -> None:
        self._path, self._coding, self._order = path, coding, order
        self.n_rows = self.n_dead = 0
        """Those that have expired among them, while the others of a generation are here."""
        self.most = ALL_TIMES[0]
        """No row has a later time."""
        self.pin: Pin | None = None
        """The rows as they are, if a snapshot has them."""
        self.floor = ALL_TIMES[0]
        """Rows of the pin with earlier times have expired since."""
        self._n_put = 0
        """Rows that were put: the number of the next one."""
        self._gone = _Gone(np.zeros(PUT_ROWS, np.bool_))
        self._filter = _Filter() if order == "hash" else None
        self._store = _opened(path, coding)
        weakref.finalize(self, _removed, self._store, path)

    def put(self, hashes: Hashes, times: Times, rows: pa.RecordBatch) -> None:
        """Add rows; after an error none of them is there."""
        first = self._numbered(hashes, times)
        parts = (
            self._coding.encoded(hashes[some], times[some], rows[some], first + some.start)
            for some in _parts(len(hashes))
        )
        try:
            self._put_parts(parts)
        except BaseException:
            self._mark_dead(np.arange(first, self._n_put))
            raise

    def put_again(self, piece: Piece) -> None:
        """Add rows of another generation, in its order."""
        first = self._numbered(piece.hashes(self._order), piece.times(self._order))
        rows = piece.numbered(first)
        self._put_parts(rows[some] for some in _parts(len(rows)))

    def _put_parts(self, parts: Iterator[pa.RecordBatch]) -> None:
        """They count when all of them were put."""
        n_rows = 0
        for part in parts:
            with _told(self._path):
                self._store.put(part)
            n_rows += len(part)
        self.n_rows += n_rows

    def _numbered(self, hashes: Hashes, times: Times) -> int:
        """The number of the first of these rows, which are to be put."""
        self.pin = None
        first, self._n_put = self._n_put, self._n_put + len(hashes)
        dead = self._gone.dead
        if self._n_put > len(dead):
            more = np.zeros(2 * self._n_put - len(dead), np.bool_)
            self._gone = replace(self._gone, dead=np.concatenate([dead, more]))
        if len(times):
            self.most = max(self.most, int(times.max()))
        if self._filter is not None:
            self._filter.add(hashes)
        return first

    def expire(self, before: int) -> None:
        """Hide rows with earlier times that were put until now."""
        later = [each for each in self._gone.expired if each[1] > before]
        self._gone = replace(self._gone, expired=(*later, (self._n_put, before)))
        self.floor = max(self.floor, before)

    def delete(self, numbers: U64) -> None:
        """Remove the rows with these numbers."""
        if len(numbers):
            self.pin = None
            self._mark_dead(numbers)
            self.n_rows -= len(numbers)
            self.n_dead += len(numbers)

    def _mark_dead(self, numbers: NDArray[Any]) -> None:
        dead = self._gone.dead.copy()
        dead[numbers] = True
        self._gone = replace(self._gone, dead=dead)

    def may_have(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Which of these hashes some row may have."""
        return np.ones(len(hashes), np.bool_) if self._filter is None else self._filter.has(hashes)

    def read(
        self,
        *,
        times: Span = ALL_TIMES,
        among: Hashes | None = None,
        keys_only: bool = False,
    ) -> Iterator[Piece]:
        """Rows as they are now, in order; only those with hashes `among` (sorted)."""
        hashes, shifted = ALL_HASHES, (times[0] + SHIFT, times[1] + SHIFT)
        if among is not None:
            if not len(among):
                return iter(())
            hashes = int(among[0]), int(among[-1]) + 1
        major, minor = (hashes, shifted) if self._order == "hash" else (shifted, hashes)
        spans = [major]
        if self._order == "hash" and among is not None and len(among) * LOOKED_UP < self.n_rows:
            spans = [(h, h + 1) for h in among.tolist()]
        names = [KEY] if keys_only else None
        with _told(self._path):
            readers = [self._store.scan(*_bounds(each), columns=names) for each in spans]
        return self._pieces(readers, major, minor, among, self._gone)

    def _pieces(
        self,
        readers: list[pa.RecordBatchReader],
        major: Span,
        minor: Span,
        among: Hashes | None,
        gone: _Gone,
    ) -> Iterator[Piece]:
        for reader in readers:
            while (rows := self._next(reader)) is not None:
                piece = self._coding.piece(rows)
                keep = ~gone.among(piece, self._order)
                keep &= in_span(piece.major, major) & in_span(piece.minor, minor)
                if among is not None:
                    keep &= np.isin(piece.hashes(self._order), among)
                if keep.any():
                    yield piece.kept(keep)

    def _next(self, reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
        with _told(self._path):
            return next(reader, None)

    def file_sizes(self) -> list[int]:
        """Of all its files."""
        sizes = []
        for path in self._path.rglob("*"):
            with suppress(OSError):  # a log that is no longer needed goes at any moment
                if path.is_file():
                    sizes.append(path.stat().st_size)
        return sizes


class _Filter:
    """Hashes that were put, in tables of growing size with a few bits a hash."""

    def __init__(self) -> None:
        self._tables: list[NDArray[np.uint8]] = []
        self._room = 0

    def add(self, hashes: Hashes) -> None:
        """More of them."""
        if self._room < len(hashes):
            n = max(len(hashes), 4_096, 2 * len(self._tables[-1]) if self._tables else 0)
            self._tables.append(np.zeros(n * FILTER_BITS // 8, np.uint8))
            self._room = n
        self._room -= len(hashes)
        add_to_filter(self._tables[-1], hashes)

    def has(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Which of these may have been put."""
        found = np.zeros(len(hashes), np.bool_)
        for table in self._tables:
            found |= in_filter(table, hashes)
        return found


def _parts(n_rows: int) -> Iterator[slice]:
    """The rows that are put at once."""
    return (slice(begin, min(begin + PUT_ROWS, n_rows)) for begin in range(0, n_rows, PUT_ROWS))


def _bounds(major: Span) -> tuple[bytes | None, bytes | None]:
    """The first key of a span and the first one behind it; None where there are no others."""
    if major[0] >= major[1]:
        return b"", b""
    begin = max(0, major[0])
    end = major[1].to_bytes(8, "big") if major[1] < _ALL else None
    return begin.to_bytes(8, "big") if begin else None, end


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Errors of the store at `path` as ours."""
    try:
        yield
    except (StoreError, pa.ArrowException) as error:
        text = str(error).removeprefix("Compute error: ")
        with suppress(OSError):  # the writer of its log does not always say why it gave up
            if shutil.disk_usage(path.parent).free < _FREE and "No space left" not in text:
                text += ": No space left on device"
        raise StorageError(f"{text}; the job goes on from its last checkpoint") from error


def _opened(path: Path, coding: Coding) -> Store:
    """A new store; no log is synced, for after a crash a task goes back to its checkpoint."""
    try:
        with _told(path):
            return Store.open(path, coding.stored, "key", sync=False, seal_batches=SEAL_BATCHES)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def _removed(store: Store, path: Path) -> None:
    store.close(note=False)
    shutil.rmtree(path, ignore_errors=True)


class Pin:
    """Runs with the rows of a generation at one moment, made of `pieces` when first asked for."""

    def __init__(
        self, pieces: Iterator[Piece], runs_of: Callable[[Iterator[Piece]], tuple[Run, ...]]
    ) -> None:
        self._lock = threading.Lock()
        self._runs: tuple[Run, ...] | None = None
        self._left: Callable[[], tuple[Run, ...]] | None = partial(runs_of, pieces)
        self.failed = False
        """The runs could not be made, and what they are made of is gone."""

    @classmethod
    def of(cls, runs: tuple[Run, ...]) -> Pin:
        """Of runs that are there."""
        pin = cls.__new__(cls)
        pin._lock, pin._runs, pin._left, pin.failed = threading.Lock(), runs, None, False
        return pin

    def runs(self) -> tuple[Run, ...]:
        """In any thread."""
        with self._lock:
            if self._runs is None:
                if self._left is None:
                    raise StorageError("the rows of a snapshot could not be written before")
                make, self._left, self.failed = self._left, None, True
                self._runs = make()
                self.failed = False
            return self._runs
