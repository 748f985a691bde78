"""Sorted runs of rows, in memory or in files, and what they say together.

    put ─► run ─┐ of like size: merged        run: blocks of rows by (hash, time) or (time, hash);
    put ─► run ─┴► larger run                      where each begins and ends is known in memory

One job: `RunStore`, the engine ``memory`` (without a folder) and ``arrow``. There is no log: after
a crash a task goes back to its checkpoint. A run never changes, so a snapshot is a list of runs,
and a file that is in two checkpoints is stored once. A row may hide those of its hash and time in
older runs; what was removed has a row that only hides.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.errors import DataError
from fabric.state.backend import SnapshotReader, SnapshotWriter
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
from fabric.state.column_stores.run_files import (
    HASH,
    KIND,
    SHIFT,
    TIME,
    Blocks,
    Folder,
    Index,
    InMemory,
    Place,
    places,
    stored_schema,
)

PORTION_ROWS = 1 << 16
"""About how many rows a scan holds at once."""
TIER: dict[Order, int] = {"hash": 4, "time": 16}
"""So many runs of like size become one; a run of the next tier has so many times as many rows. Who
looks keys up asks each run; who reads by time merges all of them once."""
ADDS, REPLACES, REMOVES = range(3)
_RUNS = "runs.json"


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

    def expired(self, before: int) -> Run | None:
        """The same without rows of earlier times; None: it has no others."""
        least, most = self.index.times()
        if most < before:
            return None
        return self if max(least, self.since) >= before else replace(self, since=before)


class RunStore(ColumnStore):
    """See `ColumnStore`."""

    def __init__(
        self, schema: pa.Schema, folder: Path | None = None, *, order: Order = "hash"
    ) -> None:
        self.schema, self.order = schema, order
        self._folder = None if folder is None else Folder(folder)
        self._maker, self._n_made = uuid.uuid4().hex[:12], 0
        self._runs: dict[int, list[Run]] = {}
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
                f"the store has the columns {_told(self.schema)}, got {_told(rows.schema)}"
            )
        self._add(generation, hashes, times, REPLACES if replaces else ADDS, rows.columns)

    def remove(self, generation: int, hashes: Hashes, times: Times) -> None:
        """See `ColumnStore.remove`."""
        if generation in self._runs:
            nulls = [pa.nulls(len(hashes), each.type) for each in self.schema]
            self._add(generation, hashes, times, REMOVES, nulls)

    def drop(self, generation: int) -> None:
        """See `ColumnStore.drop`."""
        self._runs.pop(generation, None)

    def expire(self, before: int) -> None:
        """See `ColumnStore.expire`."""
        cut = {
            generation: [left for run in runs if (left := run.expired(before)) is not None]
            for generation, runs in self._runs.items()
        }
        self._runs = {generation: runs for generation, runs in cut.items() if runs}

    def _add(
        self, generation: int, hashes: Hashes, times: Times, kind: int, columns: Sequence[pa.Array]
    ) -> None:
        if not len(hashes):
            return
        beside = [
            pa.array(hashes, pa.uint64()),
            pa.array(times, pa.int64()),
            pa.array(np.full(len(hashes), kind, np.uint8)),
        ]
        rows = pa.RecordBatch.from_arrays([*beside, *columns], schema=stored_schema(self.schema))
        major, minor = places(rows, self.order)
        run = self._made([rows.take(pa.array(np.lexsort((minor, major))))])
        runs = [*self._runs.get(generation, ()), run]
        tier = TIER[self.order]
        while runs and (n := _n_alike(runs, tier)) >= tier:
            older, alike = runs[:-n], runs[-n:]
            merged = self._made(_rows_of([(0, each) for each in alike], self.order, last=not older))
            runs = [*older, merged] if merged.index.n_rows else older
            self._n_merges += 1
        if runs:
            self._runs[generation] = runs
        else:
            self.drop(generation)

    def _made(self, rows: Iterable[pa.RecordBatch]) -> Run:
        self._n_made += 1
        content = f"{self._maker}-{self._n_made}"
        blocks: Blocks
        if self._folder is None:
            blocks = InMemory.of(rows, self.order)
        else:
            blocks = self._folder.write(content, rows, self.order)
        self._bytes_written += blocks.index.n_bytes
        return Run(content, blocks.index, blocks)

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
        asked = self._runs if generations is None else self._runs.keys() & set(generations)
        runs = [(number, run) for number in sorted(asked) for run in self._runs[number]]
        names = self.schema.names if columns is None else list(columns)
        wanted = _Wanted(self.order, hashes, times, None if among is None else np.unique(among))
        return _found(_rows_of(runs, self.order, wanted, names), names)

    def may_have(self, hashes: Hashes) -> NDArray[np.bool_]:
        """See `ColumnStore.may_have`."""
        found = np.zeros(len(hashes), np.bool_)
        for run in (each for runs in self._runs.values() for each in runs):
            found |= _in_span(hashes, run.hashes) & run.index.may_have(hashes)
        return found

    def generations(self) -> list[int]:
        """See `ColumnStore.generations`."""
        return sorted(self._runs)

    def stored(self) -> Stored:
        """See `ColumnStore.stored`."""
        runs = [run for each in self._runs.values() for run in each]
        return Stored(
            rows=sum(run.index.n_rows for run in runs),
            bytes=sum(run.index.n_bytes for run in runs),
            pieces=len(runs),
            bytes_written=self._bytes_written,
            merges=self._n_merges,
        )

    # ---- snapshots

    def snapshot(self) -> RunSnapshot:
        """See `ColumnStore.snapshot`."""
        runs = {number: tuple(runs) for number, runs in self._runs.items()}
        return RunSnapshot(self.schema, self.order, runs)

    def restore(self, snapshots: Sequence[SnapshotReader], hashes: Span) -> None:
        """See `ColumnStore.restore`."""
        for snapshot in snapshots:
            facts = json.loads(bytes(snapshot.read(_RUNS)))
            self._check(facts)
            for generation, content, first, end, since in facts["runs"]:
                own = max(first, hashes[0]), min(end, hashes[1])
                if own[0] < own[1]:
                    run = replace(self._taken(snapshot, content), hashes=own, since=since)
                    self._runs.setdefault(int(generation), []).append(run)

    def _check(self, facts: dict[str, object]) -> None:
        told, ours = facts["columns"], _told(self.schema)
        if told != ours or facts["order"] != self.order:
            raise DataError(
                f"the snapshot has the columns {told} by {facts['order']}, and this plan needs "
                f"{ours} by {self.order}; start the job anew, or restore it with the plan it had"
            )

    def _taken(self, snapshot: SnapshotReader, content: str) -> Run:
        for run in (each for runs in self._runs.values() for each in runs):
            if run.content == content:  # two old tasks shared a file, each with hashes of its own
                return run
        blocks: Blocks
        if self._folder is None:
            blocks = InMemory.read(snapshot.read(_file(content)), _file(content))
        else:
            blocks = self._folder.take(snapshot, _file(content), content)
        return Run(content, blocks.index, blocks)

    def close(self) -> None:
        """See `ColumnStore.close`."""
        self._runs = {}
        if self._folder is not None:
            self._folder.close()


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """The runs of a store at one moment; these stay where they are until it is gone."""

    schema: pa.Schema
    order: Order
    runs: dict[int, tuple[Run, ...]]

    def write(self, out: SnapshotWriter) -> None:
        """See `Snapshot.write`."""
        listed, written = [], set[str]()
        for generation, runs in sorted(self.runs.items()):
            for run in runs:
                listed.append([generation, run.content, *run.hashes, run.since])
                if run.content not in written:  # what two old tasks had is one file
                    run.blocks.store(out, _file(run.content), run.content)
                    written.add(run.content)
        facts = {"columns": _told(self.schema), "order": self.order, "runs": listed}
        out.put(_RUNS, json.dumps(facts).encode())

    def discard(self) -> None:
        """See `Snapshot.discard`."""
        self.runs.clear()


# ---- what runs say together


class _Wanted:
    """Which places and hashes a scan is about."""

    def __init__(self, order: Order, hashes: Span, times: Span, among: Hashes | None) -> None:
        self.order, self.hashes, self.among = order, hashes, among
        self.times = times

    def spans(self, run: Run) -> tuple[Span, Span]:
        """Of the first and the second part of places; `run` has only some hashes."""
        hashes = max(run.hashes[0], self.hashes[0]), min(run.hashes[1], self.hashes[1])
        times = max(run.since, self.times[0]) + SHIFT, self.times[1] + SHIFT
        return (hashes, times) if self.order == "hash" else (times, hashes)

    def blocks(self, run: Run) -> NDArray[np.int64]:
        """The blocks of a run that may have such rows."""
        major, minor = self.spans(run)
        return run.index.blocks(major, minor, self.among)

    def of(self, run: Run, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a block that are wanted."""
        major, minor = places(rows, self.order)
        spans = self.spans(run)
        keep = _in_span(major, spans[0]) & _in_span(minor, spans[1])
        if self.among is not None:
            keep &= _among(rows.column(HASH).to_numpy(), self.among)
        return rows if keep.all() else rows.filter(pa.array(keep))


_ALL = (ALL_HASHES, ALL_TIMES, None)


def _rows_of(
    runs: Sequence[tuple[int, Run]],
    order: Order,
    wanted: _Wanted | None = None,
    columns: Sequence[str] | None = None,
    *,
    last: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The rows of runs, given with their generations, that no newer run hides, in order.

    `last`: no older run has rows that these could hide; else what hides goes on to do so.
    """
    wanted = wanted or _Wanted(order, *_ALL)
    readers = [_Reader(number, run, wanted, columns) for number, run in runs]
    cuts = _cuts(readers)
    for begin, end in zip(cuts, [*cuts[1:], None], strict=True):
        parts = [(i, part) for i, each in enumerate(readers) for part in each.between(begin, end)]
        if not parts:
            continue
        rows = pa.concat_batches([part for _, part in parts])
        hiding = any(readers[i].run.index.hides for i, _ in parts)
        if len({i for i, _ in parts}) > 1 or (hiding and last):
            counts = [len(part) for _, part in parts]
            which = np.repeat(np.array([i for i, _ in parts]), counts)
            generation = np.array([number for number, _ in runs])[which]
            rows = rows.take(pa.array(_visible(rows, which, generation, order, last=last)))
        if rows.num_rows:
            yield _without_kinds(rows) if last and hiding else rows


def _visible(
    rows: pa.RecordBatch,
    which: NDArray[np.int64],
    generation: NDArray[np.int64],
    order: Order,
    *,
    last: bool,
) -> NDArray[np.int64]:
    """Where the rows that stay are, in order; `which` grows with how new the run of a row is."""
    major, minor = places(rows, order)
    at = np.lexsort((which, generation, minor, major))
    major, minor, generation, which = major[at], minor[at], generation[at], which[at]
    kinds = rows.column(KIND).to_numpy()[at]
    if not kinds.any():
        return at
    differs = (
        (major[1:] != major[:-1]) | (minor[1:] != minor[:-1]) | (generation[1:] != generation[:-1])
    )
    begins = np.flatnonzero(np.concatenate([[True], differs]))
    hider = np.maximum.reduceat(np.where(kinds != ADDS, which, -1), begins)
    stays = which >= np.repeat(hider, np.diff(np.append(begins, len(at))))
    if last:
        stays &= kinds != REMOVES
    return at[stays]


def _without_kinds(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as such that hide nothing: there is nothing older."""
    kinds = pa.array(np.full(rows.num_rows, ADDS, np.uint8))
    return rows.set_column(rows.schema.get_field_index(KIND), rows.schema.field(KIND), kinds)


class _Reader:
    """One run in a scan."""

    def __init__(
        self, generation: int, run: Run, wanted: _Wanted, columns: Sequence[str] | None
    ) -> None:
        self.generation, self.run, self._wanted, self._columns = generation, run, wanted, columns
        self.blocks = wanted.blocks(run)
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
                rows = self.run.blocks.block(number, self._columns)
                self._held = number, self._wanted.of(self.run, rows)
            rows = self._held[1]
            major, minor = places(rows, self._wanted.order)
            first = _position(major, minor, begin)
            until = len(rows) if end is None else _position(major, minor, end)
            if until > first:
                yield rows.slice(first, until - first)
            if end is not None and index.last(number) >= end:
                return
            self._next, self._held = self._next + 1, None


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


def _found(parts: Iterator[pa.RecordBatch], names: list[str]) -> Iterator[Found]:
    for rows in parts:
        hashes, times = rows.column(HASH).to_numpy(), rows.column(TIME).to_numpy()
        yield Found(hashes, times, rows.select(names))


# ---- small things


def _n_alike(runs: Sequence[Run], tier: int) -> int:
    """How many runs at the end are no larger than what the last one's tier allows."""
    room = tier * max(1, runs[-1].index.n_rows)
    n = 0
    for run in reversed(runs):
        if run.index.n_rows >= room:
            break
        n += 1
    return n


def _in_span(values: NDArray[np.uint64], span: Span) -> NDArray[np.bool_]:
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


def _position(major: NDArray[np.uint64], minor: NDArray[np.uint64], place: Place) -> int:
    """How many of these sorted places are before `place`."""
    begin = int(np.searchsorted(major, np.uint64(place[0]), "left"))
    end = int(np.searchsorted(major, np.uint64(place[0]), "right"))
    return begin + int(np.searchsorted(minor[begin:end], np.uint64(place[1]), "left"))


def _told(schema: pa.Schema) -> str:
    return ", ".join(f"{each.name}: {each.type}" for each in schema)


def _file(content: str) -> str:
    return f"run-{content}"
