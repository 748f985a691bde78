"""Groups that memory has no room for, as rows of a `ColumnStore`.

    groups ── the budget is spent ──► rows by hash of the key and end, a generation a span of ends
    a key comes again ──► `take_back`: the groups of all keys of a batch at once
    time passes       ──► `due`: what ends, a portion at a time ──► `expire`

One job: `ColdGroups`. A group ends when nothing needs it any more, such as with its window; groups
without an end have 0. Who looks groups up takes them back and has each group in one place. Who only
adds to groups until they end may put the same group down again and again: `due` gives all its rows
in one portion, as they were put.

A thread of its own sorts and writes what `put_behind` takes, and reads the next portion of a scan,
while the task goes on. All else waits for that thread first, so one thread at a time has the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.operators.contract import Context
from fabric.operators.snapshots import Joint, hashes_of, parts_of
from fabric.operators.streams.accumulators import as_type
from fabric.operators.streams.group_values import Numbers
from fabric.state.backend import Snapshot, SnapshotReader
from fabric.state.column_stores import (
    ALL_TIMES,
    ColumnStore,
    Found,
    Order,
    column_engine,
    open_column_store,
    rows_of_keys,
    stored_type,
)
from fabric.state.opened import Keys, Wanted, as_opened

T = TypeVar("T")

_COLD = "cold"
_GENERATIONS = 32
"""About so many hold what is written at once: files of a generation go when its last end passes."""
_SHIFT = 56
"""A generation is ``doublings << 56 | span``: what is written later, with wider spans, comes after
what is there of the same group already."""


class ColdGroups:
    """Rows of groups with columns `schema` in `store`; ends are `step` apart, or multiples of it.

    >>> schema = pa.schema([("k0", pa.int64()), ("n", pa.int64())])
    >>> cold = ColdGroups.opened(Context(), schema, 10, "time")
    >>> rows = pa.record_batch({"k0": [7, 8, 7], "n": [1, 2, 3]})
    >>> cold.put(rows, np.array([4, 5, 4], np.uint64), np.array([20, 20, 10]))
    >>> [due.to_pydict() for due in cold.due(10)], cold.expire(10), [len(d) for d in cold.due(20)]
    ([{'k0': [7], 'n': [3]}], None, [2])
    """

    def __init__(self, store: ColumnStore, schema: pa.Schema, step: int) -> None:
        self._store, self._schema, self._step = store, schema, step
        self._doublings = 0
        """A span of ends is as long as so many times two steps; never less while rows are here."""
        self._n_put = self._n_read = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cold groups")
        self._begun: Future[Any] | None = None
        """What that thread was given last."""

    @classmethod
    def opened(cls, context: Context, schema: pa.Schema, step: int, order: Order) -> ColdGroups:
        """In the folder of an operator, for rows of `schema`."""
        stored = pa.schema([field.with_type(stored_type(field.type)) for field in schema])
        engine = column_engine(context.state)
        return cls(open_column_store(engine, stored, context.folder, order=order), schema, step)

    @property
    def is_empty(self) -> bool:
        """Whether no row is here."""
        self.wait()
        return not self._store.generations()

    def wait(self) -> None:
        """Until this thread has the store; raises what went wrong in the other one, each time."""
        if self._begun is not None:
            self._begun.result()
            self._begun = None

    def put(
        self, rows: pa.RecordBatch, hashes: NDArray[np.uint64], ends: NDArray[np.int64]
    ) -> None:
        """Take rows of groups: the hash of each key, and each group's end."""
        self.wait()
        self._put(rows, hashes, ends)

    def put_behind(
        self, rows: pa.RecordBatch, hashes: NDArray[np.uint64], ends: NDArray[np.int64]
    ) -> None:
        """The same while the task goes on; every later call raises what went wrong."""
        self.wait()
        self._begin(partial(self._put, rows, hashes, ends))

    def _put(
        self, rows: pa.RecordBatch, hashes: NDArray[np.uint64], ends: NDArray[np.int64]
    ) -> None:
        if not len(ends):
            return
        columns = [c.cast(f.type) for c, f in zip(rows.columns, self._store.schema, strict=True)]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._store.schema)
        n_steps = (int(ends.max()) - int(ends.min())) // self._step
        doublings = (n_steps // _GENERATIONS).bit_length()
        was_empty = not self._store.generations()
        self._doublings = doublings if was_empty else max(doublings, self._doublings)
        spans = ends // (self._step << self._doublings)
        distinct = spans[:1] if spans.min() == spans.max() else np.unique(spans)  # this one sorts
        for span in distinct.tolist():
            own = spans == span
            some = rows if own.all() else rows.filter(pa.array(own))
            generation = self._doublings << _SHIFT | span % (1 << _SHIFT)
            self._store.put(generation, hashes[own], ends[own], some)
        self._n_put += len(ends)

    def take_back(self, hashes: NDArray[np.uint64]) -> Iterator[pa.RecordBatch]:
        """The rows of all groups whose keys have these hashes; they are here no more.

        Those of one group are in one batch, as they were put.
        """
        self.wait()
        return self._read(each.rows for each in self._store.take(hashes))

    def due(self, passed: int) -> Iterator[pa.RecordBatch]:
        """The rows of groups that end up to `passed`, in the order of the store."""
        self.wait()
        found = self._store.scan(times=(ALL_TIMES[0], passed + 1))
        return self._read(self._ahead(each.rows for each in found))

    def by_key(self) -> Iterator[pa.RecordBatch]:
        """All rows, those of one key in one batch; of a store by hash."""
        self.wait()
        return self._read(self._ahead(_whole(self._store.scan())))

    def expire(self, passed: int) -> None:
        """Forget groups that end up to `passed`."""
        self.wait()
        self._store.expire(passed + 1)

    def counts(self) -> dict[str, int]:
        """What lies here, and what that took."""
        self.wait()
        stored = self._store.stored()
        return {
            "state_cold_bytes": stored.bytes,
            "state_cold_rows": stored.rows,
            "state_cold_files": stored.pieces,
            "state_evicted_rows": self._n_put,
            "state_read_back_rows": self._n_read,
            "state_merges": stored.merges,
            "state_written_bytes": stored.bytes_written,
        }

    def beside(self, hot: Snapshot) -> Snapshot:
        """A snapshot of `hot` and of all rows here."""
        return hot if self.is_empty else Joint({"": hot, _COLD: self._store.snapshot()})

    def restore(self, snapshots: Sequence[SnapshotReader], wanted: Wanted) -> None:
        """Add the rows that are wanted and were `beside` others."""
        self.wait()
        below = [part for part in parts_of(snapshots, _COLD) if part.names()]
        if isinstance(wanted, Keys):
            for part in below:
                for generation, found in rows_of_keys(as_opened(part), self._store, wanted):
                    self._store.put(generation, *found)
        else:
            self._store.restore(below, hashes_of(wanted))
        self._doublings = max((n >> _SHIFT for n in self._store.generations()), default=0)

    def close(self) -> None:
        """Remove its files; nobody asks any more how the last `put_behind` went."""
        self._thread.shutdown()
        self._store.close()

    def _begin(self, work: Callable[[], T]) -> Future[T]:
        try:
            begun = self._thread.submit(work)
        except RuntimeError:  # the program ends, or no thread can start: the task itself does it
            self._thread.shutdown(cancel_futures=True)  # or a later thread would do it once more
            begun = Future()
            begun.set_result(work())
        self._begun = begun
        return begun

    def _ahead(self, portions: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same, the next one read while the task works on one."""
        step = partial(next, portions, None)
        self.wait()
        coming = self._begin(step)
        while (rows := coming.result()) is not None:
            self.wait()  # for what the task has begun meanwhile
            coming = self._begin(step)
            yield rows

    def _read(self, portions: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in portions:
            self._n_read += len(rows)
            columns = [as_type(c, f.type) for c, f in zip(rows.columns, self._schema, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)


class Recency:
    """When groups were last met, by the number of a batch.

    >>> recency = Recency()
    >>> recency.met(np.array([0, 1, 2])), recency.met(np.array([1]))
    (None, None)
    >>> recency.oldest(np.array([0, 1, 2])).tolist()
    [True, False, True]
    """

    def __init__(self) -> None:
        self._last, self._now = Numbers(np.int64, 0), 0

    def met(self, ids: NDArray[np.int64]) -> None:
        """A batch has rows of these groups."""
        self._now += 1
        self._last.put(ids, self._now)

    def oldest(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these groups make about the half that was not met for longest; one at least."""
        self._last.reach(ids)
        last = self._last.values[ids]
        found: NDArray[np.bool_] = last <= np.median(last)
        return found

    def renumber(self, ids: NDArray[np.int64]) -> None:
        """From now on group i is the one that was ``ids[i]``; there are no others."""
        self._last.reach(ids)
        self._last.values = self._last.values[ids]

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return self._last.nbytes


def _whole(found: Iterator[Found]) -> Iterator[pa.RecordBatch]:
    """The rows in batches that do not end amid a hash."""
    held, last = list[pa.RecordBatch](), -1
    for hashes, _, rows in found:
        if held and hashes[0] != last:
            yield pa.concat_batches(held)
            held = []
        last = hashes[-1]
        if begin := int(np.searchsorted(hashes, last, "left")):
            yield pa.concat_batches([*held, rows.slice(0, begin)])
            held = []
        held.append(rows.slice(begin))
    if held:
        yield pa.concat_batches(held)
