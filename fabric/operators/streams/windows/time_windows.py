"""Windows of fixed length, and groups that close by a key: each gives one result, when it closes.

One job: `TimeWindows`. A row is added up once, in the group of the first and the last of its
windows; when a sliding or cumulative window closes, the groups that lie in it are merged. When
groups take more memory than the node has (`Context.state_bytes`), all of them are handed down
(`cold_groups.py`); then those that are due are put there, too, and results are made of what is read
back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from fabric._cython.kernels.group_table import GroupTable
from fabric.event_time import BEGINNING, END_OF_TIME
from fabric.event_time.windows import expanded, starts
from fabric.operators.contract import Batches, Context
from fabric.operators.snapshots import Facts, GroupTimes
from fabric.operators.streams.accumulators import Ids, RowGroups
from fabric.operators.streams.columns import ROWS_MAX, Ints
from fabric.operators.streams.group_state import GroupState
from fabric.operators.streams.windows.window_operator import WindowOperator
from fabric.plan.event_windows import Cumulative, Sliding
from fabric.plan.nodes import StreamAggregate
from fabric.state.backend import SnapshotReader

_PAIRS = 1 << 18
"""About how many groups are merged into windows at once."""
_ROOM = 8
"""Places for each pair, at most, in a table by code: beyond, codes are sorted."""
_FIRED = "fired_us"


class TimeWindows(WindowOperator):
    """Tumbling, sliding and cumulative windows and closing groups that never change a result."""

    looks_up = False

    def __init__(self, node: StreamAggregate, output: pa.Schema, source: pa.Schema) -> None:
        self._shared = isinstance(node.window, Sliding | Cumulative)
        marks = ["last", "first"] if self._shared else ["last"]
        super().__init__(node, output, source, marks=marks)
        self._next = END_OF_TIME  # no window ends before
        self._fired = GroupTimes(BEGINNING)
        """Windows that end then or before have given their result."""

    def open(self, context: Context) -> None:
        """Groups that are windows are wanted by their ends; others with all those of their key."""
        self.order = "hash" if self._shared else "time"
        super().open(context)

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """Add rows up."""
        batch, spans = self.ends.on_time(batch)
        if not batch.num_rows:
            return []
        self._next = min(self._next, int(spans.first.min()))
        marks = {"last": spans.last, "first": spans.first} if self._shared else {"last": spans.last}
        ids = self.state.number(self.state.key_columns(batch), marks)
        self.state.aggregates.update(RowGroups(ids), batch)
        if self.state.is_crowded:
            self._evict(self.state.ids())
        return []

    def passed_time(self) -> Batches:
        """See `WindowOperator`."""
        passed = self.ends.passed
        if self._next > passed or not (self.state.n_groups or self.state.has_cold):
            return []
        ids = self.state.ids()
        due = ids[self._first(self.state, ids) <= passed]
        fired, self._fired = self._fired, self._fired.raised(passed)
        if self.state.has_cold:
            self._evict(due)
            return self.gradually(self._results_of_cold(fired, passed))
        found = self._results(self.state, due, fired, passed)
        self.state.remove(due[self._last(self.state, due) <= passed])
        self._plan()
        return found

    def now(self) -> Iterator[pa.RecordBatch]:
        """See `WindowOperator`; of windows that have not given their result."""
        ids = self.state.ids()
        if self._shared:  # each group lies in many windows
            for some in self._windows(self.state, ids, self._fired, END_OF_TIME):
                yield from some
            return
        for begin in range(0, len(ids), ROWS_MAX):
            yield from self._groups(self.state, ids[begin : begin + ROWS_MAX])

    def silent_until(self) -> int:
        """Until the next window ends, be there a group for it or not: its rows may be on their
        way."""
        return BEGINNING if self._next <= self.ends.passed else self.ends.next_us()

    def facts(self) -> Facts:
        """See `WindowOperator`."""
        return {_FIRED: self._fired.fact()}

    def restored_facts(self, snapshots: Sequence[SnapshotReader], key_groups: range) -> None:
        """See `WindowOperator`."""
        self._fired = GroupTimes.restored(snapshots, _FIRED, key_groups, BEGINNING)

    def restored(self) -> None:
        """See `WindowOperator`."""
        self._plan()

    def _plan(self) -> None:
        """Note when the next window ends."""
        first = self._after(self._fired, self.state, self.state.ids())
        self._next = int(first.min()) if len(first) else END_OF_TIME
        if self.state.has_cold:
            self._next = min(self._next, self.ends.next_end(self._fired.least))

    def _evict(self, ids: Ids) -> None:
        self.state.evict(ids, self._last(self.state, ids))

    def _results_of_cold(self, fired: GroupTimes, passed: int) -> Iterator[Batches]:
        """Of windows whose groups have all been handed down, a portion at a time."""
        below = self.state.below
        for rows in below.by_key() if self._shared else below.due(passed):
            state = self.state.fresh()
            state.take(rows)
            ids = state.ids()
            yield self._results(state, ids[self._first(state, ids) <= passed], fired, passed)
        below.expire(passed)
        self._plan()

    def _results(self, state: GroupState, ids: Ids, fired: GroupTimes, passed: int) -> Batches:
        """Of the windows of these groups that end after `fired`, up to `passed`."""
        if self._shared:
            found = self._windows(state, ids, fired, passed)
            return [batch for some in found for batch in some]
        return self._groups(state, ids)

    def _last(self, state: GroupState, ids: Ids) -> Ints:
        return state.marks["last"].values[ids]

    def _first(self, state: GroupState, ids: Ids) -> Ints:
        return state.marks["first" if self._shared else "last"].values[ids]

    def _after(self, fired: GroupTimes, state: GroupState, ids: Ids) -> Ints:
        """The first end of each group's windows that is after `fired`; its only one stays."""
        first, step = self._first(state, ids), self.ends.step
        if not self._shared:
            return first
        over = fired.of(lambda: state.key_hashes(ids))
        return np.where(first > over, first, first + (np.maximum(over, first) - first) // step
                        * step + step)  # fmt: skip

    def _groups(self, state: GroupState, ids: Ids) -> Batches:
        """Groups that are windows: their results, in order of ends."""
        ends = self._last(state, ids)
        if len(ids) and ends.min() != ends.max():
            order = np.argsort(ends, kind="stable")
            ids, ends = ids[order], ends[order]
        return self._rows(state.keys(ids), ends, state.aggregates.results(ids))

    def _windows(
        self, state: GroupState, ids: Ids, fired: GroupTimes, passed: int
    ) -> Iterator[Batches]:
        """Windows that are made of several groups, some at a time: the rows of each, then those of
        the next one."""
        ids = ids[np.argsort(self._first(state, ids), kind="stable")]
        first = self._after(fired, state, ids)
        last = np.minimum(self._last(state, ids), passed)
        keys, n_keys = self._numbered_keys(state, ids)
        step = self.ends.step
        for members, ends in _portions(first, last, step):
            of = ids[members]
            windows, some = _numbered((ends - ends.min()) // step * n_keys + keys[members])
            merged = state.aggregates.fresh()
            merged.resize(len(some))
            merged.merge(RowGroups(windows), state.aggregates.states(of))
            results = merged.results(np.arange(len(some)))
            yield self._rows(state.keys(of[some]), ends[some], results)

    def _numbered_keys(self, state: GroupState, ids: Ids) -> tuple[Ints, int]:
        """The number of each group's key, once for all windows that it lies in, and how many."""
        if not len(self.shape.keys):
            return np.zeros(len(ids), np.int64), 1
        table = GroupTable(self.shape.keys)
        return table.upsert(state.keys(ids).columns).astype(np.int64), table.n_ids

    def _rows(self, keys: pa.RecordBatch, ends: Ints, results: Sequence[pa.Array]) -> Batches:
        """Windows of `keys`."""
        columns = list(results)
        if self.ends.window is not None:
            bounds = starts(self.ends.window, ends), ends
            columns = [*(pa.array(self.ends.clock.instants(bound)) for bound in bounds), *columns]
        return self.shape.rows(keys, columns)


def _numbered(codes: Ints) -> tuple[Ints, Ints]:
    """Numbers from 0 for the different `codes`, in their order, and where one of each stands.

    >>> numbers, some = _numbered(np.array([7, 3, 7]))
    >>> numbers.tolist(), some.tolist() in ([1, 0], [1, 2])
    ([1, 0, 1], True)
    """
    room = int(codes.max()) + 1
    if room > _ROOM * len(codes):
        _, some, numbers = np.unique(codes, return_index=True, return_inverse=True)
        return numbers, some
    met = np.zeros(room, np.bool_)
    met[codes] = True
    numbers = (np.cumsum(met) - 1)[codes]
    some = np.empty(int(numbers.max()) + 1, np.int64)
    some[numbers] = np.arange(len(codes))
    return numbers, some


def _portions(first: Ints, last: Ints, step: int) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of a member and the end of a window it is in, some windows at a time, by their ends.

    >>> [(m.tolist(), e.tolist()) for m, e in _portions(np.array([1, 2]), np.array([2, 3]), 1)]
    [([0, 0, 1, 1], [1, 2, 2, 3])]
    """
    while len(first) and (open_ := first <= last).any():
        begin, until = _until(first[open_], last[open_], step)
        if begin == until:
            members = np.flatnonzero(open_ & (first == begin))
            yield members, np.full(len(members), begin)
        else:
            yield expanded(first, np.minimum(last, until), step)
        first = np.where(first > until, first, first + (until - first) // step * step + step)


def _until(first: Ints, last: Ints, step: int) -> tuple[int, int]:
    """The first end, and one up to which there are about `_PAIRS` pairs; at least one window."""
    total = int(((last - first) // step + 1).sum())
    begin, end = int(first.min()), int(last.max())
    if total <= _PAIRS:
        return begin, end
    return begin, begin + (end - begin) // step * _PAIRS // total * step
