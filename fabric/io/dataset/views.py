"""Views on one agent: the newest row of each key of a stream, a dataset while its job runs.

One job: `Views`, the partitions of views that an agent keeps, and `Moment`, what one of them has at
a moment, for readers in any thread. A key is known by 128 bits of hashes. Who writes a view is in
`fabric/io/sinks/view.py`.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.kernels.hash import hash_columns
from fabric._cython.shuffle.datasets.files import DatasetFolder
from fabric.control.datasets import LIVE, STATE, VIEW, moment_of
from fabric.errors import DataError, NotFoundError
from fabric.state.column_stores.runs import RunSnapshot
from fabric.state.column_stores.scans import pairs_of

KEPT_S = 30.0
"""So long after the next one a version can still be read."""
_PRINT = 0x5EED
"""Seed of the second hash of a key."""

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
class Fresh:
    """Rows that are not in the store yet."""

    hashes: U64
    prints: I64
    gone: NDArray[np.bool_]
    rows: pa.RecordBatch

    @classmethod
    def newest(cls, parts: Sequence[Fresh]) -> Fresh:
        """The last row of each key, sorted by key."""
        hashes = np.concatenate([each.hashes for each in parts])
        prints = np.concatenate([each.prints for each in parts])
        order = np.lexsort((prints, hashes))
        h, p = hashes[order], prints[order]
        at = order[np.append((h[1:] != h[:-1]) | (p[1:] != p[:-1]), True)]
        gone = np.concatenate([each.gone for each in parts])
        rows = pa.concat_batches([each.rows for each in parts])
        return cls(hashes[at], prints[at], gone[at], rows.take(pa.array(at)))

    def only(self, keep: NDArray[np.bool_]) -> Fresh:
        """Some of them."""
        rows = self.rows.filter(pa.array(keep))
        return Fresh(self.hashes[keep], self.prints[keep], self.gone[keep], rows)

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
class Moment:
    """What a task has at one moment, for readers in any thread: nothing of it changes."""

    runs: RunSnapshot
    fresh: tuple[Fresh, ...] = ()
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

    def also(self, fresh: Fresh) -> Moment:
        """With more rows."""
        parts = [*self.fresh, Fresh.newest([fresh])]
        while len(parts) > 1 and 2 * len(parts[-1].hashes) >= len(parts[-2].hashes):
            parts[-2:] = [Fresh.newest(parts[-2:])]
        return Moment(self.runs, tuple(parts))

    def scan(self) -> Iterator[pa.RecordBatch]:
        """All rows."""
        if not self.fresh:
            yield from (found.rows for found in self.runs.scan())
            return
        fresh = Fresh.newest(self.fresh)
        pairs = pairs_of(fresh.hashes, fresh.prints)
        for found in self.runs.scan():
            keep = ~np.isin(pairs_of(found.hashes, found.times), pairs)
            yield found.rows.filter(pa.array(keep))
        yield fresh.only(~fresh.gone).rows


NOTHING = Moment(RunSnapshot(pa.schema([]), "hash", {}))


@dataclass(slots=True)
class Version:
    """A moment that may be read as a dataset."""

    rows: Moment
    lock: threading.Lock = field(default_factory=threading.Lock)
    sealed_s: float | None = None
    """When it became a file."""
    passed_s: float | None = None
    """When a later one took its place."""


class ViewPartition(Protocol):
    """One task's part of a view, as `Views` keeps it; see `ViewWriter`."""

    name: str
    partition: int
    prefix: str
    keys: Keys
    schema: pa.Schema
    over_s: float | None

    def get(self, keys: pa.RecordBatch, *, live: bool) -> list[pa.RecordBatch]:
        """The rows of these keys, at the newest version that is shown or as they are now."""

    def wanted(self, transaction: str) -> None:
        """A version is read: make its rows a file."""


class Views:
    """The views whose partitions are kept on one agent; thread-safe."""

    def __init__(self, files: DatasetFolder) -> None:
        self.files = files
        self._lock = threading.Lock()
        self._writers: dict[tuple[str, int], ViewPartition] = {}
        self.on_state: Callable[[str, int], None] | None = None
        """Is told of a transaction and a partition of a state that is about to be read."""
        ourselves = weakref.WeakMethod(self._wanted)
        files.ask(lambda *asked: (found := ourselves()) and found(*asked))

    def add(self, writer: ViewPartition) -> None:
        """From now on this one has its partition."""
        with self._lock:
            self._writers[writer.name, writer.partition] = writer

    def remove(self, writer: ViewPartition) -> None:
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
        if transaction.startswith(f"{VIEW}{STATE}"):
            if self.on_state is not None:
                self.on_state(transaction, partition)
            return
        if moment_of(transaction) == LIVE:
            name = name.removesuffix(f".{LIVE}")
        with self._lock:
            writer = self._writers.get((name, partition))
        if writer is not None and transaction.startswith(writer.prefix):
            writer.wanted(transaction)


def _keys_of(keys: pa.Table, schema: pa.Schema, name: str) -> pa.RecordBatch:
    try:
        columns = [keys.column(each.name).cast(each.type).combine_chunks() for each in schema]
    except (pa.ArrowException, KeyError, ValueError) as error:
        told = ", ".join(f"{each.name}: {each.type}" for each in schema)
        raise DataError(f"view {name!r} knows rows by {told}, got {keys.schema}") from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)
