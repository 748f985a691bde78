"""Views: the newest row of each key of a stream, a dataset while its job runs.

    rows ─► the newest of each key ─► ColumnStore, by two hashes of the key
    barrier ─► a version: what the store has at that moment ─► complete: the dataset is at it
    a version is read here for the first time ─► its rows become a file of the dataset

One job: `ViewWriter`, the sink of one task, and `Views`, all of them on one agent. A version costs
nothing until somebody reads it: it shares what the store has in memory, or in files. A key is known
by 128 bits of hashes. When a task ends, its last rows are a file, so the dataset outlives the job.
"""

from __future__ import annotations

import base64
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fabric._cython.kernels.hash import hash_columns
from fabric._cython.shuffle.datasets.files import DatasetFolder
from fabric.checkpoint.manifest import FINAL
from fabric.control.datasets import FINAL as LAST
from fabric.control.datasets import LIVE, VIEW, live_name, moment_of
from fabric.errors import DataError, FabricError, NotFoundError
from fabric.flight.ticket import DatasetRequest, Part
from fabric.ids import TaskId
from fabric.io.dataset.access import current
from fabric.io.sinks.protocol import Handle
from fabric.plan.sources import DatasetTarget
from fabric.state.backend import SnapshotReader
from fabric.state.column_stores import ColumnStore
from fabric.state.column_stores.contract import Span
from fabric.state.column_stores.runs import RunSnapshot
from fabric.state.column_stores.scans import pairs_of

WRITER = "view"
KEPT_S = 30.0
"""So long after the next one a version can still be read."""
LIVE_S = 0.2
"""Who reads what is there now gets rows that are at most so old."""
FRESH_ROWS = 1 << 16
"""So many rows are gathered before they go into the store; a barrier takes what there is."""
_PRINT = 0x5EED
"""Seed of the second hash of a key."""
_GONE = pa.array(["-U", "-D"])

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]


class Keys:
    """Columns that a row is known by, as two hashes; the first one says to which task it goes."""

    def __init__(self, names: Sequence[str], schema: pa.Schema) -> None:
        self.schema = pa.schema([schema.field(name) for name in names])

    def hashes(self, rows: pa.RecordBatch) -> tuple[U64, I64]:
        """Of each row."""
        columns = [rows.column(name) for name in self.schema.names]
        prints: U64 = hash_columns(columns, _PRINT)
        return hash_columns(columns), prints.view(np.int64)


@dataclass(frozen=True, slots=True)
class _Fresh:
    """Rows that are not in the store yet."""

    hashes: U64
    prints: I64
    gone: NDArray[np.bool_]
    rows: pa.RecordBatch

    @classmethod
    def newest(cls, parts: Sequence[_Fresh]) -> _Fresh:
        """The last row of each key, sorted by key."""
        hashes = np.concatenate([each.hashes for each in parts])
        prints = np.concatenate([each.prints for each in parts])
        order = np.lexsort((prints, hashes))
        h, p = hashes[order], prints[order]
        at = order[np.append((h[1:] != h[:-1]) | (p[1:] != p[:-1]), True)]
        gone = np.concatenate([each.gone for each in parts])
        rows = pa.concat_batches([each.rows for each in parts])
        return cls(hashes[at], prints[at], gone[at], rows.take(pa.array(at)))

    def only(self, keep: NDArray[np.bool_]) -> _Fresh:
        """Some of them."""
        rows = self.rows.filter(pa.array(keep))
        return _Fresh(self.hashes[keep], self.prints[keep], self.gone[keep], rows)

    def places(self, hashes: U64, prints: I64) -> tuple[I64, I64]:
        """Which of these keys are here, and where; of rows that are the `newest`."""
        first = np.searchsorted(self.hashes, hashes, "left")
        end = np.searchsorted(self.hashes, hashes, "right")
        found = [
            (i, place)
            for i in np.flatnonzero(first < end).tolist()
            for place in range(first[i], end[i])
            if self.prints[place] == prints[i]
        ]
        return np.array([i for i, _ in found], np.int64), np.array([p for _, p in found], np.int64)


@dataclass(frozen=True, slots=True)
class _Moment:
    """What a task has at one moment, for readers in any thread: nothing of it changes."""

    runs: RunSnapshot
    fresh: tuple[_Fresh, ...] = ()
    """Each with the newest rows of its keys; few, for those of like size are one."""

    def find(self, hashes: U64, prints: I64) -> list[pa.RecordBatch]:
        """The rows of these keys, in any order."""
        found, unknown = list[pa.RecordBatch](), np.ones(len(hashes), np.bool_)
        for each in reversed(self.fresh):
            keys, places = each.places(hashes, prints)
            new = unknown[keys] & ~each.gone[places]
            found.append(each.rows.take(pa.array(places[new])))
            unknown[keys] = False
        found += self.runs.find(hashes[unknown], prints[unknown])
        return [rows for rows in found if len(rows)]

    def also(self, fresh: _Fresh) -> _Moment:
        """With more rows."""
        parts = [*self.fresh, _Fresh.newest([fresh])]
        while len(parts) > 1 and 2 * len(parts[-1].hashes) >= len(parts[-2].hashes):
            parts[-2:] = [_Fresh.newest(parts[-2:])]
        return _Moment(self.runs, tuple(parts))

    def scan(self) -> Iterator[pa.RecordBatch]:
        """All rows."""
        if not self.fresh:
            yield from (found.rows for found in self.runs.scan())
            return
        fresh = _Fresh.newest(self.fresh)
        pairs = pairs_of(fresh.hashes, fresh.prints)
        for found in self.runs.scan():
            keep = ~np.isin(pairs_of(found.hashes, found.times), pairs)
            yield found.rows.filter(pa.array(keep))
        yield fresh.only(~fresh.gone).rows


_NOTHING = _Moment(RunSnapshot(pa.schema([]), "hash", {}))


@dataclass(slots=True)
class _Version:
    """A moment that may be read as a dataset."""

    rows: _Moment
    lock: threading.Lock = field(default_factory=threading.Lock)
    sealed_s: float | None = None
    """When it became a file."""
    passed_s: float | None = None
    """When a later one took its place."""


class Place(NamedTuple):
    """Which part of a view a task has; `run` counts how often its tasks began."""

    task: TaskId
    n_tasks: int
    run: int


class ViewWriter:
    """See `StreamWriter`; besides, its rows are part of the checkpoint.

    `get` and `wanted` are called in any thread, everything else in that of the task, to which the
    store belongs: readers never wait for it.
    """

    def __init__(
        self,
        target: DatasetTarget,
        place: Place,
        schema: pa.Schema,
        store: ColumnStore,
        *,
        in_memory: bool = True,
    ) -> None:
        task = place.task
        self.name, self.partition, self.n_partitions = target.name, task.task, place.n_tasks
        self.prefix = f"{VIEW}{task.job}.{place.run}."
        self.schema, self.keys = schema, Keys(target.keys, schema)
        self._kind, self._store, self._is_in_memory = target.kind, store, in_memory
        self._access = current()
        self._views = self._access.views
        self._now, self._n_fresh = _Moment(self._runs()), 0
        self._done: _Moment | None = None
        """What it had at the last complete checkpoint."""
        self._prepared: RunSnapshot | None = None
        self._lock = threading.Lock()
        """Of the versions."""
        self._versions: dict[str, _Version] = {}
        self._ended: str | None = None
        """The transaction of its last rows, once these are a file."""
        self._stays = set[str]()
        """Versions whose files stay when the task has ended, until a sweep removes them."""
        self.over_s: float | None = None
        """When the job came to its end."""
        self._views.add(self)

    # ---- the task

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows, or changes."""
        if not (n := batch.num_rows):
            return
        gone = np.zeros(n, np.bool_)
        if self._kind:
            gone = pc.is_in(batch.column(self._kind), _GONE).to_numpy(zero_copy_only=False)
        columns = [batch.column(field.name).cast(field.type) for field in self.schema]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        rows = rows.copy_to(pa.default_cpu_memory_manager())  # a ring wants its memory back
        hashes, prints = self.keys.hashes(rows)
        self._now = self._now.also(_Fresh(hashes, prints, gone, rows))
        self._n_fresh += n
        if self._n_fresh >= FRESH_ROWS:
            self._flush()

    def prepare(self, checkpoint: int) -> bytes:
        """Have a version of all rows; the handle shows it."""
        transaction = self.prefix + moment_at(checkpoint)
        self._flush()
        self._prepared = self._now.runs
        with self._lock:
            self._versions[transaction] = _Version(self._now)
        if checkpoint == FINAL:
            self._end(transaction)
        schema = base64.b64encode(self.schema.serialize().to_pybytes()).decode()
        facts = {
            "dataset": self.name, "keys": self.keys.schema.names, "schema": schema,
            "prefix": self.prefix, "checkpoint": checkpoint, "partition": self.partition,
            "partitions": self.n_partitions, "rows": self._prepared.n_rows,
            "agent": self._access.agent_id,
        }  # fmt: skip
        return Handle("view", facts).encode()

    def on_complete(self, checkpoint: int) -> None:
        """Readers come for that one from now on; earlier ones go after a while."""
        with self._lock:
            if (done := self._versions.get(f"{self.prefix}{checkpoint}")) is not None:
                self._done = done.rows
            old = self._passed(checkpoint, time.monotonic())
        for transaction in old:
            self._discard(transaction)

    def interrupt(self) -> None:
        """It waits for nobody."""

    def abandon(self) -> None:
        """Nobody reads here any more, but what is a file."""
        if self._ended is None:
            self._views.remove(self)
        with self._lock:
            old, self._versions = self._versions, {}
        self._now, self._done = _NOTHING, None
        self._store.close()
        for transaction in old:
            if transaction not in self._stays:
                self._discard(transaction)

    def snapshot(self) -> RunSnapshot:
        """The rows that were prepared last, for the checkpoint."""
        assert self._prepared is not None
        return self._prepared

    def restore(self, snapshots: Sequence[SnapshotReader], hashes: Span) -> None:
        """Go on with the rows of a checkpoint that have these hashes."""
        self._store.restore(snapshots, hashes)
        if any(run.index.has_others(hashes) for run in self._runs().runs.get(0, ())):
            self._rewrite()
        self._now = self._done = _Moment(self._runs())

    def counts(self) -> dict[str, int]:
        """What lies in the store."""
        stored = self._store.stored()
        if self._is_in_memory:
            return {"state_hot_bytes": stored.bytes}
        return {
            "state_cold_bytes": stored.bytes,
            "state_cold_rows": stored.rows,
            "state_cold_files": stored.pieces,
            "state_merges": stored.merges,
            "state_written_bytes": stored.bytes_written,
        }

    # ---- readers

    def get(self, keys: pa.RecordBatch, *, live: bool) -> list[pa.RecordBatch]:
        """The rows of these keys, in any order."""
        hashes, prints = self.keys.hashes(keys)
        if len(hashes) > 1:  # a key that is asked for twice is one
            at = np.unique(pairs_of(hashes, prints), return_index=True)[1]
            hashes, prints = hashes[at], prints[at]
        if self._ended is not None:
            rows = self._views.files.read(self._request(self._ended))
            return [each for batch in rows if len(each := self._among(batch, hashes, prints))]
        if (moment := self._now if live else self._done) is None:
            raise NotFoundError(
                f"view {self.name!r} has no complete checkpoint yet; wait for the first one, or "
                "read it live"
            )
        return moment.find(hashes, prints)

    def wanted(self, transaction: str) -> None:
        """Somebody is about to read a version: have it there as a file, if it is one of ours."""
        if self._ended is not None:
            if transaction not in self._stays:
                self._copy_last(transaction)
            return
        now = time.monotonic()
        with self._lock:
            version = self._versions.get(transaction)
            if transaction == self.prefix + LIVE and (
                version is None or now - (version.sealed_s or now) > LIVE_S
            ):
                version = self._versions[transaction] = _Version(self._now)
        if version is not None:
            self._seal(transaction, version)

    # ---- inside

    def _end(self, transaction: str) -> None:
        """Have files of the last rows, and of the version that readers may just have heard of."""
        with self._lock:
            newest = [each for each in self._versions.items() if each[1].passed_s is None]
        for name, each in newest:
            if moment_of(name) != LIVE:
                self._seal(name, each)
                self._stays.add(name)
        self._ended = transaction

    def _among(self, rows: pa.RecordBatch, hashes: U64, prints: I64) -> pa.RecordBatch:
        keep = np.isin(pairs_of(*self.keys.hashes(rows)), pairs_of(hashes, prints))
        return rows.filter(pa.array(keep))

    def _flush(self) -> None:
        """Put the newest of the fresh rows of each key into the store."""
        if not self._now.fresh:
            return
        fresh = _Fresh.newest(self._now.fresh)
        gone, here = fresh.only(fresh.gone), fresh.only(~fresh.gone)
        self._store.remove(0, gone.hashes, gone.prints)
        self._store.put(0, here.hashes, here.prints, here.rows, replaces=True)
        self._now, self._n_fresh = _Moment(self._runs()), 0

    def _runs(self) -> RunSnapshot:
        taken = self._store.snapshot()
        assert isinstance(taken, RunSnapshot)
        return taken

    def _rewrite(self) -> None:
        """Have no rows in files that are another task's: `n_rows` counts what is here."""
        rows = self._store.scan()
        first = next(rows, None)
        self._store.drop(0)
        while first is not None:
            self._store.put(0, first.hashes, first.times, first.rows)
            first = next(rows, None)

    def _passed(self, checkpoint: int, now: float) -> list[str]:
        """Versions that nobody should come for any more."""
        for transaction, version in self._versions.items():
            number = transaction.removeprefix(self.prefix)
            if number.isdigit() and int(number) < checkpoint and version.passed_s is None:
                version.passed_s = now
        old = [t for t, v in self._versions.items() if v.passed_s and now - v.passed_s > KEPT_S]
        for transaction in old:
            del self._versions[transaction]
        return old

    def _request(self, transaction: str) -> DatasetRequest:
        name = live_name(self.name) if moment_of(transaction) == LIVE else self.name
        part = Part(transaction, WRITER, 0)
        return DatasetRequest(name=name, version=0, partition=self.partition, parts=(part,))

    def _seal(self, transaction: str, version: _Version) -> None:
        with version.lock:
            if version.sealed_s is None:
                self._store_file(transaction, version.rows.scan())
                version.sealed_s = time.monotonic()
                if moment_of(transaction) == LIVE:  # nobody else wants it
                    version.rows = _NOTHING

    def _copy_last(self, transaction: str) -> None:
        """The last rows of a task that has ended under the name others have for theirs."""
        assert self._ended is not None
        with self._lock:
            if transaction not in self._versions:
                self._store_file(transaction, self._views.files.read(self._request(self._ended)))
                self._versions[transaction] = _Version(_NOTHING)

    def _store_file(self, transaction: str, rows: Iterator[pa.RecordBatch]) -> None:
        writer = self._views.files.open_copy(self._request(transaction), self.schema)
        try:
            writer.write(self.partition, pa.RecordBatch.from_pylist([], self.schema))
            for batch in rows:
                writer.write(self.partition, batch)
            writer.seal()
        except BaseException:
            writer.abandon()
            raise

    def _discard(self, transaction: str) -> None:
        with suppress(FabricError):  # a sweep removes it
            request = self._request(transaction)
            self._views.files.discard(request.name, transaction)


class Views:
    """The views whose partitions are kept on one agent; thread-safe."""

    def __init__(self, files: DatasetFolder) -> None:
        self.files = files
        self._lock = threading.Lock()
        self._writers: dict[tuple[str, int], ViewWriter] = {}
        ourselves = weakref.WeakMethod(self._wanted)
        files.ask(lambda *asked: (found := ourselves()) and found(*asked))

    def add(self, writer: ViewWriter) -> None:
        """From now on this one has its partition."""
        with self._lock:
            self._writers[writer.name, writer.partition] = writer

    def remove(self, writer: ViewWriter) -> None:
        """It is over, unless another one took its place."""
        with self._lock:
            if self._writers.get((writer.name, writer.partition)) is writer:
                del self._writers[writer.name, writer.partition]

    def forget(self, name: str, job: str) -> None:
        """The job of a view has ended; who has just heard of a checkpoint may still read it."""
        now = time.monotonic()
        with self._lock:
            for key, writer in list(self._writers.items()):
                if key[0] == name and writer.prefix.startswith(f"{VIEW}{job}."):
                    writer.over_s = now
                if writer.over_s is not None and now - writer.over_s > KEPT_S:
                    del self._writers[key]

    def get(
        self, name: str, partition: int, keys: pa.Table, *, live: bool = False
    ) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        """Rows of `keys`, which has the view's key columns.

        Raises
        ------
        NotFoundError
            The partition is not kept here.
        DataError
            These are not its keys.
        """
        with self._lock:
            writer = self._writers.get((name, partition))
        if writer is None:
            raise NotFoundError(f"partition {partition} of view {name!r} is not kept on this agent")
        batch = _keys_of(keys, writer.keys.schema, name)
        return writer.schema, writer.get(batch, live=live)

    def _wanted(self, name: str, transaction: str, partition: int) -> None:
        if moment_of(transaction) == LIVE:
            name = name.removesuffix(f".{LIVE}")
        with self._lock:
            writer = self._writers.get((name, partition))
        if writer is not None and transaction.startswith(writer.prefix):
            writer.wanted(transaction)


def moment_at(checkpoint: int) -> str:
    """What a view's transaction says of a checkpoint, or of the end."""
    return LAST if checkpoint == FINAL else str(checkpoint)


def _keys_of(keys: pa.Table, schema: pa.Schema, name: str) -> pa.RecordBatch:
    try:
        columns = [keys.column(each.name).cast(each.type).combine_chunks() for each in schema]
    except (pa.ArrowException, KeyError, ValueError) as error:
        told = ", ".join(f"{each.name}: {each.type}" for each in schema)
        raise DataError(f"view {name!r} knows rows by {told}, got {keys.schema}") from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)
