"""Aggregates whose results change: each new one takes the place of the one before.

One job: `Changing`, which knows the groups that have rows which no result shows, when to show them
(`Trigger`), and the rows -U and +U; `ChangingWindows`, of fixed length, shown before they close or
again when late rows come; and `Running`, without a window or in the one global window. Groups are
shown after whole batches: "after every so many rows" means as soon as a batch brought that many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.event_time import BEGINNING, END_OF_TIME
from fabric.event_time.windows import expanded, is_early, shown_after_rows, starts
from fabric.operators.contract import Batches
from fabric.operators.snapshots import Facts, greatest
from fabric.operators.streams.accumulators import Ids, RowGroups
from fabric.operators.streams.columns import AFTER, BEFORE, DELETE, INSERT, Ints, sliced
from fabric.operators.streams.windows.window_operator import WindowOperator
from fabric.plan.nodes import StreamAggregate
from fabric.state.backend import SnapshotReader

UNSHOWN = "rows"
"""The note that counts the rows of a group that no result shows."""
_EARLY = "early_us"


class Changing(WindowOperator):
    """What tells of results that take the place of others."""

    _told_us = BEGINNING
    """When results were last shown because of the clock."""

    def windows(self, ids: Ids) -> tuple[Ints, ...]:
        """Starts and ends of the windows of groups; nothing where there are none."""
        return ()

    def add(self, ids: Ids, batch: pa.RecordBatch) -> RowGroups:
        """Add rows up that belong to these groups."""
        rows = RowGroups(ids)
        self.state.changed(ids)
        self.state.aggregates.update(rows, batch)
        np.add.at(self.state.notes[UNSHOWN].values, ids, 1)
        return rows

    def now(self) -> Batches:
        """See `WindowOperator`."""
        ids = self.state.ids()
        columns = [*map(pa.array, self.windows(ids)), *self.state.aggregates.results(ids)]
        return self._rows(ids, columns, None)

    def after_rows(self, touched: Ids, ends: Ints | None = None) -> NDArray[np.bool_]:
        """Which groups, whose windows end at `ends`, are shown because rows came."""
        unshown = self._unshown(touched)
        return shown_after_rows(self.node.trigger, unshown, ends, self.ends.reached)

    def show(self, ids: Ids) -> Batches:
        """The results of those groups that have rows which none shows, for ones shown before."""
        ids = ids[self._unshown(ids) > 0]
        if not len(ids):
            return []
        self.state.changed(ids)
        self.state.notes[UNSHOWN].clear(ids)
        columns = [*map(pa.array, self.windows(ids)), *self.state.aggregates.results(ids)]
        shown = self.state.shown
        if shown is None:
            return self._rows(ids, columns, None)
        before = shown.has(ids)
        old = shown.get(ids[before]) if before.any() else None
        shown.put(ids, pa.RecordBatch.from_arrays(columns, schema=shown.schema))
        new = self._rows(ids, columns, np.where(before, AFTER, INSERT).astype(np.int8))
        if old is None:
            return new
        kinds = np.full(old.num_rows, BEFORE, np.int8)
        return _beside(self._rows(ids[before], old.columns, kinds), before, new)

    def make_room(self, end: str | None = None) -> None:
        """Groups that take more memory than they may go below, but for those that the clock shows.

        `end` is the mark that says when a group ends.
        """
        by_clock = self.node.trigger.early_us is not None
        self.state.make_room(end, (lambda ids: self._unshown(ids) == 0) if by_clock else None)

    def take_back(self, ids: Ids) -> Batches:
        """Rows -D of those groups that were shown: they are no more."""
        shown = self.state.shown
        assert shown is not None
        ids = ids[shown.has(ids)]
        if not len(ids):
            return []
        return self._rows(ids, shown.get(ids).columns, np.full(len(ids), DELETE, np.int8))

    def on_time(self, now_us: int) -> Batches:
        """Show what there is when the interval of early results has passed."""
        found = super().on_time(now_us)
        if not is_early(self.node.trigger, self._told_us, now_us):
            return found
        self._told_us = now_us
        return found + self.show(self.state.ids())

    def facts(self) -> Facts:
        """See `WindowOperator`."""
        return {_EARLY: self._told_us}

    def restored_facts(self, snapshots: Sequence[SnapshotReader], key_groups: range) -> None:
        """See `WindowOperator`."""
        self._told_us = greatest(snapshots, _EARLY, BEGINNING)

    def _unshown(self, ids: Ids) -> Ints:
        return self.state.notes[UNSHOWN].values[ids]

    def _rows(self, ids: Ids, columns: list[pa.Array], kinds: NDArray[np.int8] | None) -> Batches:
        return self.shape.rows(self.state.keys(ids), columns, kinds)


def _beside(old: Batches, before: NDArray[np.bool_], new: Batches) -> Batches:
    """The rows of `new`, those of which there is one before right behind that."""
    places = np.arange(len(before)) + np.cumsum(before)
    order = np.empty(len(before) + int(before.sum()), np.int64)
    order[places[before] - 1] = np.arange(int(before.sum()))
    order[places] = np.arange(len(before)) + int(before.sum())
    rows = pa.Table.from_batches([*old, *new]).combine_chunks().take(pa.array(order))
    return [piece for batch in rows.combine_chunks().to_batches() for piece in sliced(batch)]


_END = "end"


class ChangingWindows(Changing):
    """Tumbling, sliding and cumulative windows with a trigger that shows them more than once."""

    def __init__(self, node: StreamAggregate, output: pa.Schema, source: pa.Schema) -> None:
        super().__init__(node, output, source, marks=[_END], notes=[UNSHOWN])
        self._each = node.trigger.late == "each"
        self._next = END_OF_TIME  # no window that time has something to do with ends before

    def windows(self, ids: Ids) -> tuple[Ints, Ints]:
        """See `Changing`."""
        assert self.ends.window is not None
        ends = self._ends(ids)
        clock = self.ends.clock
        return clock.instants(starts(self.ends.window, ends)), clock.instants(ends)

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """Add rows up; show what the trigger says."""
        batch, spans = self.ends.on_time(batch)
        if not batch.num_rows:
            return []
        rows, ends = expanded(spans.first, spans.last, self.ends.step)
        if len(rows) != batch.num_rows:
            batch = batch.take(pa.array(rows))
        ids = self.state.number(self.state.key_columns(batch), {_END: ends})
        self._next = min(self._next, int(ends.min()))
        touched = self.add(ids, batch).touched
        found = self.show(touched[self.after_rows(touched, self._ends(touched))])
        self.make_room(_END)
        return found

    def passed_time(self) -> Batches:
        """See `WindowOperator`."""
        reached = self.ends.reached if self._each else self.ends.passed
        if self._next > reached:
            return []
        found = self._end(self.state.ids(), reached)
        if self.state.has_cold:
            return found + self.gradually(self._end_cold(reached))
        self._plan(reached)
        return found

    def restored(self) -> None:
        """See `WindowOperator`."""
        self._plan(BEGINNING)

    def _end(self, ids: Ids, reached: int) -> Batches:
        """Show those of some groups that end up to `reached`; forget those that are complete."""
        ends = self._ends(ids)
        found = self.show(ids[ends <= reached])
        self.state.remove(ids[ends <= self.ends.passed])
        return found

    def _end_cold(self, reached: int) -> Iterator[Batches]:
        """The same of those below memory; what may still change stays above."""
        for rows in self.state.below.due(reached):
            yield self._end(self.state.take(rows), reached)
        self.state.below.expire(reached)
        self.make_room(_END)
        self._plan(reached)

    def _plan(self, reached: int) -> None:
        """Note when time has something to do with a window again."""
        ends = self._ends(self.state.ids())
        self._next = int(ends.min()) if len(ends) else END_OF_TIME
        if self.state.has_cold:
            self._next = min(self._next, self.ends.next_end(reached))

    def _ends(self, ids: Ids) -> Ints:
        return self.state.marks[_END].values[ids]


class Running(Changing):
    """Groups that never close."""

    def __init__(self, node: StreamAggregate, output: pa.Schema, source: pa.Schema) -> None:
        super().__init__(node, output, source, notes=[UNSHOWN])
        waits = node.trigger.count is not None or node.trigger.early_us is not None
        self._at_once = node.window is None and not waits

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """Add rows up; show what the trigger says."""
        if not batch.num_rows:
            return []
        if len(self.shape.keys):
            ids = self.state.number(self.state.key_columns(batch), {})
        else:
            ids = self.state.one(batch.num_rows)
        touched = self.add(ids, batch).touched
        is_shown = np.ones(len(touched), np.bool_) if self._at_once else self.after_rows(touched)
        found = self.show(touched[is_shown])
        self.make_room()
        return found

    def passed_time(self) -> Batches:
        """See `WindowOperator`; the input's end shows all."""
        if self.ends.time_us != END_OF_TIME:
            return []
        found = self.show(self.state.ids())
        return found + self.gradually(self._show_cold()) if self.state.has_cold else found

    def _show_cold(self) -> Iterator[Batches]:
        """What no result shows yet of groups below memory; nobody will ask for them again."""
        for rows in self.state.below.due(END_OF_TIME):
            ids = self.state.take(rows)
            yield self.show(ids)
            self.state.remove(ids)
        self.state.below.expire(END_OF_TIME)

    def watermark(self, time_us: int) -> int:
        """As it came."""
        return time_us
