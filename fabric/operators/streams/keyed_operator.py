"""What top-N and deduplication share: groups by key, of which memory may not hold all.

One job: `KeyedOperator`, their base class: late rows, closing and forgotten groups, snapshots, and
the groups that were not met for longest, which go below memory (`cold_groups.py`) and come back
with their keys. A group is always in one place.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from fabric._cython.kernels.group_table import GroupTable
from fabric._cython.kernels.hash import hash_columns
from fabric.event_time import BEGINNING, END_OF_TIME
from fabric.event_time.windows import behind
from fabric.operators.contract import Batches, Context, KeptState, Operator
from fabric.operators.snapshots import GroupTimes, with_key_groups
from fabric.operators.streams.cold_groups import ColdGroups, Recency
from fabric.operators.streams.columns import Ints, hashes_of_rows, only, told_as
from fabric.operators.streams.deltas import Deltas, Hot, Make
from fabric.operators.streams.lifetime import Closing, Late, TimeToLive, restored_times, times_of
from fabric.plan.expr import output_name
from fabric.plan.nodes.groups import Groups
from fabric.state.backend import Snapshot, SnapshotReader
from fabric.state.opened import Wanted

LAST = "__last"
"""The column of when a group last had a row."""


class KeyedOperator(Operator):
    """Groups of the keys of `node`; a row of `stored` or several are all that is known of one."""

    def __init__(
        self, node: Groups, source: pa.Schema, output: pa.Schema, *, ttl_us: int = 0
    ) -> None:
        self._output, self._closes = output, node.closes
        self._keys = pa.schema([source.field(output_name(key)) for key in node.keys])
        self._late = Late(node.closes, node.lateness_us, aside=node.late == "side")
        self._times = GroupTimes(BEGINNING)
        self._ttl = TimeToLive(ttl_us) if ttl_us else None
        self._forget_all()
        self._recency = Recency()
        self._deltas = self._kept_in(None)
        self._room: int | None = None
        self._below = ColdGroups.opened(Context(), self.stored, 1, "hash")

    def open(self, context: Context) -> None:
        """Groups that memory has no room for lie in the context's folder."""
        self._deltas = self._kept_in(context.folder)
        self._room = context.state_bytes
        self._below = ColdGroups.opened(context, self.stored, 1, "hash")

    def close(self) -> None:
        """Remove what is below memory."""
        self._rest = None
        self._deltas.close()
        self._below.close()

    def counts(self) -> dict[str, int]:
        """How many rows were late; where groups lie, if not all may be in memory."""
        late = {"late_rows": self._late.n_rows} if self._closing is not None else {}
        if self._room is None:
            return late
        return {**late, "state_hot_bytes": self.nbytes, **self._below.counts()}

    def take_side(self) -> dict[str, Batches]:
        """Late rows."""
        return self._late.take()

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """What the rows that are on time change."""
        if self._closing is not None:
            reached = self._times.of(lambda: hashes_of_rows(batch, self._keys.names))
            batch = self._late.split(batch, reached)
        if not batch.num_rows:
            return []
        groups = self._number(only(batch, self._keys.names))
        if self._ttl is not None:
            self.empty(self._ttl.woken(groups))
        if self._closing is not None:
            self._closing.note(groups, batch.column(self._closes))
        found = self.update(groups, batch)
        self._make_room()
        return found

    def on_watermark(self, time_us: int) -> Batches:
        """What groups put out that are complete now; they are forgotten."""
        self._times = self._times.raised(time_us)
        if self._closing is None:
            return []
        passed = self._late.passed(time_us)
        return self._close(self._closing, passed) + self._close_below(passed)

    def watermark(self, time_us: int) -> int:
        """Held back by as long as groups that close wait for late rows."""
        return time_us if self._closing is None else behind(time_us, self._late.lateness_us)

    def on_time(self, now_us: int) -> Batches:
        """Forgets groups that rest."""
        self._forget(self._sweep(now_us))
        return []

    def on_barrier(self, checkpoint: int) -> Snapshot:
        """All groups."""
        some = lambda ids: self._unload(ids)[0]  # noqa: E731
        groups = Hot(self.groups(), self.n_rows, self.nbytes, some, self.whole)
        hot = self._deltas.snapshot(groups, times_of(self._times, self._ttl))
        return self._below.beside(hot)

    def restore(self, snapshots: Sequence[SnapshotReader], key_groups: range) -> None:
        """The groups of our key groups."""
        self._take(snapshots, key_groups, key_groups)

    def _take(self, snapshots: Sequence[SnapshotReader], key_groups: range, wanted: Wanted) -> None:
        self._times = restored_times(snapshots, key_groups, self._ttl)
        self._load(list(self._deltas.restored(snapshots, wanted)))
        self._below.restore(snapshots, wanted)

    def kept_states(self) -> tuple[KeptState, ...]:
        """The rows of groups, as they are `told`."""
        told = [self.columns.field(name).with_name(new) for name, new in self.told.items()]
        return (KeptState(self.table, told_as(told), tuple(self._keys.names)),)

    def kept_rows(
        self, state: str, snapshot: SnapshotReader, wanted: Wanted
    ) -> Iterator[pa.RecordBatch]:
        """See `Operator`; what has outlived its time by the checkpoint is left out."""
        self.open(Context())
        try:
            self._take([snapshot], snapshot.key_groups, wanted)
            for rows in chain([self._unload(self.groups())[0]], self._below.by_key()):
                columns = [rows.column(name) for name in self.told]
                told = pa.RecordBatch.from_arrays(columns, names=list(self.told.values()))
                if self._ttl is not None:
                    over = self._ttl.over_at(rows.column(LAST).to_numpy())
                    told = told.filter(pa.array(over > self._ttl.now))
                yield told
        finally:
            self.close()

    def _kept_in(self, folder: Path | None) -> Deltas:
        """The snapshots of groups in memory, with files in `folder`."""
        keys = self._keys.names
        grouped = partial(with_key_groups, keys=keys)
        return Deltas(self.table, self.stored, keys, grouped, folder)

    # ---- what a subclass adds

    table: ClassVar[str]
    """What its groups are called in snapshots."""

    @property
    @abstractmethod
    def columns(self) -> pa.Schema:
        """Those of the rows of a group, the keys among them."""

    @property
    def told(self) -> dict[str, str]:
        """The columns that others read, with the names that they have there."""
        return {name: name for name in self.columns.names}

    @abstractmethod
    def update(self, groups: Ints, batch: pa.RecordBatch) -> Batches:
        """Take rows, the group of each in `groups`; returns what is put out at once."""

    @abstractmethod
    def empty(self, groups: Ints) -> None:
        """Forget the rows of these groups."""

    def complete(self, groups: Ints) -> Batches:
        """What groups that are complete put out."""
        return []

    def groups(self) -> Ints:
        """All groups in memory, rising."""
        return self._table.ids().astype(np.int64)

    @property
    def n_rows(self) -> int:
        """The rows of all groups in memory."""
        return self._table.n_groups

    @abstractmethod
    def rows(self, groups: Ints) -> tuple[list[pa.Array], Ints]:
        """The rows of groups, one group's after the other's, and how many each has."""

    @abstractmethod
    def put(self, groups: Ints, batches: Sequence[pa.RecordBatch]) -> None:
        """Take all rows of groups that have none here; `groups` has the group of each."""

    def whole(self) -> Make:
        """Makes the rows of all groups as they are now, with their key groups."""
        rows, _ = self._unload(self.groups())
        return lambda: with_key_groups(rows, self._keys.names)

    def _close_below(self, passed: int) -> Batches:
        """What groups below memory put out that are complete."""
        self._below.expire(passed)
        return []

    def _forget_all(self) -> None:
        """There are no groups."""
        self._table = GroupTable(self._keys)
        self._closing = Closing() if self._closes else None
        self._ttl = None if self._ttl is None else self._ttl.fresh()

    @property
    def nbytes(self) -> int:
        """Memory in use, about."""
        parts = (self._table, self._closing, self._ttl, self._recency)
        return sum(part.nbytes for part in parts if part is not None)

    # ---- groups

    @property
    def stored(self) -> pa.Schema:
        """The columns of a row of a group, and when the group last had a row."""
        last = [] if self._ttl is None else [pa.field(LAST, pa.int64())]
        return pa.schema([*self.columns, *last])

    def _unload(self, groups: Ints) -> tuple[pa.RecordBatch, Ints]:
        """All that is known of groups, and how many rows each has."""
        columns, counts = self.rows(groups)
        if self._ttl is not None:
            columns.append(pa.array(np.repeat(self._ttl.last(groups), counts)))
        return pa.RecordBatch.from_arrays(columns, schema=self.stored), counts

    def _load(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Take groups that are not here; one may lie across the end of a batch."""
        batches = [batch for batch in batches if batch.num_rows]
        if not batches:
            return
        numbers = [self._table.upsert(only(batch, self._keys.names)) for batch in batches]
        groups = np.concatenate(numbers).astype(np.int64)
        self.put(groups, batches)
        if self._ttl is not None:
            self._ttl.load(groups, joined(batches, LAST))
        if self._closing is not None:
            times = pa.concat_arrays([batch.column(self._closes) for batch in batches])
            self._closing.note(groups, times)

    def _number(self, keys: pa.RecordBatch) -> Ints:
        """The group of each row; those below memory come back, new ones are made."""
        if not self._below.is_empty:
            unknown = self._table.find(keys) < 0
            if unknown.any():
                for rows in self._below.take_back(hash_columns(keys.columns)[unknown]):
                    self._load([rows])
                    came = self._table.find(only(rows, keys.schema.names))
                    self._deltas.changed(came.astype(np.int64))  # other keys of these hashes, too
        groups: Ints = self._table.upsert(keys).astype(np.int64)
        self._deltas.changed(groups)
        if self._room is not None:
            self._recency.met(groups)
        return groups

    def _make_room(self) -> None:
        """Hand the half down that was not met for longest, while groups take more than they may."""
        if self._room is None or (self._ttl is not None and self._ttl.now == BEGINNING):
            return  # nobody knows before the first time when groups last had a row
        while self.nbytes > self._room and len(groups := self.groups()):
            oldest = self._recency.oldest(groups)
            cold, hot = groups[oldest], groups[~oldest]
            (rows, counts), (left, _) = self._unload(cold), self._unload(hot)
            hashes = hash_columns([rows.column(name) for name in self._keys.names])
            self._below.put(rows, hashes, np.repeat(self._ends(cold), counts))
            self._deltas.anew()
            self._forget_all()
            self._load([left])  # groups get new numbers, in their order
            self._recency.renumber(hot)

    def _close(self, closing: Closing, passed: int) -> Batches:
        """What groups in memory put out that close at `passed` or before; they are forgotten."""
        due = closing.due(passed)
        found = self.complete(due) if len(due) else []
        if self._ttl is not None:
            self._ttl.forget(due)
        self._forget(due)
        return found

    def _forget(self, groups: Ints) -> None:
        """These groups in memory are no more."""
        if not len(groups):
            return
        self.empty(groups)
        self._deltas.gone(groups, self._keys_of)
        self._table.remove(groups.astype(np.int32))
        self._table.compact()

    def _keys_of(self, groups: Ints) -> pa.RecordBatch:
        return self._table.keys(groups.astype(np.int32))

    def _ends(self, groups: Ints) -> Ints:
        """Until when groups are needed below; what rests is found out when its key comes, too."""
        if self._closing is not None:
            return self._closing.of(groups)
        if self._ttl is not None:
            return self._ttl.over_at(self._ttl.last(groups))
        return np.full(len(groups), END_OF_TIME)

    def _sweep(self, now_us: int) -> Ints:
        """It is `now_us`; the groups in memory that rest. Those below are forgotten."""
        if self._ttl is None:
            return np.empty(0, np.int64)
        if self._ttl.now == BEGINNING:
            self._deltas.anew()  # all get the time of their last row now
        over = self._ttl.swept(now_us)
        if self._closing is not None:
            self._closing.forget(over)
        else:
            self._below.expire(self._ttl.now)
        return over


def joined(batches: Sequence[pa.RecordBatch], name: str) -> Ints:
    """A column of integers, of all batches."""
    found: Ints = np.concatenate([batch.column(name).to_numpy() for batch in batches])
    return found
