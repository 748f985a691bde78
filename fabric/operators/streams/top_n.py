"""The best rows of each key, as rows come or when the key's group closes.

    rows ─ late ones aside ─► group of each ─► ranking ─► changes as they happen, or
                                                          all of a group when it closes

One job: the operator of `TopN`, and `BestOperator`, which joins keys, ranking, lateness, closing
and forgetting, and their snapshots, for deduplication as well. What is best is the caller's
`Ranking`; equal rows are in the order they came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fabric.operators.contract import Batches
from fabric.operators.snapshots import with_key_groups
from fabric.operators.streams.columns import Ints, only, shown
from fabric.operators.streams.deltas import Make
from fabric.operators.streams.keyed_operator import LAST, KeyedOperator
from fabric.operators.streams.lifetime import Late
from fabric.operators.streams.rank import BestRows, Change, FrozenBest, Ranking, Wanted
from fabric.plan.expr import output_name
from fabric.plan.nodes import TopN

_RANK = "__rank"


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


class BestOperator(KeyedOperator):
    """The best rows of each key among those of `source`; puts out `output`.

    Groups without a closing time put out changes as they happen, a net change a batch; `output`
    then ends with the kind of each row.
    """

    def __init__(self, best: Best, source: pa.Schema, output: pa.Schema) -> None:
        self._best = best
        self._schema = shown(source)
        self._output = output
        keys = pa.schema([source.field(name) for name in best.keys])
        late = Late(best.closes, best.lateness_us, aside=best.aside)
        super().__init__(keys, late, closes=best.closes, ttl_us=best.ttl_us)

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """What the rows change; nothing where groups close."""
        if self._closing is not None:
            batch = self._late.split(batch, self._watermark)
        if not batch.num_rows:
            return []
        groups = self.number(only(batch, self._best.keys))
        if self._ttl is not None:
            self._rows.forget(self._ttl.woken(groups))
        if self._closing is not None:
            self._closing.note(groups, batch.column(self._best.closes))
        change = self._rows.update(groups, batch, self._wanted)
        found = [] if change is None else self._put_out(change)
        self.make_room()
        return found

    def on_watermark(self, time_us: int) -> Batches:
        """Groups that are complete now."""
        self._watermark = time_us
        if self._closing is None:
            return []
        passed = int(self._late.passed(np.int64(time_us)))
        out = self._close(self._closing.due(passed))
        return out if self._below.is_empty else out + self.gradually(self._close_cold(passed))

    def on_time(self, now_us: int) -> Batches:
        """Gives memory back of keys that rest."""
        if len(over := self.sweep(now_us)):
            self._forget(over)
        return []

    # ---- see `KeyedOperator`

    table = "rows"

    @property
    def stored(self) -> pa.Schema:
        """A row's columns, its rank, when its group last had a row."""
        last = [] if self._ttl is None else [pa.field(LAST, pa.int64())]
        return pa.schema([*self._schema, pa.field(_RANK, pa.int64()), *last])

    def groups(self) -> Ints:
        """See `KeyedOperator`."""
        return self._rows.groups()

    def unload(self, groups: Ints) -> tuple[pa.RecordBatch, Ints]:
        """See `KeyedOperator`."""
        found, counts = self._rows.gather(groups), self._rows.counts(groups)
        columns = [*found.rows.columns, pa.array(found.ranks)]
        if self._ttl is not None:
            columns.append(pa.array(np.repeat(self._ttl.last(groups), counts)))
        return pa.RecordBatch.from_arrays(columns, schema=self.stored), counts

    def whole(self) -> Make:
        """See `KeyedOperator`; all rows, group by group."""
        groups, frozen = self._rows.freeze()
        last = None if self._ttl is None else self._ttl.last(groups).copy()
        return lambda: with_key_groups(_table(frozen, last), self._best.keys)

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        """The rows of each group are side by side, by rank."""
        if not any(batch.num_rows for batch in batches):
            return
        keys = self._best.keys
        groups = np.concatenate([self._table.upsert(only(b, keys)) for b in batches])
        groups = groups.astype(np.int64)
        rows = [only(batch, self._schema.names) for batch in batches]
        self._rows.load(groups, rows, _joined(batches, _RANK))
        if self._ttl is not None:
            self._ttl.load(groups, _joined(batches, LAST))
        if self._closing is not None:
            times = pa.concat_arrays([b.column(self._best.closes) for b in batches])
            self._closing.note(groups, times)

    @property
    def nbytes(self) -> int:
        """See `KeyedOperator`."""
        return super().nbytes + self._rows.nbytes

    def _forget_all(self) -> None:
        super()._forget_all()
        self._rows = BestRows(self._best.ranking, self._schema)

    # ---- what is put out

    def _close(self, due: Ints) -> Batches:
        """The rows of groups that are complete."""
        if not len(due):
            return []
        out = self._put_out(self._rows.gather(due))
        if self._ttl is not None:
            self._ttl.forget(due)
        self._forget(due)
        return out

    def _close_cold(self, passed: int) -> Iterator[Batches]:
        """The same of groups below memory."""
        assert self._closing is not None
        for rows in self._below.due(passed):
            self.load([rows])
            yield self._close(self._closing.due(passed))
        self._below.expire(passed)

    @property
    def _wanted(self) -> Wanted:
        if self._closing is not None:
            return "nothing"
        return "ranks" if self._best.rank else "rows"

    def _forget(self, groups: Ints) -> None:
        self._rows.forget(groups)
        self.forget(groups)

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
    return table if last is None else table.append_column(LAST, pa.array(last))


def _joined(batches: Sequence[pa.RecordBatch], name: str) -> Ints:
    found: Ints = np.concatenate([batch.column(name).to_numpy() for batch in batches])
    return found


def top_n_operator(node: TopN, source: pa.Schema, output: pa.Schema) -> BestOperator:
    """The operator of `node` over rows of `source`."""
    best = Best(
        keys=tuple(map(output_name, node.keys)),
        ranking=Ranking(node.by, node.n, node.ties),
        rank=node.rank,
        closes=node.closes,
        lateness_us=node.lateness_us,
        aside=node.late == "side",
    )
    return BestOperator(best, source, output)
