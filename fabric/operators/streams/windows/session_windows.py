"""Session windows: rows of a key no more than a gap apart.

One job: `SessionWindows`. Sessions of a batch are worked out first and then merged with the open
ones of their keys; a group is a session, and the group of the earliest one goes on. A row is late
iff its own window would be: from its time for the gap, and the allowed lateness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.kernels.group_table import GroupTable
from fabric.event_time import END_OF_TIME
from fabric.operators.contract import Batches
from fabric.operators.streams.accumulators import Ids, RowGroups
from fabric.operators.streams.accumulators.base import Numbers
from fabric.operators.streams.windows.chains import Chains
from fabric.operators.streams.windows.changing import UNSHOWN, Changing
from fabric.operators.streams.windows.session_merge import (
    Intervals,
    merged_sessions,
    sessions_of,
)
from fabric.plan.streams import StreamAggregate
from fabric.plan.windowing import Session

Ints = NDArray[np.int64]
_SESSION, _START, _END = "session", "start", "end"
_MADE = "sessions"


class SessionWindows(Changing):
    """Sessions that give a result when no row can join them, or by a trigger that changes it."""

    def __init__(self, node: StreamAggregate, output: pa.Schema, source: pa.Schema) -> None:
        assert isinstance(node.window, Session)
        self._gap = node.window.gap_us
        self._each = node.trigger.late == "each"
        super().__init__(node, output, source, marks=[_SESSION], notes=[_START, _END, UNSHOWN])
        self._table = GroupTable(self.shape.keys) if len(self.shape.keys) else None
        self._chains = Chains()
        self._key_of = Numbers(np.int64, -1)
        self._n_made = 0  # sessions so far: the next one's number
        self._next = END_OF_TIME  # no session that time has something to do with ends before

    def windows(self, ids: Ids) -> tuple[Ints, Ints]:
        """See `Changing`."""
        return self._note(_START, ids), self._note(_END, ids)

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """Add rows up; show what the trigger says."""
        batch, times = self.ends.on_time_at(batch)
        if not batch.num_rows:
            return []
        new = sessions_of(self._number(batch), times, self._gap)
        owners, open_ids = self._chains.members(RowGroups(new.intervals.keys).touched)
        open_ = Intervals(owners, *self.windows(open_ids))
        intervals, of = merged_sessions(open_, new.intervals)
        into, of_rows = of[: len(open_ids)], of[len(open_ids) :][new.of]
        ids = self._continued(len(intervals.keys), open_ids, into)
        found = self._absorb(open_ids, ids[into])
        self._begin(ids, of_rows, batch)
        self._move(ids, intervals)
        touched = self.add(ids[of_rows], batch).touched
        is_shown = self.after_rows(touched, self._note(_END, touched))
        return found + self.show(touched[is_shown])

    def passed_time(self) -> Batches:
        """See `Windowed`."""
        passed = self.ends.passed
        if self._next > (self.ends.time_us if self._each else passed):
            return []
        ids = self.state.ids()
        ends = self._note(_END, ids)
        is_closed = ends <= passed
        found = self.show(ids[ends <= self.ends.time_us if self._each else is_closed])
        self._close(ids[is_closed])
        self._plan(ends[~is_closed])
        return found

    def facts(self) -> Mapping[str, int]:
        """See `Windowed`."""
        return {**super().facts(), _MADE: self._n_made}

    def restored_facts(self, facts: Mapping[str, int]) -> None:
        """See `Windowed`."""
        super().restored_facts(facts)
        self._n_made = facts[_MADE]

    def restored(self) -> None:
        """See `Windowed`; the chains are made anew."""
        ids = self.state.ids()
        keys = self._table_ids(self.state.keys(ids).columns, len(ids))
        order = np.lexsort((self._note(_START, ids), keys))
        self._link(keys[order], ids[order])
        self._plan(self._note(_END, ids))

    def _number(self, batch: pa.RecordBatch) -> Ints:
        return self._table_ids(self.shape.key_columns(batch), batch.num_rows)

    def _table_ids(self, keys: Sequence[pa.Array], n_rows: int) -> Ints:
        if self._table is None:
            return np.zeros(n_rows, np.int64)
        found: Ints = self._table.upsert(keys).astype(np.int64)
        return found

    def _continued(self, n: int, open_ids: Ids, into: Ints) -> Ids:
        """Of each merged session the earliest open one that is in it, or -1."""
        ids = np.full(n, -1, np.int64)
        ids[into[::-1]] = open_ids[::-1]
        return ids

    def _absorb(self, ids: Ids, into: Ids) -> Batches:
        """Merge sessions into the ones that go on; what was shown of them is taken back."""
        is_gone = ids != into
        if not is_gone.any():
            return []
        ids, rows = ids[is_gone], RowGroups(into[is_gone])
        found = self.take_back(ids) if self.shape.changes else []
        self.state.aggregates.merge(rows, self.state.aggregates.states(ids))
        unshown = self.state.notes[UNSHOWN].values
        np.add.at(unshown, rows.ids, unshown[ids])
        self.state.remove(ids)
        return found

    def _begin(self, ids: Ids, of_rows: Ints, batch: pa.RecordBatch) -> None:
        """Give those that none goes on in a group, under the keys of one of their rows."""
        begun = np.flatnonzero(ids < 0)
        some_row = np.empty(len(ids), np.int64)
        some_row[of_rows] = np.arange(len(of_rows))
        rows = pa.array(some_row[begun])
        keys = [column.take(rows) for column in self.shape.key_columns(batch)]
        numbers = self._n_made + np.arange(len(begun))
        self._n_made += len(begun)
        ids[begun] = self.state.number(keys, {_SESSION: numbers})

    def _move(self, ids: Ids, intervals: Intervals) -> None:
        self.state.notes[_START].values[ids] = intervals.starts
        self.state.notes[_END].values[ids] = intervals.ends
        self._next = min(self._next, int(intervals.ends.min()))
        self._link(intervals.keys, ids)

    def _link(self, keys: Ints, ids: Ids) -> None:
        self._chains.link(keys, ids)
        self._key_of.resize(int(ids.max(initial=-1)) + 1)
        self._key_of.values[ids] = keys

    def _close(self, ids: Ids) -> None:
        """Forget sessions, and keys that have no other."""
        if not len(ids):
            return
        keys = RowGroups(self._key_of.values[ids]).touched
        self._key_of.clear(ids)
        owners, members = self._chains.members(keys)
        left = self._key_of.values[members] >= 0
        self._chains.unlink(keys)
        self._chains.link(owners[left], members[left])
        if self._table is not None:
            gone = keys[~np.isin(keys, owners[left])]
            self._table.remove(gone.astype(np.int32))
            self._table.compact()
        self.state.remove(ids)

    def _plan(self, ends: Ints) -> None:
        self._next = int(ends.min()) if len(ends) else END_OF_TIME

    def _note(self, name: str, ids: Ids) -> Ints:
        return self.state.notes[name].values[ids]
