"""The join of all rows of two streams that have come and stand, as changes of its results.

    change of a left row  ──► × the right rows of its key ──► -D and +I of pairs
                              a right row that had no partner before, or has none now ──► ± alone

One job: the operator of `UpdatingJoin`. Of each side it keeps the different rows of a key, and how
often each stands. A batch counts by what it comes to: a row that it both adds and takes back is no
change. What it changes is put out as deletes, then inserts. Keys are forgotten, on both sides, when
neither had a row for `ttl_us`; a row that is taken back later and is not there is counted, and that
is all. Null keys meet nobody, so rows with one are put out or not as they come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.kernels.group_table import GroupTable
from fabric.event_time import BEGINNING
from fabric.operators.contract import Batches, Context
from fabric.operators.snapshots import Joint, Packed, parts_of, with_key_groups
from fabric.operators.streams.columns import AFTER, DELETE, INSERT, ROWS_MAX, Ints, only, rows_of
from fabric.operators.streams.deltas import Deltas, Hot, Make
from fabric.operators.streams.group_values import GroupLists, Numbers
from fabric.operators.streams.lifetime import TimeToLive, restored_times, times_of
from fabric.operators.streams.two_streams import (
    LEFT,
    RIGHT,
    Condition,
    Side,
    TwoStreamsOperator,
    known_keys,
)
from fabric.plan.expr import Expr
from fabric.plan.mend import free_name
from fabric.plan.nodes import UpdatingJoin
from fabric.plan.stream import KIND
from fabric.state.backend import Snapshot, SnapshotReader

_NAMES = ("left", "right")
_KeysOf = Callable[[Ints], pa.RecordBatch]
"""The columns that name keys by number."""
_ALONE = (("left", "full"), ("right", "full"))
"""The joins that put out rows of that side without a partner, with nulls for the other."""


class _Changed(NamedTuple):
    """Rows of one output that are alike in which sides they have: numbers of rows by side, and how
    often each is added, or below 0 taken back."""

    ids: tuple[Ints | None, Ints | None]
    times: Ints


class UpdatingJoinOperator(TwoStreamsOperator):
    """Joins rows of `sources`, whose keys are columns of the same types."""

    def __init__(self, node: UpdatingJoin, sources: Sequence[pa.Schema], output: pa.Schema) -> None:
        super().__init__(node, sources, output)
        left, right = self._shown
        self._how = node.how
        self._condition = None if node.condition is None else Condition(node.as_join, left, right)
        self._rows = tuple(
            _Rows(_NAMES[side], self._shown[side], keys, self.read(side))
            for side, keys in enumerate((node.left_keys, node.right_keys))
        )
        mine = self._rows[LEFT]
        self._keys = GroupTable(pa.schema([mine.kept.field(key) for key in mine.keys]))
        self._ttl = TimeToLive(node.ttl_us)
        self._n_unknown = 0

    @property
    def sides(self) -> tuple[Side, Side]:
        """See `TwoStreamsOperator`."""
        return self._rows[LEFT], self._rows[RIGHT]

    def read(self, side: int) -> set[str]:
        """The columns of a side that are put out, or that the condition reads."""
        asked = set() if self._condition is None else self._condition.read[side]
        return super().read(side) | asked

    def open(self, context: Context) -> None:
        """Checkpoints of rows lie in the context's folder."""
        for rows, name in zip(self._rows, _NAMES, strict=True):
            rows.keep_in(None if context.folder is None else context.folder / name)

    def close(self) -> None:
        """See `TwoStreamsOperator`."""
        super().close()
        for rows in self._rows:
            rows.deltas.close()

    def counts(self) -> dict[str, int]:
        """How many rows were taken back that are not there."""
        return {"unknown_retractions": self._n_unknown} if self._n_unknown else {}

    def on_input_times(self, times_us: Sequence[int], now_us: int) -> None:
        """Nobody waits for event time."""

    def on_time(self, now_us: int) -> Batches:
        """Forgets keys that rest."""
        return self._begin(self._swept(now_us))

    def passed(self, time_us: int) -> Iterator[Batches]:
        """Nothing."""
        yield []

    def arrived(self, input: int, batch: pa.RecordBatch) -> Iterator[Batches]:
        """What the rows change, and then the rows themselves."""
        mine = self._rows[input]
        signs = _signs(batch)
        rows, known = only(batch, mine.kept.names), known_keys(batch, mine.keys)
        if not known.all():
            yield from self._without_keys(input, rows_of(rows, ~known), signs[~known])
            rows, signs = rows_of(rows, known), signs[known]
        if not rows.num_rows:
            return
        keys = self._keys.upsert([rows.column(key) for key in mine.keys]).astype(np.int64)
        self._forget(self._ttl.woken(keys), resting=False)
        change, n_unknown = mine.change_by(rows, keys, signs)
        self._n_unknown += n_unknown
        if len(change.ids):
            yield from self._put_out(list(self._changes(input, change)))
        mine.take(change, self._keys_of)
        self._drop_empty(np.unique(keys))

    def on_barrier(self, checkpoint: int) -> Snapshot:
        """The rows of both sides."""
        parts = {
            name: rows.snapshot(self._ttl) for name, rows in zip(_NAMES, self._rows, strict=True)
        }
        return Joint({"": Packed({}, times_of(self._times, self._ttl), 0), **parts})

    def restore(self, snapshots: Sequence[SnapshotReader], key_groups: range) -> None:
        """The rows of our key groups."""
        self._times = restored_times(snapshots, key_groups, self._ttl)
        last = Numbers(np.int64, BEGINNING)
        for side in self._rows:
            for batch in side.deltas.restored(parts_of(snapshots, side.name), key_groups):
                keys = self._keys.upsert([batch.column(key) for key in side.keys]).astype(np.int64)
                side.load(batch, keys, self._keys_of)
                last.reach(keys)
                np.maximum.at(last.values, keys, batch.column(side.last).to_numpy())
        keys = self._keys.ids().astype(np.int64)
        self._ttl.load(keys, last.values[keys])

    # ---- inside

    def _swept(self, now_us: int) -> Iterator[Batches]:
        self._forget(self._ttl.swept(now_us), resting=True)
        yield []

    def _forget(self, keys: Ints, *, resting: bool) -> None:
        """Drop all rows of `keys`; those of keys that are not `resting` have just come again."""
        if not len(keys):
            return
        for side in self._rows:
            side.forget(keys, self._keys_of)
        if resting:
            self._keys.remove(keys.astype(np.int32))
            self._keys.compact()

    def _drop_empty(self, keys: Ints) -> None:
        """Forget those of `keys` that have no row on either side."""
        empty = keys
        for side in self._rows:
            empty = empty[side.total(empty) == 0]
        if len(empty):
            self._ttl.forget(empty)
            self._forget(empty, resting=True)

    def _keys_of(self, keys: Ints) -> pa.RecordBatch:
        return self._keys.keys(keys.astype(np.int32))

    def _changes(self, input: int, change: _Change) -> Iterator[_Changed]:
        """What a change of rows of `input` does to the results."""
        other = self._rows[1 - input]
        which, partners = other.of_keys(change.keys)
        if self._condition is not None:
            true = self._holds(input, change.ids[which], partners)
            which, partners = which[true], partners[true]
        often = other.often(partners)
        met = np.bincount(which, often, len(change.ids)) > 0
        if self._how in ("semi", "anti"):
            if input == LEFT:
                here = met == (self._how == "semi")
                yield self._one(LEFT, change.ids[here], change.by[here])
            else:
                yield from self._other_side(input, change, which, partners)
            return
        yield _Changed(self._in_order(input, change.ids[which], partners), change.by[which] * often)
        if self._how in _ALONE[input]:
            yield self._one(input, change.ids[~met], change.by[~met])
        if self._how in _ALONE[1 - input]:
            yield from self._other_side(input, change, which, partners)

    def _other_side(
        self, input: int, change: _Change, which: Ints, partners: Ints
    ) -> Iterator[_Changed]:
        """Rows of the other side that a change of `input` gives their first partner, or takes the
        last one from; they stand alone as long as they have none (semi: as they have one)."""
        mine, other = self._rows[input], self._rows[1 - input]
        ids, places = np.unique(partners, return_inverse=True)
        by = np.bincount(places, change.by[which], len(ids)).astype(np.int64)
        keys = np.empty(len(ids), np.int64)
        keys[places] = change.keys[which]
        if self._condition is None:
            before = mine.total(keys)
        else:
            rows, others = mine.of_keys(keys)
            true = self._holds(1 - input, ids[rows], others)
            rows, others = rows[true], others[true]
            before = np.bincount(rows, mine.often(others), len(ids)).astype(np.int64)
        turns = (before + by > 0).astype(np.int64) - (before > 0)
        moved = turns != 0
        sign = 1 if self._how == "semi" else -1
        yield self._one(1 - input, ids[moved], sign * (turns * other.often(ids))[moved])

    def _holds(self, input: int, mine: Ints, others: Ints) -> Ints:
        """The pairs of rows of `input` and of the other side for which the condition is true."""
        assert self._condition is not None
        table, rows = self._rows[1 - input], self._rows[input]
        true = self._condition.holds(
            input, len(mine), lambda part, names: rows.get(mine[part], names),
            lambda part, names: table.get(others[part], names),
        )  # fmt: skip
        return np.flatnonzero(true)

    def _in_order(
        self, input: int, mine: Ints | None, others: Ints | None
    ) -> tuple[Ints | None, Ints | None]:
        return (mine, others) if input == LEFT else (others, mine)

    def _one(self, side: int, ids: Ints, times: Ints) -> _Changed:
        """Rows of one side alone."""
        return _Changed(self._in_order(side, ids, None), times)

    def _put_out(self, changes: Sequence[_Changed]) -> Iterator[Batches]:
        """Deletes, then inserts, each as often as it counts."""
        for kind, sign in ((DELETE, -1), (INSERT, 1)):
            for change in changes:
                often = np.maximum(sign * change.times, 0)
                rows = np.repeat(np.arange(len(often)), often)
                for first in range(0, len(rows), ROWS_MAX):
                    part = rows[first : first + ROWS_MAX]
                    pair = [
                        None if ids is None else side.get(ids[part])
                        for side, ids in zip(self._rows, change.ids, strict=True)
                    ]
                    yield [self._kinds(pair, np.full(len(part), kind, np.int8))]

    def _without_keys(self, input: int, rows: pa.RecordBatch, signs: Ints) -> Iterator[Batches]:
        """Rows with a null key as they come; nothing is kept of them."""
        alone = self._how in _ALONE[input] or (self._how == "anti" and input == LEFT)
        if alone:
            kinds = np.where(signs > 0, INSERT, DELETE).astype(np.int8)
            yield [self._kinds(self._in_order_of(input, rows), kinds)]

    def _in_order_of(
        self, input: int, rows: pa.RecordBatch
    ) -> tuple[pa.RecordBatch | None, pa.RecordBatch | None]:
        return (rows, None) if input == LEFT else (None, rows)

    def _kinds(
        self, pair: Sequence[pa.RecordBatch | None], kinds: NDArray[np.int8]
    ) -> pa.RecordBatch:
        """Left and right rows side by side, and the kind of each."""
        columns = [*self.values(pair), pa.array(kinds)]
        return pa.RecordBatch.from_arrays(columns, schema=self._output)


def _signs(batch: pa.RecordBatch) -> Ints:
    """1 for each row that is added, -1 for one that is taken back."""
    if KIND not in batch.schema.names:
        return np.ones(batch.num_rows, np.int64)
    kinds = batch.column(KIND).to_numpy()
    return np.where((kinds == INSERT) | (kinds == AFTER), 1, -1)


class _Change(NamedTuple):
    """Different rows of a side by number, the key of each, and how much more often it stands."""

    ids: Ints
    keys: Ints
    by: Ints


class _Rows(Side):
    """The different rows of a side, how often each stands, and which a key has."""

    def __init__(self, name: str, source: pa.Schema, keys: Sequence[Expr], read: set[str]) -> None:
        super().__init__(source, keys, "", read, aside=False)
        self.name = name
        self._table = GroupTable(self.kept)
        self._often = Numbers(np.int64, 0)
        self._lists = GroupLists(1)
        self._totals = Numbers(np.int64, 0)
        self._count = free_name("__count", self.kept.names)
        self.last = free_name("__last", self.kept.names)
        self._stored = pa.schema([
            *self.kept, pa.field(self._count, pa.int64()), pa.field(self.last, pa.int64())
        ])  # fmt: skip
        self._grouped = partial(with_key_groups, keys=self.keys)
        self.keep_in(None)

    def keep_in(self, folder: Path | None) -> None:
        """Checkpoints have files in `folder`."""
        self.deltas = Deltas(self.name, self._stored, self.keys, self._grouped, folder)

    def get(self, ids: Ints, names: Sequence[str] | None = None) -> pa.RecordBatch:
        """Rows by number."""
        rows = self._table.keys(ids.astype(np.int32))
        return rows if names is None else rows.select(list(names))

    def often(self, ids: Ints) -> Ints:
        """How often each row stands."""
        self._often.reach(ids)
        found: Ints = self._often.values[ids]
        return found

    def total(self, keys: Ints) -> Ints:
        """How many rows each key has."""
        self._totals.reach(keys)
        found: Ints = self._totals.values[keys]
        return found

    def of_keys(self, keys: Ints) -> tuple[Ints, Ints]:
        """The rows of keys: for each its place among `keys`, and its number."""
        entries, counts = self._lists.gather(keys)
        return np.repeat(np.arange(len(keys)), counts), entries[:, 0]

    def change_by(self, rows: pa.RecordBatch, keys: Ints, signs: Ints) -> tuple[_Change, int]:
        """What rows come to that are added or taken back; and how many are not there to be."""
        numbers = self._table.upsert(rows).astype(np.int64)
        ids, first, places = np.unique(numbers, return_index=True, return_inverse=True)
        by = np.bincount(places, signs, len(ids)).astype(np.int64)
        missing = np.maximum(-(self.often(ids) + by), 0)
        by += missing
        fresh = ids[(by == 0) & (self._often.values[ids] == 0)]
        if len(fresh):
            self._table.remove(fresh.astype(np.int32))
        changed = by != 0
        return _Change(ids[changed], keys[first][changed], by[changed]), int(missing.sum())

    def take(self, change: _Change, keys_of: _KeysOf) -> None:
        """Let the rows stand as often as they do now."""
        if not len(change.ids):
            return
        before = self.often(change.ids)
        self._often.put(change.ids, before + change.by)
        touched = np.unique(change.keys)
        self._totals.reach(touched)
        np.add.at(self._totals.values, change.keys, change.by)
        which, ids = self.of_keys(touched)
        new = before == 0
        ids = np.concatenate([ids, change.ids[new]])
        which = np.concatenate([which, np.searchsorted(touched, change.keys[new])])
        stand = self._often.values[ids] > 0
        gone = ids[~stand]
        ids, which = ids[stand], which[stand]
        order = np.argsort(which, kind="stable")
        counts = np.bincount(which, minlength=len(touched))
        self._lists.replace(touched, counts, ids[order, None])
        if len(gone):
            self._table.remove(gone.astype(np.int32))
            self._table.compact()
        self.deltas.changed(touched)
        self.deltas.gone(touched[counts == 0], keys_of)

    def load(self, batch: pa.RecordBatch, keys: Ints, keys_of: _KeysOf) -> None:
        """Rows of a snapshot."""
        ids = self._table.upsert(only(batch, self.kept.names)).astype(np.int64)
        by = batch.column(self._count).to_numpy()
        self.take(_Change(ids, keys, by), keys_of)

    def forget(self, keys: Ints, keys_of: _KeysOf) -> None:
        """Drop all rows of `keys`, and what is known of the keys."""
        had = keys[self.total(keys) > 0]
        _, ids = self.of_keys(had)
        self._often.put(ids, 0)
        self._totals.put(keys, 0)
        self._lists.forget(keys)
        if len(ids):
            self._table.remove(ids.astype(np.int32))
            self._table.compact()
        self.deltas.gone(keys, keys_of)

    def snapshot(self, ttl: TimeToLive) -> Snapshot:
        """The rows as they are; where many are there already, those of keys that changed."""
        keys, some = self._lists.groups(), partial(self._stored_rows, ttl)
        whole = partial(self._whole, ttl)
        hot = Hot(keys, self._table.n_groups, self._table.nbytes, some, whole)
        return self.deltas.snapshot(hot, {})

    def _whole(self, ttl: TimeToLive) -> Make:
        rows = self._stored_rows(ttl, self._lists.groups())
        return lambda: self._grouped(rows)

    def _stored_rows(self, ttl: TimeToLive, keys: Ints) -> pa.RecordBatch:
        which, ids = self.of_keys(keys)
        columns = [*self.get(ids).columns, pa.array(self.often(ids)),
                   pa.array(ttl.last(keys[which]))]  # fmt: skip
        return pa.RecordBatch.from_arrays(columns, schema=self._stored)
