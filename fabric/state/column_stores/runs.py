"""A column store of sorted runs of rows, in memory or in files.

    put ─► run ─┐ of like size: merged        run: blocks of rows by (hash, time) or (time, hash);
    put ─► run ─┴► larger run                      where each begins and ends is known in memory

One job: `RunStore`, the engine ``memory`` (without a folder) and ``arrow``. There is no log: after
a crash a task goes back to its checkpoint. A run never changes, so a snapshot is a list of runs,
and a file that is in two checkpoints is stored once; which of its rows were removed lies beside it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from fabric.errors import DataError
from fabric.state.backend import SnapshotReader, SnapshotWriter, total
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
    columns_of,
)
from fabric.state.column_stores.run_files import (
    BLOCK_ROWS,
    Blocks,
    Folder,
    InMemory,
    read_blocks,
)
from fabric.state.column_stores.run_index import as_run, places, sorted_places
from fabric.state.column_stores.scans import (
    Asked,
    Run,
    found,
    n_rows_of,
    rows_of,
)
from fabric.state.opened import Keys, OpenedSnapshot

TIER: dict[Order, int] = {"hash": 4, "time": 64}
"""So many runs of like size become one; a run of the next tier has so many times as many rows. Who
looks keys up asks each run; who reads by time merges all of them once."""
MERGE_BYTES = 1 << 29
"""A merge reads about so much at most, for the task may have to wait for it. So a run of a tier's
share of it or more stays as it is, until it has lost most of its rows."""
_RUNS = "runs.json"


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

    def _put(
        self, generation: int, hashes: Hashes, times: Times, rows: pa.RecordBatch, replaces: bool
    ) -> None:
        added = as_run(self.schema, hashes, times, rows)
        major, minor = places(added, self.order)
        at, n = pa.array(sorted_places(major, minor)), BLOCK_ROWS[self.order]
        # A block at a time: a task has no room for all rows twice.
        run = self._made(added.take(at.slice(begin, n)) for begin in range(0, len(at), n))
        runs = self._runs.get(generation, [])
        runs = [*(_without(runs, Asked(hashes, times)) if replaces else runs), run]
        self._keep(generation, self._merged(runs))

    def remove(self, generation: int, hashes: Hashes, times: Times) -> None:
        """See `ColumnStore.remove`."""
        if generation in self._runs:
            self._keep(generation, _without(self._runs[generation], Asked(hashes, times)))

    def take(self, hashes: Hashes) -> list[Found]:
        """See `ColumnStore.take`."""
        asked, taken = Asked(hashes), list[Found]()
        cuts = {
            generation: [asked.cut(run) for run in self._runs[generation]]
            for generation in self.generations()
        }
        for generation, cut in cuts.items():
            self._keep(generation, [left for left, _ in cut if left is not None])
            if parts := [part for _, parts in cut for part in parts]:
                rows = pa.concat_batches(parts)
                major, minor = places(rows, self.order)
                in_order = rows.take(pa.array(sorted_places(major, minor)))
                taken.append(found(in_order, self.schema.names))
        return taken

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

    def _keep(self, generation: int, runs: list[Run]) -> None:
        if runs:
            self._runs[generation] = runs
        else:
            self.drop(generation)

    def _merged(self, runs: list[Run]) -> list[Run]:
        """The runs, those of like size as one; one large run that has lost most rows is rewritten.

        One at a time, for that takes as long as some merges.
        """
        tier = TIER[self.order]
        while runs and (n := _n_alike(runs, tier)) >= tier:
            runs = [*runs[:-n], *self._one(runs[-n:])]
        for at, run in enumerate(runs):
            if run.index.n_bytes >= MERGE_BYTES // tier and 2 * run.n_rows < run.index.n_rows:
                return [*runs[:at], *self._one([run]), *runs[at + 1 :]]
        return runs

    def _one(self, runs: list[Run]) -> list[Run]:
        """One run of the rows of all; none where all have expired."""
        self._n_merges += 1
        merged = self._made(rows_of(runs, self.order))
        return [merged] if merged.index.n_rows else []

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
        times: Span = ALL_TIMES,
    ) -> Iterator[Found]:
        """See `ColumnStore.scan`."""
        asked = self._runs if generations is None else self._runs.keys() & set(generations)
        runs = [run for number in sorted(asked) for run in self._runs[number]]
        return (found(rows, self.schema.names) for rows in rows_of(runs, self.order, times))

    def generations(self) -> list[int]:
        """See `ColumnStore.generations`."""
        return sorted(self._runs)

    def stored(self) -> Stored:
        """See `ColumnStore.stored`."""
        runs = [run for each in self._runs.values() for run in each]
        return Stored(
            rows=sum(run.n_rows for run in runs),
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
            blocks = partial(self._restored, snapshot)
            for generation, run in _runs_of(snapshot, self, hashes, blocks):
                self._runs.setdefault(generation, []).append(run)

    def _restored(self, snapshot: SnapshotReader, content: str) -> Blocks:
        for run in (each for runs in self._runs.values() for each in runs):
            if run.content == content:  # two old tasks shared a file, each with hashes of its own
                return run.blocks
        if self._folder is None:
            return InMemory.read(snapshot.read(_file(content)), _file(content))
        return self._folder.take(snapshot, _file(content), content)

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

    def write(self, out: SnapshotWriter) -> int | None:
        """See `Snapshot.write`; rows that have expired, or are another task's, don't count."""
        listed, written = list[object](), set[str]()
        for generation, runs in sorted(self.runs.items()):
            for run in runs:
                if run.removed is not None:
                    out.put(_removed(len(listed)), run.removed.bits.tobytes())
                listed.append([generation, run.content, *run.hashes, run.since])
                if run.content not in written:  # what two old tasks had is one file
                    run.blocks.store(out, _file(run.content), run.content)
                    written.add(run.content)
        facts = {"columns": columns_of(self.schema), "order": self.order, "runs": listed}
        out.put(_RUNS, json.dumps(facts).encode())
        return total(n_rows_of(run) for runs in self.runs.values() for run in runs)

    @property
    def n_rows(self) -> int:
        """Those that have expired or are another task's among them, as `Stored.rows` counts."""
        return sum(run.n_rows for runs in self.runs.values() for run in runs)

    def scan(self) -> Iterator[Found]:
        """All rows, as `ColumnStore.scan` gives them; in any thread."""
        runs = [run for _, runs in sorted(self.runs.items()) for run in runs]
        return (found(rows, self.schema.names) for rows in rows_of(runs, self.order))

    def find(self, hashes: Hashes, times: Times) -> Iterator[pa.RecordBatch]:
        """The row of each pair of a hash and a time, if there is one; in any thread.

        Rows must have been put with `replaces`: the search ends when each pair has one.
        """
        asked, n_left = Asked(hashes, times), len(hashes)
        for run in (each for runs in self.runs.values() for each in reversed(runs)):
            if not n_left:
                return
            for rows in asked.find(run)[1]:
                n_left -= len(rows)
                yield rows.select(self.schema.names)


def rows_of_keys(
    snapshot: OpenedSnapshot, store: ColumnStore, keys: Keys
) -> Iterator[tuple[int, Found]]:
    """The rows that a snapshot, of any engine, has of `keys`, and the generation of each.

    It is one of a store like `store`. Blocks that can't have them are not read.
    """

    def listed() -> list[tuple[int, Run]]:
        def blocks(content: str) -> Blocks:
            name = _file(content)
            return snapshot.of_file(name, lambda path: read_blocks(path, name), is_checked=True)

        return list(_runs_of(snapshot, store, ALL_HASHES, blocks))

    asked, parts = Asked(keys.hashes), dict[int, list[pa.RecordBatch]]()
    for generation, run in snapshot.once("runs", listed):
        parts.setdefault(generation, []).extend(asked.find(run)[1])
    for generation, some in parts.items():
        if some:
            yield generation, found(pa.concat_batches(some), store.schema.names)


def _runs_of(
    snapshot: SnapshotReader, store: ColumnStore, hashes: Span, blocks: Callable[[str], Blocks]
) -> Iterator[tuple[int, Run]]:
    """The runs of a snapshot that have some of these hashes; `blocks` are those of a content."""
    facts = json.loads(bytes(snapshot.read(_RUNS)))
    told, ours = facts["columns"], columns_of(store.schema)
    if told != ours or facts["order"] != store.order:
        raise DataError(
            f"the snapshot has the columns {told} by {facts['order']}, and this plan needs "
            f"{ours} by {store.order}; start the job anew, or restore it with the plan it had"
        )
    files = set(snapshot.names())
    for number, (generation, content, first, end, since) in enumerate(facts["runs"]):
        own = max(first, hashes[0]), min(end, hashes[1])
        if own[0] < own[1]:
            read = blocks(content)
            run = Run(content, read.index, read)
            if (name := _removed(number)) in files:
                run = run.with_removed(snapshot.read(name), name)
            yield int(generation), replace(run, hashes=own, since=since)


def _without(runs: Iterable[Run], asked: Asked) -> list[Run]:
    """The runs without what is asked for."""
    return [left for run in runs if (left := asked.cut(run)[0]) is not None]


def _n_alike(runs: Sequence[Run], tier: int) -> int:
    """How many runs at the end are no larger than what the last one's tier allows, nor large."""
    room = tier * max(1, runs[-1].n_rows)
    n = 0
    for run in reversed(runs):
        if run.n_rows >= room or run.index.n_bytes >= MERGE_BYTES // tier:
            break
        n += 1
    return n


def _file(content: str) -> str:
    return f"run-{content}"


def _removed(number: int) -> str:
    return f"removed-{number}"
