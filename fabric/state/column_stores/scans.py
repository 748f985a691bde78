"""Runs of sorted rows, and what some of them say together.

    run ─ blocks by (hash, time) ─┐ portion by portion: concatenated, sorted ─► rows in order
    run ─ blocks by (hash, time) ─┘

One job: `Run`, and how to read several of them: those of some times, in order (`rows_of`), or
those that are `Asked` for by their keys, wherever they lie. The rows of a run never change; those
that were removed are known by a bit each, until a merge leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.kernels.lookup import positions
from fabric.errors import DataError
from fabric.state.column_stores.contract import (
    ALL_HASHES,
    ALL_TIMES,
    Found,
    Hashes,
    Order,
    Span,
    Times,
)
from fabric.state.column_stores.run_files import Blocks
from fabric.state.column_stores.run_index import (
    HASH,
    SHIFT,
    TIME,
    Index,
    Place,
    n_before,
    places,
    sorted_places,
)

PORTION_ROWS = 1 << 16
"""About how many rows a scan holds at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Removed:
    """A bit for each row of a run, by its number from the run's begin; set: it was removed."""

    bits: NDArray[np.uint8]
    n_rows: int

    def also(self, numbers: NDArray[np.int64]) -> Removed:
        """With more rows, which are not removed yet; each given once."""
        bits = self.bits.copy()
        marks = np.left_shift(np.uint8(1), (numbers & 7).astype(np.uint8))
        np.bitwise_or.at(bits, numbers >> 3, marks)
        return Removed(bits, self.n_rows + len(numbers))

    def here_at(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of some rows were not removed."""
        bits = self.bits[numbers >> 3] >> (numbers & 7).astype(np.uint8)
        found: NDArray[np.bool_] = bits & 1 == 0
        return found

    def here(self, begin: int, count: int) -> NDArray[np.bool_]:
        """Which of so many rows from `begin` on were not removed."""
        some = self.bits[begin >> 3 : (begin + count + 7) >> 3]
        bits = np.unpackbits(some, bitorder="little")[begin & 7 :][:count]
        found: NDArray[np.bool_] = bits == 0
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Sorted rows that never change."""

    content: str
    """Names its bytes for ever, wherever they lie."""
    index: Index
    blocks: Blocks
    hashes: Span = ALL_HASHES
    """Rows with others are not this store's."""
    since: int = ALL_TIMES[0]
    """Rows with earlier times have expired."""
    removed: Removed | None = None
    """Rows that are here no more."""

    @property
    def n_rows(self) -> int:
        """Those that were not removed."""
        return self.index.n_rows - (0 if self.removed is None else self.removed.n_rows)

    def expired(self, before: int) -> Run | None:
        """The same without rows of earlier times; None: it has no others."""
        least, most = self.index.times()
        if most < before:
            return None
        return self if max(least, self.since) >= before else replace(self, since=before)

    def with_removed(self, bits: pa.Buffer, name: str) -> Run:
        """The same with the bits of `Removed` that a snapshot has under that name."""
        if len(bits) != (self.index.n_rows + 7) // 8:
            raise DataError(f"the file {name} of a snapshot is damaged: it has {len(bits)} bytes")
        ours = np.frombuffer(bits, np.uint8)
        return replace(self, removed=Removed(ours, int(np.bitwise_count(ours).sum())))

    def without(self, numbers: NDArray[np.int64]) -> Run | None:
        """The same without some more rows; None: it has no others."""
        removed = self.removed or Removed(np.zeros((self.index.n_rows + 7) // 8, np.uint8), 0)
        removed = removed.also(numbers)
        return replace(self, removed=removed) if removed.n_rows < self.index.n_rows else None


def n_rows_of(run: Run) -> int | None:
    """How many rows a scan of a run would give; None: it takes a scan to know.

    Blocks that have others as well are read, if those are at most where what is wanted begins and
    where it ends.
    """
    reader = _Reader(run, ALL_TIMES)
    inside = run.index.inside(*reader.spans)
    cut = np.setdiff1d(reader.blocks, inside)
    if len(cut) > 2:
        return None
    n_rows = int(run.index.counts[inside].sum()) + sum(len(reader.read(int(n))) for n in cut)
    if run.removed is not None and len(inside) == len(run.index.counts):
        return n_rows - run.removed.n_rows
    if run.removed is not None:
        spans = ((run.index.start(int(n)), int(run.index.counts[n])) for n in inside)
        n_rows -= sum(int((~run.removed.here(*span)).sum()) for span in spans)
    return n_rows


class Asked:
    """Keys to be taken out of runs: all rows with their hashes, or only those of certain times."""

    def __init__(self, hashes: Hashes, times: Times | None = None) -> None:
        if len(hashes) > 1:
            order = np.argsort(hashes) if times is None else np.lexsort((times, hashes))
            hashes, times = hashes[order], None if times is None else times[order]
        self._hashes, self._times = hashes, times

    def cut(self, run: Run) -> tuple[Run | None, list[pa.RecordBatch]]:
        """The run without them (None: it has no others), and they themselves, in its order."""
        numbers, parts = self.find(run)
        return (run.without(np.concatenate(numbers)) if numbers else run), parts

    def find(self, run: Run) -> tuple[list[NDArray[np.int64]], list[pa.RecordBatch]]:
        """Their numbers in the run, and they themselves, in its order."""
        maybe = run.index.may_have(self._hashes)
        if run.hashes != ALL_HASHES:
            maybe &= in_span(self._hashes, run.hashes)
        numbers: list[NDArray[np.int64]] = []
        parts: list[pa.RecordBatch] = []
        if not maybe.any():
            return numbers, parts
        hashes = self._hashes[maybe]
        times = None if self._times is None else self._times[maybe]
        with run.blocks.looking(hashes) as look:
            for block in run.index.blocks_among(hashes).tolist():
                if (rows := look(block)) is None:
                    continue
                begin = run.index.start(block)
                at = _positions(run, begin, rows, hashes, times)
                if len(at):
                    parts.append(rows.take(pa.array(at)))
                    numbers.append(at + begin)
        return numbers, parts


def _positions(
    run: Run, begin: int, rows: pa.RecordBatch, hashes: Hashes, times: Times | None
) -> NDArray[np.int64]:
    """Where sorted keys are in a block, whose rows are numbered from `begin` on."""
    stored, stored_times = rows.column(HASH).to_numpy(), rows.column(TIME).to_numpy()
    if run.index.order == "hash":
        bits = None if run.removed is None else run.removed.bits
        return positions(stored, stored_times, hashes, times, run.since, bits, begin)
    at = np.flatnonzero(_among(stored, hashes) & (stored_times >= run.since))
    if times is not None:
        at = at[np.isin(pairs_of(stored[at], stored_times[at]), pairs_of(hashes, times))]
    return at if run.removed is None else at[run.removed.here_at(at + begin)]


def rows_of(runs: Sequence[Run], order: Order, times: Span = ALL_TIMES) -> Iterator[pa.RecordBatch]:
    """Rows of runs with these times, in order; of equal places those of an earlier run first."""
    readers = [_Reader(run, times) for run in runs]
    cuts = _cuts(readers)
    for begin, end in zip(cuts, [*cuts[1:], None], strict=True):
        parts = [(i, part) for i, each in enumerate(readers) for part in each.between(begin, end)]
        if not parts:
            continue
        rows = pa.concat_batches([part for _, part in parts])
        if len({i for i, _ in parts}) > 1:
            rows = rows.take(pa.array(sorted_places(*places(rows, order))))
        if rows.num_rows:
            yield rows


class _Reader:
    """One run in a scan."""

    def __init__(self, run: Run, times: Span) -> None:
        self.run = run
        wanted = max(run.since, times[0]) + SHIFT, times[1] + SHIFT
        by_hash = run.index.order == "hash"
        self.spans = (run.hashes, wanted) if by_hash else (wanted, run.hashes)
        self.blocks = run.index.blocks(*self.spans)
        self._next = 0
        self._held: tuple[int, pa.RecordBatch] | None = None
        """A block that goes on in the next portion."""

    def between(self, begin: Place, end: Place | None) -> Iterator[pa.RecordBatch]:
        """The rows from a place on, up to another one."""
        index = self.run.index
        while self._next < len(self.blocks):
            number = int(self.blocks[self._next])
            if end is not None and index.first(number) >= end:
                return
            if self._held is None or self._held[0] != number:
                self._held = number, self.read(number)
            rows = self._held[1]
            major, minor = places(rows, index.order)
            first = n_before(major, minor, begin)
            until = len(rows) if end is None else n_before(major, minor, end)
            if until > first:
                yield rows.slice(first, until - first)
            if end is not None and index.last(number) >= end:
                return
            self._next, self._held = self._next + 1, None

    def read(self, number: int) -> pa.RecordBatch:
        """The rows of a block that are wanted."""
        rows, run = self.run.blocks.block(number), self.run
        major, minor = places(rows, run.index.order)
        keep = in_span(major, self.spans[0]) & in_span(minor, self.spans[1])
        if run.removed is not None:
            keep &= run.removed.here(run.index.start(number), len(rows))
        return rows if keep.all() else rows.filter(pa.array(keep))


def _cuts(readers: Sequence[_Reader]) -> list[Place]:
    """Where portions of about `PORTION_ROWS` rows begin."""
    begins = sorted(
        (each.run.index.first(int(number)), int(each.run.index.counts[number]))
        for each in readers
        for number in each.blocks
    )
    cuts: list[Place] = [(0, 0)]
    n_rows = 0
    for place, count in begins:
        if n_rows >= PORTION_ROWS and place > cuts[-1]:
            cuts.append(place)
            n_rows = 0
        n_rows += count
    return cuts


def found(rows: pa.RecordBatch, names: list[str]) -> Found:
    """Rows of runs as an answer, with the columns that were asked for."""
    return Found(rows.column(HASH).to_numpy(), rows.column(TIME).to_numpy(), rows.select(names))


def in_span(values: NDArray[np.uint64], span: Span) -> NDArray[np.bool_]:
    """Which are in it; its end may be 2^64."""
    if span[0] >= span[1]:
        return np.zeros(len(values), np.bool_)
    least, most = np.uint64(max(0, span[0])), np.uint64(span[1] - 1)
    found: NDArray[np.bool_] = (values >= least) & (values <= most)
    return found


def _among(values: Hashes, wanted: Hashes) -> NDArray[np.bool_]:
    """Which are in `wanted`, which is sorted."""
    if not len(wanted):
        return np.zeros(len(values), np.bool_)
    at = np.minimum(np.searchsorted(wanted, values), len(wanted) - 1)
    found: NDArray[np.bool_] = wanted[at] == values
    return found


def pairs_of(hashes: Hashes, times: Times) -> NDArray[np.void]:
    """Hashes and times as one array."""
    pairs = np.empty(len(hashes), [("hash", np.uint64), ("time", np.int64)])
    pairs["hash"], pairs["time"] = hashes, times
    return pairs
