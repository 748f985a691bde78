"""Windows of fixed length, and groups that close by a key: each gives one result, when it closes.

One job: `TimeWindows`. A row is added up once, in the group of the first and the last of its
windows; when a sliding or cumulative window closes, the groups that lie in it are merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.event_time import BEGINNING, END_OF_TIME
from fabric.event_time.windows import expanded, starts
from fabric.operators.contract import Batches
from fabric.operators.streams.accumulators import Ids, RowGroups
from fabric.operators.streams.group_state import GroupState
from fabric.operators.streams.windows.windowed import Windowed
from fabric.plan.streams import StreamAggregate
from fabric.plan.windowing import Cumulative, Sliding

Ints = NDArray[np.int64]
_PAIRS = 1 << 18
"""About how many groups are merged into windows at once."""
_FIRED = "fired_us"


class TimeWindows(Windowed):
    """Tumbling, sliding and cumulative windows and closing groups that never change a result."""

    def __init__(self, node: StreamAggregate, output: pa.Schema, source: pa.Schema) -> None:
        self._shared = isinstance(node.window, Sliding | Cumulative)
        marks = ["last", "first"] if self._shared else ["last"]
        super().__init__(node, output, source, marks=marks)
        self._next = END_OF_TIME  # no window ends before
        self._fired = BEGINNING  # windows that end then or before have given their result

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """Add rows up."""
        batch, spans = self.ends.on_time(batch)
        if not batch.num_rows:
            return []
        self._next = min(self._next, int(spans.first.min()))
        marks = {"last": spans.last, "first": spans.first} if self._shared else {"last": spans.last}
        ids = self.state.number(self.shape.key_columns(batch), marks)
        self.state.aggregates.update(RowGroups(ids), batch)
        return []

    def passed_time(self) -> Batches:
        """See `Windowed`."""
        passed = self.ends.passed
        if self._next > passed or not self.state.n_groups:
            return []
        ids = self.state.ids()
        last, first = self._last(ids), self._first(ids)
        is_due = first <= passed
        found = self._windows(ids[is_due], passed) if self._shared else self._groups(ids[is_due])
        self._fired = passed
        is_left = last > passed
        self.state.remove(ids[~is_left])
        left = self._after_fired(first[is_left])
        self._next = int(left.min()) if len(left) else END_OF_TIME
        return found

    def facts(self) -> Mapping[str, int]:
        """See `Windowed`."""
        return {_FIRED: self._fired}

    def restored_facts(self, facts: Mapping[str, int]) -> None:
        """See `Windowed`."""
        self._fired = facts[_FIRED]

    def restored(self) -> None:
        """See `Windowed`."""
        first = self._after_fired(self._first(self.state.ids()))
        self._next = int(first.min()) if len(first) else END_OF_TIME

    def _last(self, ids: Ids) -> Ints:
        return self.state.marks["last"].values[ids]

    def _first(self, ids: Ids) -> Ints:
        return self.state.marks["first" if self._shared else "last"].values[ids]

    def _after_fired(self, first: Ints) -> Ints:
        """The first end of each group that has not given its result."""
        step, fired = self.ends.step, self._fired
        if not self._shared:
            return first
        return np.where(first > fired, first, first + (np.maximum(fired, first) - first) // step
                        * step + step)  # fmt: skip

    def _groups(self, ids: Ids) -> Batches:
        """Groups that are windows: their results, in order of ends."""
        ends = self._last(ids)
        if len(ids) and ends.min() != ends.max():
            order = np.argsort(ends, kind="stable")
            ids, ends = ids[order], ends[order]
        return self._rows(self.state, ids, ends)

    def _windows(self, ids: Ids, passed: int) -> Batches:
        """Windows that are made of several groups."""
        first = self._after_fired(self._first(ids))
        last = np.minimum(self._last(ids), passed)
        found: Batches = []
        for members, ends in _portions(first, last, self.ends.step):
            merged = GroupState(self.shape.keys, self.state.aggregates.fresh(), marks=["last"])
            of = ids[members]
            targets = merged.number(self.state.keys(of).columns, {"last": ends})
            merged.aggregates.merge(RowGroups(targets), self.state.aggregates.states(of))
            made = merged.ids()
            found += self._rows(merged, made, merged.marks["last"].values[made])
        return found

    def _rows(self, state: GroupState, ids: Ids, ends: Ints) -> Batches:
        columns = state.aggregates.results(ids)
        if self.ends.window is not None:
            columns = [pa.array(starts(self.ends.window, ends)), pa.array(ends), *columns]
        return self.shape.rows(state.keys(ids), columns)


def _portions(first: Ints, last: Ints, step: int) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of a member and the end of a window it is in, in order of ends, some windows at a time.

    >>> [(m.tolist(), e.tolist()) for m, e in _portions(np.array([1, 2]), np.array([2, 3]), 1)]
    [([0, 0, 1, 1], [1, 2, 2, 3])]
    """
    while len(first) and (open_ := first <= last).any():
        until = _until(first[open_], last[open_], step)
        members, ends = expanded(first, np.minimum(last, until), step)
        order = np.argsort(ends, kind="stable")
        yield members[order], ends[order]
        first = np.where(first > until, first, first + (until - first) // step * step + step)


def _until(first: Ints, last: Ints, step: int) -> int:
    """An end up to which there are about `_PAIRS` pairs, and at least one window."""
    total = int(((last - first) // step + 1).sum())
    begin, end = int(first.min()), int(last.max())
    if total <= _PAIRS:
        return end
    return begin + (end - begin) // step * _PAIRS // total * step
