"""Groups by key with their aggregates: what windows and running aggregates keep.

    key columns | marks | aggregate states | notes | what was put out last

One job: `GroupState`. Marks are int64 that belong to a group's key, such as the end of its window;
notes are int64 beside it that start at 0. A snapshot is one table with a row a group, by key group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.kernels.group_table import GroupTable
from fabric._cython.kernels.hash import hash_columns
from fabric.errors import PlanError
from fabric.operators.snapshots import KEY_GROUP, Facts, with_key_groups
from fabric.operators.streams.accumulators import Aggregates, Ids, RowGroups
from fabric.operators.streams.cold_groups import ColdGroups, Recency
from fabric.operators.streams.columns import Ints, hashes_of_rows
from fabric.operators.streams.deltas import Deltas, Hot
from fabric.operators.streams.group_values import Numbers
from fabric.operators.streams.row_store import GroupRows
from fabric.state.backend import Snapshot, SnapshotReader
from fabric.state.opened import Wanted

_SHOWN = "shown"
_ALL = "all"
"""The mark of the one group there is without keys and marks."""


class GroupState:
    """Groups of equal `keys` and `marks`, numbered from 0; numbers of removed groups come again.

    >>> from fabric.plan.expr import Agg
    >>> rows = pa.record_batch({"k": ["a", "b", "a"]})
    >>> made = Aggregates([Agg("count", None)], rows.schema)
    >>> state = GroupState(rows.schema, made, marks=["end"])
    >>> ids = state.number(rows.columns, {"end": np.array([5, 5, 9])})
    >>> state.aggregates.update(RowGroups(ids), rows)
    >>> ids.tolist(), state.keys(np.array([2])).to_pydict(), state.marks["end"].values[:3].tolist()
    ([0, 1, 2], {'k': ['a']}, [5, 5, 9])
    """

    def __init__(
        self,
        keys: pa.Schema,
        aggregates: Aggregates,
        *,
        marks: Sequence[str] = (),
        notes: Sequence[str] = (),
        shown: pa.Schema | None = None,
    ) -> None:
        self._keys, self.aggregates = keys, aggregates
        self._fresh = partial(GroupState, keys, marks=tuple(marks), notes=tuple(notes), shown=shown)
        self.room: int | None = None
        """Bytes of memory that groups may take; None: all they want."""
        self._below: ColdGroups | None = None
        self._looks_up = False
        self._recency = Recency()
        names = list(marks) if marks or len(keys) else [_ALL]
        self.marks = {name: Numbers(np.int64, 0) for name in names}
        self.notes = {name: Numbers(np.int64, 0) for name in notes}
        self.shown = None if shown is None else GroupRows(shown)
        """What each group put out last (columns `shown`), where results change."""
        fields = [pa.field(f"k{i}", field.type) for i, field in enumerate(keys)]
        self._table_schema = pa.schema([*fields, *((name, pa.int64()) for name in names)])
        self._table = _table(self._table_schema, keys)
        self.schema = self._row_schema()
        """The columns of `rows`."""
        self.keep_in(None)

    def keep_in(self, folder: Path | None) -> None:
        """Let a checkpoint have only what changed since the one before, with files in `folder`."""
        names = [f"k{i}" for i in range(len(self._keys))]
        grouped = partial(_grouped, keys=names)
        self._deltas = Deltas("groups", self.schema, self._table_schema.names, grouped, folder)

    @property
    def n_groups(self) -> int:
        """How many groups there are."""
        return self._table.n_groups

    @property
    def nbytes(self) -> int:
        """Memory in use, about; what groups left that are gone counts as well."""
        numbers = sum(each.nbytes for each in (*self.marks.values(), *self.notes.values()))
        shown = 0 if self.shown is None else self.shown.nbytes
        return self._table.nbytes + self.aggregates.nbytes + numbers + shown + self._recency.nbytes

    def fresh(self) -> GroupState:
        """The same without any group."""
        return self._fresh(self.aggregates.fresh())

    def ids(self) -> Ids:
        """All groups."""
        return self._table.ids().astype(np.int64)

    def key_columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The keys of rows."""
        return [batch.column(name) for name in self._keys.names]

    def number(self, keys: Sequence[pa.Array], marks: Mapping[str, Ints]) -> Ids:
        """The group of each row; those below memory come back, new ones are made."""
        if self._looks_up and self.has_cold:
            self._take_back(keys, marks)
        ids = self._number(keys, marks)
        if self.room is not None and self._looks_up:
            self._recency.met(ids)
        return ids

    def _number(self, keys: Sequence[pa.Array], marks: Mapping[str, Ints]) -> Ids:
        columns = self._columns(keys, marks)
        ids = self._table.upsert(columns).astype(np.int64)
        self._deltas.changed(ids)
        n_ids = self._table.n_ids
        for numbers in (*self.marks.values(), *self.notes.values()):
            numbers.resize(n_ids)
        for name, numbers in self.marks.items():
            numbers.values[ids] = marks[name]
        self.aggregates.resize(n_ids)
        if self.shown is not None:
            self.shown.resize(n_ids)
        return ids

    def one(self, n_rows: int) -> Ids:
        """The group of each row where there are neither keys nor marks."""
        self.number([], {_ALL: np.zeros(1, np.int64)})
        return np.zeros(n_rows, np.int64)

    def keys(self, ids: Ids) -> pa.RecordBatch:
        """The keys of groups, under the names and types they came with."""
        columns = self._table.keys(ids.astype(np.int32)).columns[: len(self._keys)]
        if not columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(ids), pa.struct([])))
        return pa.RecordBatch.from_arrays(columns, schema=self._keys)

    def key_hashes(self, ids: Ids) -> NDArray[np.uint64]:
        """The hash of each group's keys, by which rows go to tasks; without keys 0, the first's."""
        return self.hashes(self.keys(ids))

    def changed(self, ids: Ids) -> None:
        """These groups are not what they were; of those that `number` gave that is known."""
        self._deltas.changed(ids)

    def remove(self, ids: Ids) -> None:
        """Forget groups."""
        if not len(ids):
            return
        self._deltas.gone(ids, self._table_keys)
        for numbers in self.notes.values():
            numbers.clear(ids)
        self.aggregates.clear(ids)
        if self.shown is not None:
            self.shown.clear(ids)
        self._table.remove(ids.astype(np.int32))
        self._table.compact()

    # ---- groups below memory

    def hand_down(self, below: ColdGroups, room: int | None, *, looks_up: bool) -> None:
        """Let groups that take more than `room` bytes go `below`; None: none but those there are.

        With `looks_up` a group is in one place, and `number` takes it back; otherwise what is below
        is merged with what is here when it ends (`ColdGroups.due`).
        """
        self._below, self.room, self._looks_up = below, room, looks_up

    @property
    def below(self) -> ColdGroups:
        """What `hand_down` was given."""
        assert self._below is not None
        return self._below

    @property
    def has_cold(self) -> bool:
        """Whether groups are below memory."""
        return self._below is not None and not self._below.is_empty

    @property
    def is_crowded(self) -> bool:
        """Whether groups take more memory than they may."""
        return self.room is not None and self.n_groups > 0 and self.nbytes > self.room

    def close(self) -> None:
        """Remove what is below."""
        self._deltas.close()
        if self._below is not None:
            self._below.close()

    def counts(self) -> dict[str, int]:
        """Where groups lie, if not all may be in memory."""
        if self.room is None:
            return {}
        return {"state_hot_bytes": self.nbytes, **self.below.counts()}

    def evict(self, ids: Ids, ends: Ints) -> None:
        """Hand these groups down, which end at `ends`; they are written while the task goes on."""
        self.below.wait()  # or the rows of two puts were in memory
        rows = self.rows(ids)
        self.below.put_behind(rows, self.hashes(rows), ends)
        if len(ids) == self.n_groups:
            self._forget_all()
        else:
            self.remove(ids)

    def make_room(
        self, end: str | None = None, may_go: Callable[[Ids], NDArray[np.bool_]] | None = None
    ) -> None:
        """Hand the half down that was not met for longest, if groups take more than they may.

        Parameters
        ----------
        end
            The mark that says when a group ends; None: groups don't.
        may_go
            Which of some groups may; None: all.
        """
        while self.is_crowded:
            ids = self.ids()
            goes = self._recency.oldest(ids)
            if may_go is not None:
                goes &= may_go(ids)
            if not goes.any():
                return
            cold, hot = ids[goes], ids[~goes]
            self.rebuild(cold, None if end is None else self.marks[end].values[cold], hot)
            self._recency.renumber(hot)

    def rebuild(self, cold: Ids, ends: Ints | None, hot: Ids) -> None:
        """Hand groups down, and number the others anew, in their order."""
        left, rows = self.rows(hot), self.rows(cold)
        ends = np.zeros(len(cold), np.int64) if ends is None else ends
        self.below.put(rows, self.hashes(rows), ends)
        del rows
        self._forget_all()  # arrays by id don't get shorter
        self.take(left)

    def _forget_all(self) -> None:
        self._deltas.anew()
        fresh = self.fresh()
        self.aggregates, self.shown, self._table = fresh.aggregates, fresh.shown, fresh._table
        self.marks, self.notes = fresh.marks, fresh.notes

    def _take_back(self, keys: Sequence[pa.Array], marks: Mapping[str, Ints]) -> None:
        unknown = self._table.find(self._columns(keys, marks)) < 0
        if unknown.any():
            hashes = hash_columns(keys)[unknown] if len(keys) else np.zeros(1, np.uint64)
            for rows in self.below.take_back(hashes):
                self.take(rows)

    def _table_keys(self, ids: Ids) -> pa.RecordBatch:
        """The keys and marks of groups."""
        return self._table.keys(ids.astype(np.int32))

    def _columns(self, keys: Sequence[pa.Array], marks: Mapping[str, Ints]) -> list[pa.Array]:
        return [*keys, *(pa.array(marks[name]) for name in self.marks)]

    # ---- groups as rows

    def rows(self, ids: Ids) -> pa.RecordBatch:
        """All that is known of groups, one row each; `take` goes on from there."""
        columns = list(self._table_keys(ids).columns)
        columns += self.aggregates.states(ids)
        columns += [pa.array(numbers.values[ids]) for numbers in self.notes.values()]
        if self.shown is not None:
            columns += [*self.shown.get(ids).columns, pa.array(self.shown.has(ids))]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def hashes(self, rows: pa.RecordBatch) -> NDArray[np.uint64]:
        """The same of rows that begin with the keys."""
        return hashes_of_rows(rows, rows.schema.names[: len(self._keys)])

    def snapshot(self, facts: Facts) -> Snapshot:
        """The groups in memory as they are, and facts of the whole task."""
        ids, names = self.ids(), [f"k{i}" for i in range(len(self._keys))]
        whole = lambda: partial(_grouped, self.rows(ids), names)  # noqa: E731
        return self._deltas.snapshot(Hot(ids, len(ids), self.nbytes, self.rows, whole), facts)

    def restore(self, snapshots: Sequence[SnapshotReader], wanted: Wanted) -> None:
        """Take the groups that are wanted, beside those there are."""
        for rows in self._deltas.restored(snapshots, wanted):
            self.take(rows)

    def take(self, rows: pa.RecordBatch) -> Ids:
        """Merge `rows` of groups into those there are; several may be of one group. Returns whose.

        Notes and what was shown are those of the last row of a group.
        """
        columns, n_keys = rows.columns, len(self._keys)
        end_marks = n_keys + len(self.marks)
        marks = {
            name: column.to_numpy()
            for name, column in zip(self.marks, columns[n_keys:end_marks], strict=True)
        }
        ids = self._number(columns[:n_keys], marks)
        end_states = end_marks + len(self.aggregates.state_schema)
        self.aggregates.merge(RowGroups(ids), columns[end_marks:end_states])
        end_notes = end_states + len(self.notes)
        for numbers, column in zip(self.notes.values(), columns[end_states:end_notes], strict=True):
            numbers.values[ids] = column.to_numpy()
        if self.shown is not None:
            *results, has = columns[end_notes:]
            was = pa.RecordBatch.from_arrays(results, schema=self.shown.schema).filter(has)
            self.shown.put(ids[has.to_numpy(zero_copy_only=False)], was)
        return ids

    def _row_schema(self) -> pa.Schema:
        states = [(f"state {name}", dtype) for name, dtype in _fields(self.aggregates.state_schema)]
        notes = [(f"note {name}", pa.int64()) for name in self.notes]
        shown: list[tuple[str, pa.DataType]] = []
        if self.shown is not None:
            shown = [(f"shown {i}", d) for i, (_, d) in enumerate(_fields(self.shown.schema))]
            shown.append((_SHOWN, pa.bool_()))
        beside = (pa.field(*each) for each in (*states, *notes, *shown))
        return pa.schema([*self._table_schema, *beside])


def _fields(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema]


def _grouped(rows: pa.RecordBatch, keys: Sequence[str]) -> pa.RecordBatch:
    """The rows with their key groups; without keys all are in group 0, the first task's."""
    if keys:
        return with_key_groups(rows, keys)
    return rows.append_column(KEY_GROUP, pa.array(np.zeros(rows.num_rows, np.uint16)))


def _table(schema: pa.Schema, keys: pa.Schema) -> GroupTable:
    try:
        return GroupTable(schema)
    except ValueError as error:
        types = ", ".join(f"{field.name}: {field.type}" for field in keys)
        raise PlanError(
            f"a stream can't be grouped by lists and structs ({types}); group by their parts, or a "
            "text made of them"
        ) from error
