"""Session windows: rows of a key no more than a gap apart.

One job: `SessionWindows`. Which sessions there are, which rows are in them and which became one is
the `SessionTable`'s to say, by slots; a slot's sums lie in a group of the state, and of sessions
that become one the group of the earliest goes on. A row is late iff its own window would be: from
its time for the gap, and the allowed lateness. All sessions of a key are in one place: in memory,
or below it until a row of the key comes, or they end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fabric._cython.kernels.group_table import GroupTable
from fabric._cython.kernels.hash import hash_columns
from fabric._cython.kernels.sessions import SessionTable
from fabric.operators.contract import Batches
from fabric.operators.snapshots import Facts, greatest
from fabric.operators.streams.accumulators import Ids, RowGroups
from fabric.operators.streams.cold_groups import Recency
from fabric.operators.streams.columns import Ints
from fabric.operators.streams.group_values import Numbers
from fabric.operators.streams.windows.changelog import UNSHOWN, Changing
from fabric.plan.event_windows import Session
from fabric.plan.nodes import StreamAggregate
from fabric.state.backend import SnapshotReader

_SESSION, _START, _END = "session", "start", "end"
_MADE = "sessions"


class SessionWindows(Changing):
    """Sessions that give a result when no row can join them, or by a trigger that changes it."""

    looks_up = False  # `_take_back` does, for all sessions of a key

    def __init__(self, node: StreamAggregate, output: pa.Schema, source: pa.Schema) -> None:
        assert isinstance(node.window, Session)
        self._each = node.trigger.late == "each"
        super().__init__(node, output, source, marks=[_SESSION], notes=[_START, _END, UNSHOWN])
        self._gap_us = node.window.gap_us
        self._empty()
        self._recency = Recency()  # of keys
        self._n_made = 0  # sessions so far: the next one's number
        if self._table is None:
            self.order = None  # one key alone has few open sessions

    def windows(self, ids: Ids) -> tuple[Ints, Ints]:
        """See `Changing`."""
        return self._note(_START, ids), self._note(_END, ids)

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """Add rows up; show what the trigger says."""
        batch, times = self.ends.on_time_at(batch)
        if not batch.num_rows:
            return []
        columns = self.state.key_columns(batch)
        if self.state.has_cold:
            self._take_back(columns)
        keys = self._table_ids(columns, batch.num_rows)
        if self.state.room is not None:
            self._recency.met(keys)
        slots, merged, into = self._sessions.assign(keys, times)
        self._group_of.resize(int(slots.max()) + 1)
        found, slots = self._fold(slots, merged.tolist(), into.tolist())
        self._begin(slots, batch)
        ids = self._group_of.values[slots]
        touched = self.add(ids, batch).touched
        is_shown = self.after_rows(touched, self._note(_END, touched))
        found += self.show(touched[is_shown])
        self._make_room()
        return found

    def passed_time(self) -> Batches:
        """See `WindowOperator`."""
        if self._each and self.state.has_cold:
            for rows in self.state.below.due(self.ends.time_us):  # they may be shown, and stay
                wanted = rows.filter(pc.greater(rows.column(f"note {UNSHOWN}"), 0))
                self._load(self.state.below.take_back(self.state.hashes(wanted)))
        found = self._close()
        if not self.state.has_cold:
            return found
        return found + self.gradually(self._close_cold(self.ends.passed))

    def _close(self) -> Batches:
        """Show what has ended, and forget it."""
        found: Batches = []
        if self._each:
            ended = self._sessions.ended(self.ends.time_us)[0]
            found = self.show(self._group_of.values[ended])
        slots, keys, _, _ = self._sessions.close(self.ends.passed)
        if not len(slots):
            return found
        ids = self._group_of.values[slots]
        found += self.show(ids)
        self._group_of.clear(slots)
        self._forget(keys)
        self.state.remove(ids)
        return found

    def _close_cold(self, passed: int) -> Iterator[Batches]:
        """The same of sessions below memory, which no row can join any more."""
        for rows in self.state.below.due(passed):
            ids = self.state.take(rows)
            yield self.show(ids)
            self.state.remove(ids)
        self.state.below.expire(passed)

    def facts(self) -> Facts:
        """See `WindowOperator`."""
        return {**super().facts(), _MADE: self._n_made}

    def restored_facts(self, snapshots: Sequence[SnapshotReader], key_groups: range) -> None:
        """See `WindowOperator`."""
        super().restored_facts(snapshots, key_groups)
        self._n_made = greatest(snapshots, _MADE, 0)

    def restored(self) -> None:
        """See `WindowOperator`; the table of sessions is made anew."""
        self._enter(self.state.ids())

    # ---- sessions below memory

    def _empty(self) -> None:
        """No session is known."""
        self._table = GroupTable(self.shape.keys) if len(self.shape.keys) else None
        self._sessions = SessionTable(self._gap_us, updates=self._each)
        self._group_of = Numbers(np.int64, -1)  # by slot: its group in the state

    def _enter(self, ids: Ids) -> None:
        """Make the sessions of groups known."""
        keys = self._table_ids(self.state.keys(ids).columns, len(ids))
        is_shown = self._note(UNSHOWN, ids) == 0
        slots = self._sessions.restore(keys, *self.windows(ids), is_shown)
        self._group_of.resize(int(slots.max(initial=-1)) + 1)
        self._group_of.values[slots] = ids

    def _take_back(self, keys: Sequence[pa.Array]) -> None:
        assert self._table is not None
        unknown = self._table.find(keys) < 0
        if unknown.any():
            self._load(self.state.below.take_back(hash_columns(keys)[unknown]))

    def _load(self, found: Iterable[pa.RecordBatch]) -> None:
        for rows in found:
            self._enter(self.state.take(rows))

    def _make_room(self) -> None:
        """Hand down all sessions of the keys that were not met for longest."""
        room, table = self.state.room, self._table
        while room is not None and table is not None and self.state.n_groups:
            if self.state.nbytes + table.nbytes + self._sessions.nbytes <= room:
                return
            ids = self.state.ids()
            keys = table.find(self.state.keys(ids)).astype(np.int64)
            goes = self._recency.oldest(table.ids().astype(np.int64))
            is_old = np.zeros(table.n_ids, np.bool_)
            is_old[table.ids()] = goes
            if self.node.trigger.early_us is not None:  # the clock shows what is in memory
                is_old[keys[self._note(UNSHOWN, ids) > 0]] = False
            cold = is_old[keys]
            if not cold.any():
                return
            left = table.ids()[~is_old[table.ids()]].astype(np.int64)
            known = table.keys(left.astype(np.int32))
            self.state.rebuild(ids[cold], self._note(_END, ids[cold]), ids[~cold])
            self._empty()
            table = self._table
            assert table is not None
            table.upsert(known)  # keys get new numbers, in their order
            self._recency.renumber(left)
            self._enter(self.state.ids())

    def _table_ids(self, keys: Sequence[pa.Array], n_rows: int) -> Ints:
        if self._table is None:
            return np.zeros(n_rows, np.int64)
        found: Ints = self._table.upsert(keys).astype(np.int64)
        return found

    def _fold(self, slots: Ints, merged: list[int], into: list[int]) -> tuple[Batches, Ints]:
        """Groups of sessions that became one: what was shown of them, and where rows are now."""
        if not merged:
            return [], slots
        group_of = self._group_of.values
        goes: dict[int, int] = {}  # a group into another
        lies = np.arange(len(group_of))  # the slot that a slot is part of
        for left, taker in zip(merged, into, strict=True):
            if group_of[left] < 0:
                continue
            if group_of[taker] < 0:
                group_of[taker] = group_of[left]
            else:
                goes[int(group_of[left])] = int(group_of[taker])
            group_of[left] = -1
        for left, taker in zip(reversed(merged), reversed(into), strict=True):
            lies[left] = lies[taker]
        for left in reversed(goes):
            goes[left] = goes.get(goes[left], goes[left])
        found = self._absorb(
            np.array(list(goes), np.int64), np.array(list(goes.values()), np.int64)
        )
        return found, lies[slots]

    def _absorb(self, ids: Ids, into: Ids) -> Batches:
        """Merge groups into the ones that go on; what was shown of them is taken back."""
        if not len(ids):
            return []
        rows = RowGroups(into)
        found = self.take_back(ids) if self.shape.changes else []
        self.state.aggregates.merge(rows, self.state.aggregates.states(ids))
        unshown = self.state.notes[UNSHOWN].values
        np.add.at(unshown, rows.ids, unshown[ids])
        self.state.remove(ids)
        return found

    def _begin(self, slots: Ints, batch: pa.RecordBatch) -> None:
        """Give new sessions a group, under the keys of one of their rows; note where all lie."""
        some_row = _one_of_each(slots, len(self._group_of.values))
        touched = slots[some_row]
        is_new = self._group_of.values[touched] < 0
        n_new = int(np.count_nonzero(is_new))
        if n_new:
            rows = pa.array(some_row[is_new])
            keys = [column.take(rows) for column in self.state.key_columns(batch)]
            numbers = self._n_made + np.arange(n_new)
            self._n_made += n_new
            self._group_of.values[touched[is_new]] = self.state.number(keys, {_SESSION: numbers})
        ids = self._group_of.values[touched]
        starts, ends = self._sessions.bounds(touched)
        self.state.notes[_START].values[ids], self.state.notes[_END].values[ids] = starts, ends

    def _forget(self, keys: Ints) -> None:
        """Keys that have no session any more may go."""
        if self._table is not None:
            gone = keys[~self._sessions.has_open(keys)]
            gone = gone[_one_of_each(gone, self._table.n_ids)]
            self._table.remove(gone.astype(np.int32))
            self._table.compact()

    def _note(self, name: str, ids: Ids) -> Ints:
        return self.state.notes[name].values[ids]


def _one_of_each(numbers: Ints, n: int) -> Ints:
    """The place of one of each of the different `numbers`, which are less than `n`.

    >>> _one_of_each(np.array([3, 1, 3]), 4).tolist()
    [1, 2]
    """
    places = np.arange(len(numbers))
    last = np.empty(n, np.int64)
    last[numbers] = places
    found: Ints = np.flatnonzero(last[numbers] == places)
    return found
