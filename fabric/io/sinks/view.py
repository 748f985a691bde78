"""The sink of views: a task's newest row of each key, shown checkpoint by checkpoint.

    rows ─► the newest of each key ─► ColumnStore, by two hashes of the key
    barrier ─► a version: what the store has at that moment ─► complete: the dataset is at it
    a version is read here for the first time ─► its rows become a file of the dataset

One job: `ViewWriter`, the sink of one task for a `DatasetTarget` in mode "view", and what
`fabric.io.sinks` does with its handles. A version costs nothing until somebody reads it: it shares
what the store has in memory, or in files. The rows stay with the tasks; the coordinator is told
where. When a task ends, its last rows are a file, so the dataset outlives the job.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fabric.checkpoint.manifest import FINAL
from fabric.control import control_pb2 as pb
from fabric.control.datasets import FINAL as LAST
from fabric.control.datasets import LIVE, VIEW, is_kept, job_of, live_name, moment_of
from fabric.errors import FabricError, NotFoundError
from fabric.flight.ticket import DatasetRequest, Part
from fabric.ids import TaskId
from fabric.io.dataset.access import current
from fabric.io.dataset.views import I64, KEPT_S, NOTHING, U64, Fresh, Keys, Moment, Version
from fabric.io.sinks.protocol import Handle, SinkStart, SinkWriter, grouped
from fabric.plan.targets import DatasetTarget
from fabric.state.backend import SnapshotReader
from fabric.state.column_stores import ColumnStore, column_engine, open_column_store, stored_type
from fabric.state.column_stores.contract import Span
from fabric.state.column_stores.runs import RunSnapshot
from fabric.state.column_stores.scans import pairs_of

WRITER = "view"
LIVE_S = 0.2
"""Who reads what is there now gets rows that are at most so old."""
FRESH_ROWS = 1 << 16
"""So many rows are gathered before they go into the store; a barrier takes what there is."""
_GONE = pa.array(["-U", "-D"])


class Place(NamedTuple):
    """Which part of a view a task has; `run` counts how often its tasks began."""

    task: TaskId
    n_tasks: int
    run: int


class ViewWriter(SinkWriter):
    """See `SinkWriter`; besides, its rows are part of the checkpoint.

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
        self._now, self._n_fresh = Moment(self._runs()), 0
        self._done: Moment | None = None
        """What it had at the last complete checkpoint."""
        self._prepared: RunSnapshot | None = None
        self._lock = threading.Lock()
        """Of the versions."""
        self._versions: dict[str, Version] = {}
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
        self._now = self._now.also(Fresh(hashes, prints, gone, rows))
        self._n_fresh += n
        if self._n_fresh >= FRESH_ROWS:
            self._flush()

    def prepare(self, checkpoint: int = FINAL) -> bytes:
        """Have a version of all rows; the handle shows it."""
        transaction = self.prefix + moment_at(checkpoint)
        self._flush()
        self._prepared = self._now.runs
        with self._lock:
            self._versions[transaction] = Version(self._now)
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

    def abandon(self) -> None:
        """Nobody reads here any more, but what is a file."""
        if self._ended is None:
            self._views.remove(self)
        with self._lock:
            old, self._versions = self._versions, {}
        self._now, self._done = NOTHING, None
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
        self._now = self._done = Moment(self._runs())

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
                version = self._versions[transaction] = Version(self._now)
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
        fresh = Fresh.newest(self._now.fresh)
        gone, here = fresh.only(fresh.gone), fresh.only(~fresh.gone)
        self._store.remove(0, gone.hashes, gone.prints)
        self._store.put(0, here.hashes, here.prints, here.rows, replaces=True)
        self._now, self._n_fresh = Moment(self._runs()), 0

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

    def _seal(self, transaction: str, version: Version) -> None:
        with version.lock:
            if version.sealed_s is None:
                self._store_file(transaction, version.rows.scan())
                version.sealed_s = time.monotonic()
                if moment_of(transaction) == LIVE:  # nobody else wants it
                    version.rows = NOTHING

    def _copy_last(self, transaction: str) -> None:
        """The last rows of a task that has ended under the name others have for theirs."""
        assert self._ended is not None
        with self._lock:
            if transaction not in self._versions:
                self._store_file(transaction, self._views.files.read(self._request(self._ended)))
                self._versions[transaction] = Version(NOTHING)

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


def open_view(
    target: DatasetTarget,
    place: Place,
    schema: pa.Schema,
    start: SinkStart,
) -> ViewWriter:
    """The writer of one task; it keeps rows in files below `scratch` where the job's state does."""
    stored, scratch = stored_schema(target, schema), start.scratch
    engine = "memory" if column_engine(start.state) == "memory" or scratch is None else "arrow"
    store = open_column_store(engine, stored, scratch)
    return ViewWriter(target, place, stored, store, in_memory=engine == "memory")


def stored_schema(target: DatasetTarget, schema: pa.Schema) -> pa.Schema:
    """The columns of a view: those of its rows without their kind, dictionaries as values."""
    return pa.schema(
        [each.with_type(stored_type(each.type)) for each in schema if each.name != target.kind]
    )


def publish(handles: Sequence[Handle]) -> None:
    """Show the newest checkpoint that all tasks are in; may be repeated."""
    for facts in grouped(handles, "prefix"):
        if (view := _shown(facts[0]["prefix"], facts)) is not None:
            reply = current().control.dataset(pb.DatasetRequest(view=view))
            current().locations.merge(pb.Locations(datasets=reply.datasets))


def take_back(handles: Sequence[Handle]) -> None:
    """The next checkpoint takes its place; no task has these rows any more."""


def abandon(handles: Sequence[Handle]) -> None:
    """It was shown to nobody; files go with the task, or with a sweep."""


def discard(target: DatasetTarget, job: str, *, published: bool) -> None:
    """The job has ended: unless it came to its end, nobody has the rows any more."""
    access = current()
    access.views.forget(target.name, job)
    if published:
        return
    for name in (target.name, live_name(target.name)):
        with suppress(NotFoundError):
            found = access.location(name)
            if job_of(found) == job and is_kept(found):
                access.control.dataset(pb.DatasetRequest(drop=pb.DatasetDrop(name=name)))
                access.locations.forget_dataset(name)


def _shown(prefix: str, facts: list[dict[str, Any]]) -> pb.DatasetView | None:
    """The newest checkpoint that all tasks are in; those that have ended are in all that follow."""
    n = facts[0]["partitions"]
    for checkpoint in sorted({each["checkpoint"] for each in facts}, reverse=True):
        there = {
            each["partition"]: each for each in facts if each["checkpoint"] in (FINAL, checkpoint)
        }
        if len(there) == n:
            return pb.DatasetView(
                name=facts[0]["dataset"],
                schema=base64.b64decode(facts[0]["schema"]),
                keys=facts[0]["keys"],
                owners=[there[partition]["agent"] for partition in range(n)],
                transaction=prefix + moment_at(checkpoint),
                rows=sum(each["rows"] for each in there.values()),
            )
    return None


def moment_at(checkpoint: int) -> str:
    """What a view's transaction says of a checkpoint, or of the end."""
    return LAST if checkpoint == FINAL else str(checkpoint)
