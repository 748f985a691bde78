"""The column store ``tonbo``: a Tonbo database a generation, each in a folder of its own.

    put ─► generation 0: memtable ─► sorted files        snapshot ─► run file, as `arrow` has
    put ─► generation 1: memtable ─► sorted files

One job: `TonboStore`. It comes from the wheel `flight-fabric-tonbo` (``fabric/_rust``), which has
guards for what is wrong with Tonbo. That deletes nothing from files, so a generation with more dead
rows than live ones is written anew. Checkpoints hold runs, so any engine restores any other's.
"""

from __future__ import annotations

import itertools
import shutil
import threading
import uuid
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from fabric_tonbo import Store, StoreError
from numpy.typing import NDArray

from fabric.errors import DataError, StorageError
from fabric.state.backend import SnapshotReader, SnapshotWriter
from fabric.state.column_stores import scans
from fabric.state.column_stores.contract import (
    ALL_HASHES,
    ALL_TIMES,
    ColumnStore,
    Found,
    Hashes,
    Order,
    Span,
    Stored,
    Times,
)
from fabric.state.column_stores.run_files import SHIFT, Folder, filter_bits, stored_schema
from fabric.state.column_stores.runs import RunSnapshot, RunStore, columns_of
from fabric.state.column_stores.scans import Run, in_span
from fabric.state.column_stores.tonbo_rows import Coding, Piece, joined, keys

PUT_ROWS = 1 << 13
"""Rows that are put at once; Tonbo counts batches when it decides what to write to a file."""
SEAL_BATCHES = 16
DEAD_ROWS = 1 << 16
"""Fewer dead rows than these are never a reason to write a generation anew."""
LOOKED_UP = 40_000
"""Looking one key up costs about as much as scanning so many rows."""
_FILTER_BITS = 12
_ALL = 1 << 64
_FREE = 1 << 20
"""With fewer bytes a disk is full: a batch and what Tonbo writes beside it need more."""


class TonboStore(ColumnStore):
    """See `ColumnStore`."""

    def __init__(self, schema: pa.Schema, folder: Path, *, order: Order = "hash") -> None:
        self.schema, self.order = schema, order
        self._coding = Coding(schema, order)
        self._path, self._folder = folder, Folder(folder)
        self._runs = Folder(folder / "runs")
        self._maker, self._n_made = uuid.uuid4().hex[:12], itertools.count(1)
        self._n_folders, self._number = itertools.count(1), 0
        self._generations: dict[int, _Generation] = {}
        self._bytes_written = self._n_merges = 0

    # ---- changes

    def put(
        self,
        generation: int,
        hashes: Hashes,
        times: Times,
        rows: pa.RecordBatch,
        *,
        replaces: bool = False,
    ) -> None:
        """See `ColumnStore.put`."""
        if not rows.schema.equals(self.schema):
            raise DataError(
                f"the store has the columns {columns_of(self.schema)}, "
                f"got {columns_of(rows.schema)}"
            )
        if not len(hashes):
            return
        there = self._generations.get(generation)
        into = there or self._made()
        first, self._number = self._number, self._number + len(hashes)
        try:
            for begin in range(0, len(hashes), PUT_ROWS):
                some = slice(begin, min(begin + PUT_ROWS, len(hashes)))
                part = rows.slice(begin, some.stop - begin)
                into.put(self._coding.encoded(hashes[some], times[some], part, first + begin))
                self._bytes_written += part.nbytes + 24 * len(part)
            if replaces and there:
                self._delete(there, self._positions(there, hashes, times, below=first))
        except BaseException:
            into.forget(first, self._number)
            raise
        into.added(hashes, times)
        self._generations[generation] = into
        self._shrink(generation)

    def remove(self, generation: int, hashes: Hashes, times: Times) -> None:
        """See `ColumnStore.remove`."""
        if there := self._generations.get(generation):
            self._delete(there, self._positions(there, hashes, times))
            self._shrink(generation)

    def take(self, hashes: Hashes) -> list[Found]:
        """See `ColumnStore.take`."""
        found = dict[int, Piece]()
        for number, each in sorted(self._generations.items()):
            maybe = np.unique(hashes)
            if len(maybe := maybe[each.may_have(maybe)]):
                pieces = list(each.read(self.order, among=maybe))
                if pieces:
                    found[number] = joined(pieces)
        for number, piece in found.items():
            self._delete(self._generations[number], piece)
            self._shrink(number)
        return [self._coding.found(piece, self.schema.names) for piece in found.values()]

    def drop(self, generation: int) -> None:
        """See `ColumnStore.drop`."""
        if there := self._generations.pop(generation, None):
            there.pin = None

    def expire(self, before: int) -> None:
        """See `ColumnStore.expire`."""
        for number, each in list(self._generations.items()):
            if each.most < before:
                self.drop(number)
            else:
                each.expire(before, self._number)

    def _positions(
        self, there: _Generation, hashes: Hashes, times: Times, below: int = _ALL
    ) -> Piece | None:
        """The rows with these hashes and times that were put before number `below`."""
        wanted = np.unique(hashes)
        wanted = wanted[there.may_have(wanted)]
        if not len(wanted):
            return None
        pairs, pieces = _pairs(hashes, times), list[Piece]()
        for piece in there.read(self.order, among=wanted, columns=[]):
            keep = np.isin(_pairs(piece.hashes(self.order), piece.times(self.order)), pairs)
            keep &= piece.numbers <= np.uint64(below - 1)
            pieces.append(piece.kept(keep))
        return joined(pieces) if pieces else None

    def _delete(self, there: _Generation, piece: Piece | None) -> None:
        if piece is not None and len(piece.major):
            there.delete(piece)

    def _shrink(self, generation: int) -> None:
        """Drop a generation that is empty; write one anew that has too many dead rows."""
        there = self._generations[generation]
        if not there.n_rows:
            self.drop(generation)
        elif there.n_dead > max(there.n_rows, DEAD_ROWS):
            anew = self._made()
            for piece in there.read(self.order):
                for begin in range(0, len(piece.major), PUT_ROWS):
                    part = piece.slice(begin, min(begin + PUT_ROWS, len(piece.major)))
                    anew.put(part.rows)
                    self._bytes_written += part.rows.nbytes
                anew.added(piece.hashes(self.order), piece.times(self.order))
            self.drop(generation)
            self._n_merges += 1
            if anew.n_rows:  # all others may have expired
                self._generations[generation] = anew

    def _made(self) -> _Generation:
        path = self._path / f"tonbo-{next(self._n_folders)}"
        return _Generation(path, self._coding, self.order)

    # ---- questions

    def scan(
        self,
        generations: Collection[int] | None = None,
        *,
        hashes: Span = ALL_HASHES,
        times: Span = ALL_TIMES,
        among: Hashes | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[Found]:
        """See `ColumnStore.scan`."""
        asked = self._generations.keys() if generations is None else set(generations)
        names = self.schema.names if columns is None else list(columns)
        if among is not None:
            among = np.unique(among)
        streams = [
            self._generations[number].read(
                self.order, hashes=hashes, times=times, among=among, columns=names
            )
            for number in sorted(self._generations.keys() & asked)
        ]
        return (self._coding.found(piece, names) for piece in _merged(streams))

    def may_have(self, hashes: Hashes) -> NDArray[np.bool_]:
        """See `ColumnStore.may_have`."""
        found = np.zeros(len(hashes), np.bool_)
        for each in self._generations.values():
            found |= each.may_have(hashes)
        return found

    def generations(self) -> list[int]:
        """See `ColumnStore.generations`."""
        return sorted(self._generations)

    def stored(self) -> Stored:
        """See `ColumnStore.stored`."""
        sizes = [size for each in self._generations.values() for size in each.file_sizes()]
        return Stored(
            rows=sum(each.n_rows for each in self._generations.values()),
            bytes=sum(sizes),
            pieces=len(sizes),
            bytes_written=self._bytes_written,
            merges=self._n_merges,
        )

    # ---- snapshots

    def snapshot(self) -> TonboSnapshot:
        """See `ColumnStore.snapshot`."""
        pinned = {}
        for number, each in self._generations.items():
            if each.pin is None or each.pin.failed:
                each.pin = _Pin(each.read(self.order), self)
                each.floor = ALL_TIMES[0]
            pinned[number] = each.pin, each.floor
        return TonboSnapshot(self.schema, self.order, pinned)

    def run_of(self, pieces: Iterator[Piece]) -> Run:
        """A run file of sorted rows; called in any thread."""
        content = f"{self._maker}-{next(self._n_made)}"
        rows = (self._as_run(self._coding.found(each, self.schema.names)) for each in pieces)
        with suppress(OSError):  # what is wrong with it is said by `write`
            (self._path / "runs").mkdir(parents=True, exist_ok=True)  # the store may be closed
        blocks = self._runs.write(content, rows, self.order)
        return Run(content, blocks.index, blocks)

    def _as_run(self, found: Found) -> pa.RecordBatch:
        beside = [pa.array(found.hashes, pa.uint64()), pa.array(found.times, pa.int64())]
        schema = stored_schema(self.schema)
        return pa.RecordBatch.from_arrays([*beside, *found.rows.columns], schema=schema)

    def restore(self, snapshots: Sequence[SnapshotReader], hashes: Span) -> None:
        """See `ColumnStore.restore`."""
        there = set(self._generations)
        path = self._path / f"restored-{next(self._n_folders)}"
        old = RunStore(self.schema, path, order=self.order)
        old.restore(snapshots, hashes)
        for number, runs in old.snapshot().runs.items():
            for found in old.scan([number]):
                self.put(number, found.hashes, found.times, found.rows)
            if number in self._generations and number not in there:
                self._generations[number].pin = _Pin.of(runs)  # the next snapshot has these files

    def close(self) -> None:
        """See `ColumnStore.close`."""
        for number in self.generations():
            self.drop(number)
        self._runs.close()
        with suppress(OSError):
            for path in self._path.glob("restored-*"):
                path.rmdir()
        self._folder.close()


class TonboSnapshot:
    """The generations of a store at one moment; run files are made of them when it is written."""

    def __init__(
        self, schema: pa.Schema, order: Order, pinned: dict[int, tuple[_Pin, int]]
    ) -> None:
        self._schema, self._order, self._pinned = schema, order, pinned

    def write(self, out: SnapshotWriter) -> None:
        """See `Snapshot.write`."""
        runs = {}
        for number, (pin, floor) in self._pinned.items():
            left = (run.expired(floor) for run in pin.runs())
            runs[number] = tuple(run for run in left if run is not None)
        RunSnapshot(self._schema, self._order, runs).write(out)

    def discard(self) -> None:
        """See `Snapshot.discard`."""
        self._pinned.clear()


class _Pin:
    """Runs with the rows of a generation at one moment, made of `pieces` when first asked for."""

    def __init__(self, pieces: Iterator[Piece], store: TonboStore) -> None:
        self._lock = threading.Lock()
        self._runs: tuple[Run, ...] | None = None
        self._left: tuple[Iterator[Piece], TonboStore] | None = pieces, store
        self.failed = False
        """The runs could not be made, and what they are made of is gone."""

    @classmethod
    def of(cls, runs: tuple[Run, ...]) -> _Pin:
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
                (pieces, store), self._left, self.failed = self._left, None, True
                self._runs = (store.run_of(pieces),)
                self.failed = False
            return self._runs


@dataclass(frozen=True, slots=True)
class _Hidden:
    """Rows with numbers from one on, up to another, and times before one: they have expired."""

    first: int
    end: int
    before: int


class _Generation:
    """One Tonbo database; its folder goes when nobody refers to it any more, such as a scan."""

    def __init__(self, path: Path, coding: Coding, order: Order) -> None:
        self._path, self._coding, self._order = path, coding, order
        self.n_rows = self.n_dead = 0
        """Those that have expired among them, while the others of a generation are here."""
        self.most = ALL_TIMES[0]
        """No row has a later time."""
        self.pin: _Pin | None = None
        """The rows as they are, if a snapshot has them."""
        self.floor = ALL_TIMES[0]
        """Rows of the pin with earlier times have expired since."""
        self._hidden: tuple[_Hidden, ...] = ()
        self._filter = _Filter() if order == "hash" else None
        try:
            with _told(
                self._path
            ):  # no log is synced: after a crash a task goes back to its checkpoint
                self._store = Store.open(
                    path, coding.stored, "key", sync=False, seal_batches=SEAL_BATCHES
                )
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        weakref.finalize(self, _removed, self._store, path)

    def put(self, rows: pa.RecordBatch) -> None:
        """Add rows as `Coding` makes them; they count when they were `added`."""
        self.pin = None
        with _told(self._path):
            self._store.put(rows)

    def added(self, hashes: Hashes, times: Times) -> None:
        """So many rows were put."""
        self.n_rows += len(hashes)
        if len(times):
            self.most = max(self.most, int(times.max()))
        if self._filter is not None:
            self._filter.add(hashes)

    def forget(self, first: int, end: int) -> None:
        """Never show rows with these numbers, some of which were put."""
        self.pin = None
        self._hidden = (*self._hidden, _Hidden(first, end, ALL_TIMES[1]))

    def expire(self, before: int, number: int) -> None:
        """Hide rows with earlier times that were put before this number."""
        later = [each for each in self._hidden if each.first or each.before > before]
        self._hidden = (*later, _Hidden(0, number, before))
        self.floor = max(self.floor, before)

    def delete(self, piece: Piece) -> None:
        """Remove rows."""
        self.pin = None
        with _told(self._path):
            self._store.delete(keys(piece.major, piece.minor, piece.numbers))
        self.n_rows -= len(piece.major)
        self.n_dead += len(piece.major)

    def may_have(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Which of these hashes some row may have."""
        return np.ones(len(hashes), np.bool_) if self._filter is None else self._filter.has(hashes)

    def read(
        self,
        order: Order,
        *,
        hashes: Span = ALL_HASHES,
        times: Span = ALL_TIMES,
        among: Hashes | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[Piece]:
        """Rows as they are now, in order; `among` is sorted."""
        shifted = times[0] + SHIFT, times[1] + SHIFT
        if among is not None:
            if not len(among):
                return iter(())
            hashes = max(hashes[0], int(among[0])), min(hashes[1], int(among[-1]) + 1)
        major, minor = (hashes, shifted) if order == "hash" else (shifted, hashes)
        spans = [major]
        if order == "hash" and among is not None and len(among) * LOOKED_UP < self.n_rows:
            spans = [(h, h + 1) for h in among.tolist() if hashes[0] <= h < hashes[1]]
        names = self._coding.columns(columns)
        with _told(self._path):
            readers = [self._store.scan(*_bounds(each), columns=names) for each in spans]
        return self._pieces(readers, major, minor, among, self._hidden)

    def _pieces(
        self,
        readers: list[pa.RecordBatchReader],
        major: Span,
        minor: Span,
        among: Hashes | None,
        hidden: tuple[_Hidden, ...],
    ) -> Iterator[Piece]:
        for reader in readers:
            while (rows := self._next(reader)) is not None:
                piece = self._coding.piece(rows)
                keep = in_span(piece.major, major) & in_span(piece.minor, minor)
                if among is not None:
                    keep &= np.isin(piece.hashes(self._order), among)
                for each in hidden:
                    own = in_span(piece.numbers, (each.first, each.end))
                    if each.before < ALL_TIMES[1]:
                        own &= piece.times(self._order) < each.before
                    keep &= ~own
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
            self._tables.append(np.zeros(n * _FILTER_BITS // 8, np.uint8))
            self._room = n
        self._room -= len(hashes)
        table = self._tables[-1]
        for bits in filter_bits(hashes, np.uint64(8 * len(table))):
            marks = np.left_shift(np.uint8(1), (bits & np.uint64(7)).astype(np.uint8))
            np.bitwise_or.at(table, (bits >> np.uint64(3)).astype(np.int64), marks)

    def has(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Which of these may have been put."""
        found = np.zeros(len(hashes), np.bool_)
        for table in self._tables:
            here = np.ones(len(hashes), np.bool_)
            for bits in filter_bits(hashes, np.uint64(8 * len(table))):
                byte = table[(bits >> np.uint64(3)).astype(np.int64)]
                here &= (byte >> (bits & np.uint64(7)).astype(np.uint8)) & 1 == 1
            found |= here
        return found


def _merged(streams: Sequence[Iterator[Piece]]) -> Iterator[Piece]:
    """The rows of sorted streams in order; of equal places those of an earlier stream first."""
    heads = [next(stream, None) for stream in streams]
    parts = list[Piece]()
    while len(live := [i for i, head in enumerate(heads) if head is not None]) > 1:
        cut = min((int(h.major[-1]), int(h.minor[-1])) for h in heads if h is not None)
        parts += _below(heads, live, cut)
        for i in live:  # those at the cut itself, which may go on in the next piece of a stream
            while (head := heads[i]) is not None:
                n = head.n_up_to(*cut)
                if n:
                    parts.append(head.slice(0, n))
                if n < len(head.major):
                    heads[i] = head.slice(n, len(head.major))
                    break
                heads[i] = next(streams[i], None)
                if sum(len(part.major) for part in parts) >= scans.PORTION_ROWS:
                    yield joined(parts)
                    parts = []
    if parts:
        yield joined(parts)
    for i in live:
        if (head := heads[i]) is not None:
            yield head
        yield from streams[i]


def _below(heads: list[Piece | None], live: list[int], cut: tuple[int, int]) -> list[Piece]:
    """Take the rows before a place off all heads, in order."""
    parts, which = list[Piece](), list[NDArray[np.int64]]()
    for i in live:
        if (head := heads[i]) is not None and (n := head.n_before(*cut)):
            parts.append(head.slice(0, n))
            which.append(np.full(n, i))
            heads[i] = head.slice(n, len(head.major))
    if len(parts) < 2:
        return parts
    all_ = joined(parts)
    at = np.lexsort((np.concatenate(which), all_.minor, all_.major))
    rows = all_.rows.take(pa.array(at))
    return [Piece(all_.major[at], all_.minor[at], all_.numbers[at], rows)]


def _bounds(major: Span) -> tuple[bytes | None, bytes | None]:
    """The first key of a span and the first one behind it; None where there are no others."""
    if major[0] >= major[1]:
        return b"", b""
    begin = max(0, major[0])
    end = major[1].to_bytes(8, "big") if major[1] < _ALL else None
    return begin.to_bytes(8, "big") if begin else None, end


def _pairs(hashes: Hashes, times: Times) -> NDArray[np.void]:
    pairs = np.empty(len(hashes), [("hash", np.uint64), ("time", np.int64)])
    pairs["hash"], pairs["time"] = hashes, times
    return pairs


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


def _removed(store: Store, path: Path) -> None:
    store.close(note=False)
    shutil.rmtree(path, ignore_errors=True)
