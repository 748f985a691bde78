"""Rows of a stream with the nearest ones of another in time.

    left  ──► waits in a join table ──► the watermark passes it ──► found among its key's versions
    right ──► a version of its key ───► kept while a left row may find it

One job: the operator of `AsofJoin`, and `Versions`, the right rows of each key by time. A left row
at time t can be answered once no right row at or before t (forward and nearest: at or before
``t + tolerance``) can come any more. Of a key's versions that are all older than any left row to
come only the last is kept, and with a tolerance not even that for longer. Of versions of one time
the one that came last counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from fabric._cython.kernels.group_table import GroupTable
from fabric._cython.kernels.join_table import TIME, JoinTable
from fabric.event_time import BEGINNING
from fabric.event_time.windows import behind
from fabric.operators.contract import Batches, Context
from fabric.operators.snapshots import (
    GroupTimes,
    Joint,
    Packed,
    parts_of,
    unpacked,
    with_key_groups,
)
from fabric.operators.streams.columns import ROWS_MAX, Bools, Ints, event_times, only, rows_of
from fabric.operators.streams.deltas import Deltas, Hot, Make
from fabric.operators.streams.group_values import GroupLists
from fabric.operators.streams.row_store import RowStore
from fabric.operators.streams.two_streams import (
    LEFT,
    RIGHT,
    Side,
    TwoStreamsOperator,
    known_keys,
)
from fabric.plan.expr import Column
from fabric.plan.nodes import AsofJoin
from fabric.state.backend import Snapshot, SnapshotReader

_LEFT, _VERSIONS, _WATERMARK = "left", "versions", "watermark"
_SLACK = 4096
"""Versions more than twice those that were needed last are looked through."""


class AsofJoinOperator(TwoStreamsOperator):
    """Finds for rows of the first of `sources` those of the second."""

    def __init__(self, node: AsofJoin, sources: Sequence[pa.Schema], output: pa.Schema) -> None:
        super().__init__(node, sources, output)
        self._how, aside = node.how, node.late == "side"
        self._gone = node.deleted.name if isinstance(node.deleted, Column) else None
        assert node.deleted is None or self._gone is not None  # the planner makes it a column
        left, right = self._shown
        read = self.read(RIGHT) | ({self._gone} if self._gone is not None else set())
        self._sides = (
            Side(left, node.left_keys, node.left_time, self.read(LEFT), aside=aside),
            Side(right, node.right_keys, node.right_time, read, aside=aside),
        )
        self._waiting = JoinTable(self._sides[LEFT].kept, self._sides[LEFT].keys)
        self._exported = pa.schema([*self._sides[LEFT].kept, pa.field(TIME, pa.int64())])
        self._versions = Versions(
            self._sides[RIGHT].kept, self._sides[RIGHT].keys, node.strategy, node.tolerance_us,
            apart_us=0 if node.exact else 1,
        )  # fmt: skip
        self._shift_us = node.shift_us
        ahead = -self._versions.apart_us if node.strategy == "backward" else node.tolerance_us
        assert ahead is not None  # the check wants a tolerance
        self._reach_us = ahead - node.shift_us
        self._held_us = max(0, self._reach_us)

    @property
    def sides(self) -> tuple[Side, Side]:
        """See `TwoStreamsOperator`."""
        return self._sides

    def open(self, context: Context) -> None:
        """Checkpoints of versions lie in the context's folder."""
        self._versions.keep_in(context.folder)

    def close(self) -> None:
        """See `TwoStreamsOperator`."""
        super().close()
        self._versions.close()

    def arrived(self, input: int, batch: pa.RecordBatch) -> Iterator[Batches]:
        """Left rows wait, right rows are versions; those with a null key are of no use."""
        side = self._sides[input]
        rows, times = side.on_time(batch, self._times)
        if input == RIGHT or self._how == "inner":
            known = known_keys(rows, side.keys)
            rows, times = rows_of(rows, known), times[known]
        if input == LEFT:
            self._waiting.insert(rows, times + self._reach_us)
        else:
            self._versions.add(rows, times + self._shift_us)
        yield []

    def passed(self, time_us: int) -> Iterator[Batches]:
        """The left rows to which nothing nearer can come any more."""
        places = self._waiting.before(time_us)
        for first in range(0, len(places), ROWS_MAX):
            yield self._found(self._waiting.take(places[first : first + ROWS_MAX]))
        self._waiting.remove_before(time_us)
        self._versions.tidy(behind(time_us, self._held_us))

    def watermark(self, time_us: int) -> int:
        """Held back by as long as an older row may still come out."""
        return behind(time_us, self._held_us)

    def on_barrier(self, checkpoint: int) -> Snapshot:
        """The left rows that wait, and the versions that one may find."""
        rows = self._waiting.export()
        self._versions.tidy(behind(self._times.least, self._held_us), at_once=True)
        facts = {_WATERMARK: self._times.fact()}
        waiting = Packed({_LEFT: lambda: rows}, facts, rows.num_rows)
        return Joint({"": waiting, _VERSIONS: self._versions.snapshot()})

    def restore(self, snapshots: Sequence[SnapshotReader], key_groups: range) -> None:
        """The rows of our key groups."""
        self._times = GroupTimes.restored(snapshots, _WATERMARK, key_groups, BEGINNING)
        for rows in unpacked(snapshots, _LEFT, self._exported, key_groups):
            kept = only(rows, self._sides[LEFT].kept.names)
            self._waiting.insert(kept, rows.column(TIME).to_numpy())
        right = self._sides[RIGHT]
        for rows in self._versions.restored(parts_of(snapshots, _VERSIONS), key_groups):
            self._versions.add(rows, event_times(rows, right.time) + self._shift_us)

    # ---- inside

    def _found(self, rows: pa.RecordBatch) -> Batches:
        """Left rows beside what they find."""
        left = self._sides[LEFT]
        keys = [rows.column(key) for key in left.keys]
        numbers = self._versions.find(keys, event_times(rows, left.time))
        versions = self._versions.take(numbers)
        if self._gone is not None:
            gone = versions.column(self._gone).fill_null(False).to_numpy(zero_copy_only=False)
            numbers = np.where(gone, -1, numbers)
            versions = self._versions.take(numbers)
        if self._how == "inner":
            found = numbers >= 0
            rows, versions = rows_of(rows, found), rows_of(versions, found)
        return [self.joined((rows, versions))] if rows.num_rows else []


class Versions:
    """Rows of `schema` by key and time, of which those are found that are nearest to a time.

    `apart_us`: how far from a time rows are at least; 0 or 1. Times are given beside the rows.

    >>> rows = pa.record_batch({"k": [1, 1, 2], "v": ["a", "b", "c"]})
    >>> versions = Versions(rows.schema, ["k"], "backward", None)
    >>> versions.add(rows, np.array([10, 20, 15]))
    >>> keys = pa.array([1, 1, 1, 2, 3])
    >>> numbers = versions.find([keys], np.array([9, 10, 25, 14, 99]))
    >>> versions.take(numbers)["v"].to_pylist()
    [None, 'a', 'b', None, None]
    >>> versions.tidy(20, at_once=True)
    >>> len(versions)
    2
    """

    def __init__(
        self, schema: pa.Schema, keys: Sequence[str], strategy: str, tolerance_us: int | None, *,
        apart_us: int = 0,
    ) -> None:  # fmt: skip
        self.apart_us = apart_us
        self._strategy, self._tolerance_us = strategy, tolerance_us
        self._schema, self._keys = schema, list(keys)
        self._table = GroupTable(pa.schema([schema.field(key) for key in keys]))
        self._rows = RowStore(schema)
        self._lists = GroupLists(2)
        """Of each key: time and number of its rows, by time; of one time as they came."""
        self._needed = 0
        """How many rows there were when they were last looked through."""
        self._grouped = partial(with_key_groups, keys=self._keys)
        self._deltas = Deltas(_VERSIONS, schema, self._keys, self._grouped)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, rows: pa.RecordBatch, times: Ints) -> None:
        """Rows without nulls among their keys."""
        if not rows.num_rows:
            return
        groups = self._table.upsert(only(rows, self._keys)).astype(np.int64)
        changed = np.unique(groups)
        old, counts = self._lists.gather(changed)
        new = np.column_stack([times, self._rows.put(rows)])
        entries = np.concatenate([old, new])
        of_group = np.concatenate([np.repeat(changed, counts), groups])
        entries = entries[np.lexsort((entries[:, 0], of_group))]  # stable: old ones come first
        counts += np.bincount(np.searchsorted(changed, groups), minlength=len(changed))
        self._lists.replace(changed, counts, entries)
        self._deltas.changed(changed)

    def find(self, keys: Sequence[pa.Array], times: Ints) -> Ints:
        """The number of the row that each key has nearest to a time; -1 where there is none."""
        found = np.full(len(times), -1, np.int64)
        groups = self._table.find(keys).astype(np.int64)
        rows = np.flatnonzero(groups >= 0)
        wanted, which = np.unique(groups[rows], return_inverse=True)
        entries, counts = self._lists.gather(wanted)
        at, numbers = np.ascontiguousarray(entries[:, 0]), entries[:, 1]
        ends = np.cumsum(counts)
        begin, end, sought = (ends - counts)[which], ends[which], times[rows]
        place = np.full(len(rows), -1, np.int64)
        if self._strategy != "forward":
            before = _up_to(at, begin, end, sought - self.apart_us) - 1
            far = sought - at[np.maximum(before, 0)] if len(at) else sought
            is_near = before >= begin
            if self._tolerance_us is not None:
                is_near &= far <= self._tolerance_us
            place = np.where(is_near, before, place)
        if self._strategy != "backward" and len(at):
            assert self._tolerance_us is not None
            after = _up_to(at, begin, end, sought + (self.apart_us - 1))
            last = np.minimum(after, len(at) - 1)
            last = _up_to(at, begin, end, at[last]) - 1  # of several of one time the last
            is_near = (after < end) & (at[last] - sought <= self._tolerance_us)
            nearer = (place < 0) | (at[last] - sought <= sought - at[place])
            place = np.where(is_near & nearer, last, place)
        found[rows] = np.where(place >= 0, numbers[place], -1) if len(at) else -1
        return found

    def take(self, numbers: Ints) -> pa.RecordBatch:
        """The rows with these numbers; nulls for -1."""
        missing = numbers < 0
        if not missing.any():
            return self._rows.take(numbers)
        rows = self._rows.take(numbers[~missing])
        places = np.cumsum(~missing) - 1
        return rows.take(pa.array(places, mask=missing))

    def tidy(self, time_us: int, *, at_once: bool = False) -> None:
        """Forget the rows that no time from `time_us` on finds, now and then or `at_once`."""
        if not at_once and len(self) <= 2 * self._needed + _SLACK:
            return
        groups = self._lists.groups()
        entries, counts = self._lists.gather(groups)
        at = entries[:, 0]
        back = 0 if self._strategy == "forward" else self._tolerance_us
        gone = np.zeros(len(at), np.bool_) if back is None else at < behind(time_us, back)
        if self._strategy != "forward" and len(at):
            of_group = np.repeat(groups, counts)
            is_old = at[1:] <= behind(time_us, self.apart_us)
            gone[:-1] |= (of_group[1:] == of_group[:-1]) & is_old
        if gone.any():
            self._drop(groups, counts, entries, gone)
        self._needed = len(self)

    # ---- checkpoints

    def keep_in(self, folder: Path | None) -> None:
        """Checkpoints have files in `folder`."""
        self._deltas = Deltas(_VERSIONS, self._schema, self._keys, self._grouped, folder)

    def snapshot(self) -> Snapshot:
        """The rows as they are; where many are there already, those of keys that have new ones."""
        groups = self._lists.groups()
        hot = Hot(groups, len(self), self._rows.nbytes, self._of, self._whole)
        return self._deltas.snapshot(hot, {})

    def restored(
        self, snapshots: Sequence[SnapshotReader], key_groups: range
    ) -> Iterator[pa.RecordBatch]:
        """The rows of snapshots, to be added."""
        return self._deltas.restored(snapshots, key_groups)

    def close(self) -> None:
        """Remove files that no checkpoint needs."""
        self._deltas.close()

    # ---- inside

    def _drop(self, groups: Ints, counts: Ints, entries: Ints, gone: Bools) -> None:
        """Forget some of the rows of `groups`, and groups that have none any more."""
        ends = np.cumsum(counts)
        left = np.add.reduceat(~gone, ends - counts, dtype=np.int64)
        self._rows.drop(entries[gone, 1])
        some = left > 0
        kept = np.repeat(some, counts) & ~gone
        self._lists.replace(groups[some], left[some], entries[kept])
        if not some.all():
            empty = groups[~some]
            self._lists.forget(empty)
            self._deltas.gone(empty, self._keys_of)
            self._table.remove(empty.astype(np.int32))
            self._table.compact()

    def _keys_of(self, groups: Ints) -> pa.RecordBatch:
        return self._table.keys(groups.astype(np.int32))

    def _of(self, groups: Ints) -> pa.RecordBatch:
        return self._rows.take(self._lists.gather(groups)[0][:, 1])

    def _whole(self) -> Make:
        numbers = self._lists.gather(self._lists.groups())[0][:, 1]
        frozen = self._rows.freeze()
        make: Callable[[], pa.RecordBatch] = lambda: frozen.take(numbers)  # noqa: E731
        return lambda: self._grouped(make())


def _up_to(values: Ints, begin: Ints, end: Ints, most: Ints) -> Ints:
    """In rising ``values[begin:end]``, row by row: the place behind all that are not above `most`.

    >>> _up_to(np.array([1, 3, 3, 0]), np.array([0, 3]), np.array([3, 4]), np.array([3, -1]))
    array([3, 3])
    """
    low, high = begin.copy(), end.copy()
    while True:
        open_ = low < high
        if not open_.any():
            return low
        middle = (low + high) // 2
        above = values[np.minimum(middle, len(values) - 1)] > most
        high = np.where(open_ & above, middle, high)
        low = np.where(open_ & ~above, middle + 1, low)
