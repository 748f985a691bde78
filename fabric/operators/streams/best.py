"""Operators that put out the best rows of each key: the common part of top-N and deduplication.

    rows ─ late ones aside ─► group of each ─► ranking ─► changes as they happen, or
                                                          all of a group when it closes

One job: `BestOperator`, which joins keys, ranking, lateness, closing and forgetting, and their
snapshots. What is best is the caller's `Ranking`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fabric._cython.kernels.group_table import GroupTable
from fabric.event_time import BEGINNING
from fabric.operators.contract import Batches, Operator, Snapshot, SnapshotReader
from fabric.operators.streams.closing import Closing
from fabric.operators.streams.columns import Ints, only, shown
from fabric.operators.streams.late import Late
from fabric.operators.streams.packed import Packed, unpacked, with_key_groups
from fabric.operators.streams.ranked import BestRows, Change, FrozenBest, Ranking, Wanted
from fabric.operators.streams.resting import Resting, restored_times, times_of

_RANK, _LAST = "__rank", "__last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """What a `BestOperator` is to do."""

    keys: tuple[str, ...]
    ranking: Ranking
    rank: str = ""
    """The column of ranks, last; "": none."""
    closes: str = ""
    lateness_us: int = 0
    aside: bool = False
    """Whether late rows go to a side output."""
    ttl_us: int = 0


class BestOperator(Operator):
    """The best rows of each key among those of `source`; puts out `output`.

    Groups without a closing time put out changes as they happen, a net change a batch; `output`
    then ends with the kind of each row.
    """

    def __init__(self, best: Best, source: pa.Schema, output: pa.Schema) -> None:
        self._best = best
        self._schema = shown(source)
        self._output = output
        self._table = GroupTable(pa.schema([source.field(name) for name in best.keys]))
        self._rows = BestRows(best.ranking, self._schema)
        self._late = Late(best.closes, best.lateness_us, aside=best.aside)
        self._closing = Closing() if best.closes else None
        self._resting = Resting(best.ttl_us) if best.ttl_us else None
        self._watermark = BEGINNING

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """What the rows change; nothing where groups close."""
        if self._closing is not None:
            batch = self._late.split(batch, self._watermark)
        if not batch.num_rows:
            return []
        groups = self._table.upsert(only(batch, self._best.keys)).astype(np.int64)
        if self._resting is not None:
            self._rows.forget(self._resting.woken(groups))
        if self._closing is not None:
            self._closing.note(groups, batch.column(self._best.closes))
        change = self._rows.update(groups, batch, self._wanted)
        return [] if change is None else self._put_out(change)

    def on_watermark(self, time_us: int) -> Batches:
        """Groups that are complete now."""
        self._watermark = time_us
        if self._closing is None:
            return []
        due = self._closing.due(int(self._late.passed(np.int64(time_us))))
        if not len(due):
            return []
        out = self._put_out(self._rows.gather(due))
        if self._resting is not None:
            self._resting.forget(due)
        self._forget(due)
        return out

    def on_time(self, now_us: int) -> Batches:
        """Gives memory back of keys that rest."""
        if self._resting is not None and len(over := self._resting.swept(now_us)):
            if self._closing is not None:
                self._closing.forget(over)
            self._forget(over)
        return []

    def take_side(self) -> dict[str, Batches]:
        """Late rows."""
        return self._late.take()

    def counts(self) -> dict[str, int]:
        """How many rows were late."""
        return {"late_rows": self._late.n_rows} if self._closing is not None else {}

    def on_barrier(self, checkpoint: int) -> Snapshot:
        """All rows, group by group."""
        groups, frozen = self._rows.freeze()
        last = None if self._resting is None else self._resting.last(groups).copy()
        keys = self._best.keys
        return Packed(
            {"rows": lambda: with_key_groups(_table(frozen, last), keys)},
            times_of(self._watermark, self._resting),
        )

    def restore(self, snapshots: Sequence[SnapshotReader], key_groups: range) -> None:
        """The rows of our key groups."""
        self._watermark = restored_times(snapshots, self._resting)
        extra = [pa.field(_RANK, pa.int64())]
        if self._resting is not None:
            extra.append(pa.field(_LAST, pa.int64()))
        schema = pa.schema([*self._schema, *extra])
        batches = unpacked(snapshots, "rows", schema, key_groups)
        if not batches:
            return
        keys = self._best.keys
        groups = np.concatenate([self._table.upsert(only(b, keys)) for b in batches])
        rows = [b.select(self._schema.names) for b in batches]
        self._rows.load(groups.astype(np.int64), rows, _joined(batches, _RANK))
        if self._resting is not None:
            self._resting.load(groups, _joined(batches, _LAST))
        if self._closing is not None:
            times = pa.concat_arrays([b.column(self._best.closes) for b in batches])
            self._closing.note(groups, times)

    @property
    def _wanted(self) -> Wanted:
        if self._closing is not None:
            return "nothing"
        return "ranks" if self._best.rank else "rows"

    def _forget(self, groups: Ints) -> None:
        self._rows.forget(groups)
        self._table.remove(groups.astype(np.int32))
        self._table.compact()

    def _put_out(self, change: Change) -> Batches:
        if not change.rows.num_rows:
            return []
        columns = list(change.rows.columns)
        if self._best.rank:
            columns.append(pa.array(change.ranks))
        if self._closing is None:
            columns.append(pa.array(change.kinds.astype(np.int8)))
        return [pa.RecordBatch.from_arrays(columns, schema=self._output)]


def _table(frozen: FrozenBest, last: Ints | None) -> pa.Table:
    table = frozen.table().append_column(_RANK, pa.array(frozen.ranks))
    return table if last is None else table.append_column(_LAST, pa.array(last))


def _joined(batches: Sequence[pa.RecordBatch], name: str) -> Ints:
    found: Ints = np.concatenate([batch.column(name).to_numpy() for batch in batches])
    return found
