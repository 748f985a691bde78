"""The column store ``tonbo``: a Tonbo database a generation, each in a folder of its own.

    put ─► generation 0: memtable ─► sorted files        snapshot ─► run file, as `arrow` has
    put ─► generation 1: memtable ─► sorted files

One job: `TonboStore`. It comes from the wheel `flight-fabric-tonbo` (``fabric/_rust``), which has
guards for what is wrong with Tonbo. That deletes nothing from files, so a generation with more dead
rows than live ones is written anew. Checkpoints hold runs, so any engine restores any other's.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.process import give_back
from fabric.state.backend import SnapshotReader, SnapshotWriter
from fabric.state.column_stores import scans
from fabric.state.column_stores.contract import (
    ALL_TIMES,
    ColumnStore,
    Found,
    Hashes,
    Order,
    Span,
    Stored,
    Times,
)
from fabric.state.column_stores.run_files import Folder
from fabric.state.column_stores.run_index import as_run
from fabric.state.column_stores.runs import RunSnapshot, RunStore
from fabric.state.column_stores.scans import Run
from fabric.state.column_stores.tonbo_generation import Generation, Pin
from fabric.state.column_stores.tonbo_rows import KEY_BYTES, U64, Coding, Piece, joined

DEAD_ROWS = 1 << 16
"""Fewer dead rows than these are never a reason to write a generation anew."""
GIVE_BACK_BYTES = 2 << 20
"""After so many bytes were written, free memory goes back to the system: malloc kept three quarters
of what the process had, for the crate's tables come and go in small pieces."""


class TonboStore(ColumnStore):
    """See `ColumnStore`."""

    def __init__(self, schema: pa.Schema, folder: Path, *, order: Order = "hash") -> None:
        self.schema, self.order = schema, order
        self._coding = Coding(schema, order)
        self._path, self._folder = folder, Folder(folder)
        self._runs = Folder(folder / "runs")
        self._maker, self._n_made = uuid.uuid4().hex[:12], itertools.count(1)
        self._n_folders = itertools.count(1)
        self._generations: dict[int, Generation] = {}
        self._bytes_written = self._n_merges = self._given_back = 0

    # ---- changes

    def _put(
        self, generation: int, hashes: Hashes, times: Times, rows: pa.RecordBatch, replaces: bool
    ) -> None:
        there = self._generations.get(generation)
        into = there or self._made()
        gone = self._numbers(there, hashes, times) if replaces and there else None
        into.put(hashes, times, rows)
        self._bytes_written += rows.nbytes + KEY_BYTES * len(rows)
        if gone is not None:
            into.delete(gone)
        self._generations[generation] = into
        self._shrink(generation)
        if self._bytes_written - self._given_back >= GIVE_BACK_BYTES:
            self._given_back = self._bytes_written
            give_back()

    def remove(self, generation: int, hashes: Hashes, times: Times) -> None:
        """See `ColumnStore.remove`."""
        if there := self._generations.get(generation):
            there.delete(self._numbers(there, hashes, times))
            self._shrink(generation)

    def take(self, hashes: Hashes) -> list[Found]:
        """See `ColumnStore.take`."""
        wanted, found = np.unique(hashes), dict[int, Piece]()
        for number, each in sorted(self._generations.items()):
            if pieces := list(each.read(among=wanted[each.may_have(wanted)])):
                found[number] = joined(pieces)
        for number, piece in found.items():
            self._generations[number].delete(piece.numbers)
            self._shrink(number)
        return [self._coding.found(piece) for piece in found.values()]

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
                each.expire(before)

    def _numbers(self, there: Generation, hashes: Hashes, times: Times) -> U64:
        """Of the rows with these hashes and times."""
        wanted, pairs = np.unique(hashes), scans.pairs_of(hashes, times)
        found = [np.empty(0, np.uint64)]
        for piece in there.read(among=wanted[there.may_have(wanted)], keys_only=True):
            places = scans.pairs_of(piece.hashes(self.order), piece.times(self.order))
            found.append(piece.numbers[np.isin(places, pairs)])
        return np.concatenate(found)

    def _shrink(self, generation: int) -> None:
        """Drop a generation that is empty; write one anew that has too many dead rows."""
        there = self._generations[generation]
        if not there.n_rows:
            self.drop(generation)
        elif there.n_dead > max(there.n_rows, DEAD_ROWS):
            anew = self._made()
            for piece in there.read():
                anew.put_again(piece)
                self._bytes_written += piece.rows.nbytes
            self.drop(generation)
            self._n_merges += 1
            if anew.n_rows:  # all others may have expired
                self._generations[generation] = anew

    def _made(self) -> Generation:
        path = self._path / f"tonbo-{next(self._n_folders)}"
        return Generation(path, self._coding, self.order)

    # ---- questions

    def scan(
        self,
        generations: Collection[int] | None = None,
        *,
        times: Span = ALL_TIMES,
    ) -> Iterator[Found]:
        """See `ColumnStore.scan`."""
        asked = self._generations.keys() if generations is None else set(generations)
        streams = [
            self._generations[number].read(times=times)
            for number in sorted(self._generations.keys() & asked)
        ]
        return map(self._coding.found, _unsplit(_merged(streams)))

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
                each.pin = Pin(each.read(), self.runs_of)
                each.floor = ALL_TIMES[0]
            pinned[number] = each.pin, each.floor
        return TonboSnapshot(self.schema, self.order, pinned)

    def runs_of(self, pieces: Iterator[Piece]) -> tuple[Run, ...]:
        """A run file of sorted rows, if there are any; called in any thread."""
        first = next(pieces, None)
        if first is None:  # all that were left have expired
            return ()
        pieces = itertools.chain([first], pieces)
        content = f"{self._maker}-{next(self._n_made)}"
        rows = (as_run(self.schema, *self._coding.found(each)) for each in pieces)
        with suppress(OSError):  # what is wrong with it is said by `write`
            (self._path / "runs").mkdir(parents=True, exist_ok=True)  # the store may be closed
        blocks = self._runs.write(content, rows, self.order)
        return (Run(content, blocks.index, blocks),)

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
                self._generations[number].pin = Pin.of(runs)  # the next snapshot has these files

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

    def __init__(self, schema: pa.Schema, order: Order, pinned: dict[int, tuple[Pin, int]]) -> None:
        self._schema, self._order, self._pinned = schema, order, pinned

    def write(self, out: SnapshotWriter) -> int | None:
        """See `Snapshot.write`."""
        runs = {}
        for number, (pin, floor) in self._pinned.items():
            left = (run.expired(floor) for run in pin.runs())
            runs[number] = tuple(run for run in left if run is not None)
        return RunSnapshot(self._schema, self._order, runs).write(out)


def _merged(streams: Sequence[Iterator[Piece]]) -> Iterator[Piece]:
    """The rows of sorted streams in order; of equal places those of an earlier stream first."""
    heads = [next(stream, None) for stream in streams]
    parts = list[Piece]()
    while len(live := [i for i, head in enumerate(heads) if head is not None]) > 1:
        cut = min((int(h.major[-1]), int(h.minor[-1])) for h in heads if h is not None)
        parts += _below(heads, live, cut)
        for i in live:  # those at the cut itself, which may go on in the next piece of a stream
            while (head := heads[i]) is not None:
                n = head.n_before(cut, "right")
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


def _unsplit(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """The same rows; those of one place are in one piece, wherever Tonbo has cut its batches."""
    parts = list[Piece]()
    for piece in pieces:
        last = (int(parts[-1].major[-1]), int(parts[-1].minor[-1])) if parts else (0, 0)
        n = piece.n_before(last, "right") if parts else 0
        if n:
            parts.append(piece.slice(0, n))
        if n < len(piece.major):
            if parts:
                yield joined(parts)
            parts = [piece.slice(n, len(piece.major))]
    if parts:
        yield joined(parts)


def _below(heads: list[Piece | None], live: list[int], cut: tuple[int, int]) -> list[Piece]:
    """Take the rows before a place off all heads, in order."""
    parts, which = list[Piece](), list[NDArray[np.int64]]()
    for i in live:
        if (head := heads[i]) is not None and (n := head.n_before(cut)):
            parts.append(head.slice(0, n))
            which.append(np.full(n, i))
            heads[i] = head.slice(n, len(head.major))
    if len(parts) < 2:
        return parts
    all_ = joined(parts)
    at = np.lexsort((np.concatenate(which), all_.minor, all_.major))
    rows = all_.rows.take(pa.array(at))
    return [Piece(all_.major[at], all_.minor[at], all_.numbers[at], rows)]
