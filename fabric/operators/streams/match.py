"""Matches of a pattern among the rows of each key of a stream, in order of event time.

    rows ─ late ones aside ─► wait for the watermark ─► in order ─► partition of the key ─► matches
                                                                         │ keeps rows from the start
                                                                         ▼ of the open match on
                                                       the time is over: a match, or aside

One job: the operator of `Match`. A row waits until the watermark has passed its time, so that rows
of a key come to the search in order whatever order they arrive in. The search keeps no state that
its rows do not tell: a snapshot has the rows, and a restored partition searches them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

import numpy as np
import pyarrow as pa

from fabric._cython.kernels.group_table import GroupTable
from fabric.errors import DataError
from fabric.event_time import BEGINNING, END_OF_TIME
from fabric.event_time.windows import behind
from fabric.operators.contract import Batches, Operator
from fabric.operators.match.results import Results, history_of
from fabric.operators.match.search import Found, Partition
from fabric.operators.match.table import in_order
from fabric.operators.match.values import Conditions
from fabric.operators.snapshots import KEY_GROUP, GroupTimes, Packed, unpacked, with_key_groups
from fabric.operators.streams.columns import (
    Ints,
    event_times,
    hashes_of_rows,
    only,
    row_watermarks,
    rows_of,
    shown,
    sliced,
)
from fabric.operators.streams.lifetime import LateRows
from fabric.operators.streams.row_store import RowStore
from fabric.plan.expr import output_name
from fabric.plan.mend import free_name
from fabric.plan.nodes import Match
from fabric.plan.stream import TIMEOUT
from fabric.state.backend import Snapshot, SnapshotReader

_HISTORY, _OPEN, _WAITING = range(3)
"""What a row is kept for: as one before a match, in a search, or until its time comes."""
_ROWS, _WATERMARK = "rows", "watermark"


class MatchOperator(Operator):
    """Looks for the matches of `node` among rows of `source`."""

    def __init__(self, node: Match, source: pa.Schema, output: pa.Schema) -> None:
        self._node, self._output = node, output
        seen = shown(source)
        self._kept = node.kept(seen)
        self._keys = [output_name(key) for key in node.keys]
        self._key_schema = pa.schema([seen.field(name) for name in self._keys])
        self._flag = free_name("__kept_for", self._kept.names)
        self._exported = pa.schema([*self._kept, pa.field(self._flag, pa.int8())])
        self._late = LateRows(aside=node.late == "side")
        self._conditions = Conditions(node, self._kept)
        self._program = self._conditions.program
        self._results = Results(node, self._program, self._kept, output)
        self._history = history_of(node, self._kept)
        self._timeouts: Batches = []
        self._n_timeouts = 0
        self._times = GroupTimes(BEGINNING)
        self._forget_all()

    # ---- calls

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """Rows that are on time wait until event time has passed them."""
        times = event_times(batch, self._node.time)
        known = self._times.of(lambda: hashes_of_rows(batch, self._keys))
        own = row_watermarks(batch)
        late = times < (known if own is None else np.maximum(known, own))
        rows = only(batch, self._kept.names)
        if late.any():
            self._late.put(batch, late)
            rows, times = rows_of(rows, ~late), times[~late]
        self._wait(rows, times)
        return []

    def on_watermark(self, time_us: int) -> Batches:
        """Matches that are decided now."""
        self._times = self._times.raised(time_us)
        due = self._due(time_us)
        found: list[tuple[Partition, Found]] = []
        touched = {} if due is None else {each.group: each for each in self._take(due)}
        if time_us == END_OF_TIME:
            touched = self._partitions
        for partition in touched.values():
            self._advance(partition, time_us, found)
        while self._deadlines and self._deadlines[0][0] < time_us:
            _, _, partition = heappop(self._deadlines)
            if self._partitions.get(partition.group) is not partition:
                continue  # its key has no rows any more, or new ones
            partition.watched_until = None
            touched[partition.group] = partition
            self._advance(partition, time_us, found)
        out = self._put_out(found)
        self._tidy(list(touched.values()))
        return out

    def watermark(self, time_us: int) -> int:
        """Held back by as long as the last row of a match may be back."""
        return behind(time_us, self._node.within_us)

    def counts(self) -> dict[str, int]:
        """How many rows were late, and how many matches were begun and not completed in time."""
        return {"late_rows": self._late.n_rows, "timed_out_matches": self._n_timeouts}

    def take_side(self) -> dict[str, Batches]:
        """Late rows, and matches that were not completed in time."""
        timeouts, self._timeouts = self._timeouts, []
        return {**self._late.take(), **({TIMEOUT: timeouts} if timeouts else {})}

    def on_barrier(self, checkpoint: int) -> Snapshot:
        """The rows that wait, and those of open matches."""
        rows = self._export()
        return Packed({_ROWS: lambda: rows}, {_WATERMARK: self._times.fact()}, rows.num_rows)

    def restore(self, snapshots: Sequence[SnapshotReader], key_groups: range) -> None:
        """Search the rows of our key groups as far as they had been searched."""
        self._times = GroupTimes.restored(snapshots, _WATERMARK, key_groups, BEGINNING)
        batches = unpacked(snapshots, _ROWS, self._exported, key_groups)
        if not batches:
            return
        rows = pa.concat_batches(batches)
        kept_for = rows.column(self._flag).to_numpy()
        plain = only(rows, self._kept.names)
        waits = kept_for == _WAITING
        if waits.any():
            waiting = rows_of(plain, waits)
            self._wait(waiting, event_times(waiting, self._node.time))
        if not waits.all():
            found: list[tuple[Partition, Found]] = []
            for partition in self._take(rows_of(plain, ~waits), kept_for[~waits]):
                self._advance(partition, BEGINNING, found)
            if found:
                raise DataError(
                    "the conditions of a match have another answer for the same rows than before "
                    "the checkpoint; let them depend on the columns of rows alone"
                )

    # ---- inside

    def _forget_all(self) -> None:
        self._table = GroupTable(self._key_schema) if self._keys else None
        self._store = RowStore(self._kept)
        self._conditions.rows = self._store
        self._partitions: dict[int, Partition] = {}
        self._waiting: list[tuple[int, pa.RecordBatch, Ints]] = []
        self._deadlines: list[tuple[int, int, Partition]] = []
        self._n_watched = 0

    def _wait(self, rows: pa.RecordBatch, times: Ints) -> None:
        if rows.num_rows:
            self._waiting.append((int(times.min()), rows, times))

    def _due(self, time_us: int) -> pa.RecordBatch | None:
        """The waiting rows whose time the watermark has passed."""
        found, left = [], []
        for least, rows, times in self._waiting:
            if least >= time_us:
                left.append((least, rows, times))
                continue
            due = times < time_us
            found.append(rows_of(rows, due))
            if not due.all():
                later = times[~due]
                left.append((int(later.min()), rows_of(rows, ~due), later))
        self._waiting = left
        return pa.concat_batches(found) if found else None

    def _take(self, rows: pa.RecordBatch, kept_for: Ints | None = None) -> list[Partition]:
        """Give rows to the partitions of their keys; returns those."""
        ids = np.zeros(rows.num_rows, np.int64)
        if self._table is not None:
            ids = self._table.upsert(only(rows, self._keys)).astype(np.int64)
        groups = [pa.array(ids)]
        if kept_for is not None:  # history may be equal to what came behind it
            groups.append(pa.array(kept_for.astype(np.int64)))
        order = in_order(self._node, rows, groups)
        rows, ids = rows_of(rows, order), ids[order]
        numbers = self._store.put(rows)
        times = event_times(rows, self._node.time).tolist()
        cuts = np.flatnonzero(np.diff(ids, prepend=-1, append=-1)).tolist()
        parts = [self._partition(int(ids[begin])) for begin in cuts[:-1]]
        spans = list(zip(parts, cuts[:-1], cuts[1:], strict=True))
        masks = self._conditions.masks(rows.num_rows, self._shifted(spans, numbers))
        n_history = np.zeros(len(spans), np.int64)
        if kept_for is not None:
            before = np.append(0, np.cumsum(kept_for[order] == _HISTORY))
            n_history = before[cuts[1:]] - before[cuts[:-1]]
        for (partition, begin, end), n in zip(spans, n_history.tolist(), strict=True):
            if n:
                partition.start = n
            partition.numbers += numbers[begin:end].tolist()
            partition.times += times[begin:end]
            partition.masks += masks[begin:end]
        return parts

    def _partition(self, number: int) -> Partition:
        found = self._partitions.get(number)
        if found is None:
            found = self._partitions[number] = Partition([], [], [], group=number)
        return found

    def _shifted(
        self, spans: Iterable[tuple[Partition, int, int]], numbers: Ints
    ) -> dict[int, Ints]:
        """The numbers of the rows that lie before the new ones of each partition, by how far."""
        found = dict.fromkeys(self._conditions.shifts, numbers)
        for shift in self._conditions.shifts - {0}:
            parts = []
            for partition, begin, end in spans:
                before = partition.numbers[shift:]
                before = [-1] * (-shift - len(before)) + before
                parts.append(np.append(before, numbers[begin:end])[: end - begin])
            found[shift] = np.concatenate(parts).astype(np.int64)
        return found

    def _advance(
        self, partition: Partition, time_us: int, found: list[tuple[Partition, Found]]
    ) -> None:
        ended = time_us == END_OF_TIME and not self._node.within_us
        matches = partition.advance(self._program, reached=time_us, ended=ended)
        found += ((partition, match) for match in matches)
        if partition.is_begun and self._node.within_us:
            deadline = partition.deadline(self._program)
            if partition.watched_until != deadline:
                self._n_watched += 1
                partition.watched_until = deadline
                heappush(self._deadlines, (deadline, self._n_watched, partition))

    def _put_out(self, found: Sequence[tuple[Partition, Found]]) -> Batches:
        """Rows of matches; those of timed out ones go aside, or nowhere."""
        over = [each for each in found if each[1].is_timeout]
        self._n_timeouts += len(over)
        if over and self._node.timeout == "side":
            self._timeouts += sliced(self._results.of(self._store, over))
        matches = [each for each in found if not each[1].is_timeout]
        return sliced(self._results.of(self._store, matches)) if matches else []

    def _tidy(self, touched: Sequence[Partition]) -> None:
        """Forget the rows that no search reads any more, and keys without rows."""
        gone, empty = list[int](), list[int]()
        for partition in touched:
            gone += partition.drop_history(self._history)
            if not partition.numbers and self._partitions.pop(partition.group, None) is not None:
                empty.append(partition.group)
        self._store.drop(np.array(gone, np.int64))
        if empty and self._table is not None:
            self._table.remove(np.array(empty, np.int32))
            self._table.compact()

    def _export(self) -> pa.RecordBatch:
        """All rows, what each is kept for, and its key group."""
        numbers, kept_for = list[int](), list[int]()
        for partition in self._partitions.values():
            numbers += partition.numbers
            n_open = len(partition.numbers) - partition.start
            kept_for += [_HISTORY] * partition.start + [_OPEN] * n_open
        waiting = [rows for _, rows, _ in self._waiting]
        rows = pa.concat_batches([self._store.take(np.array(numbers, np.int64)), *waiting])
        kept_for += [_WAITING] * (rows.num_rows - len(numbers))
        flagged = pa.RecordBatch.from_arrays(
            [*rows.columns, pa.array(kept_for, pa.int8())], schema=self._exported
        )
        if self._keys:
            return with_key_groups(flagged, self._keys)
        return flagged.append_column(KEY_GROUP, pa.array(np.zeros(len(flagged), np.uint16)))
