"""One row of each key: the first or the last, as they come or by a column.

One job: the operators of `Deduplicate`. The first row by arrival never changes, so it is put out at
once and only its key is kept; every other choice is a ranking of one row (`top_n.py`). Rows without
a value to go by come after all others. Of equal rows the first that came is first, the last one is
last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from fabric.operators.contract import Batches, Operator
from fabric.operators.snapshots import with_key_groups
from fabric.operators.streams.columns import Ints, grown, only, rows_of
from fabric.operators.streams.deltas import Make
from fabric.operators.streams.keyed_operator import LAST, KeyedOperator
from fabric.operators.streams.lifetime import Late
from fabric.operators.streams.rank import Ranking
from fabric.operators.streams.top_n import Best, BestOperator
from fabric.plan.expr import Column, SortKey, output_name
from fabric.plan.nodes import Deduplicate


def deduplicate_operator(node: Deduplicate, source: pa.Schema, output: pa.Schema) -> Operator:
    """The operator of `node` over rows of `source`."""
    if node.keep == "first" and not node.by:
        return FirstOperator(node, source, output)
    last = node.keep == "last"
    by = (SortKey(Column(node.by), descending=last, nulls_last=True),) if node.by else ()
    best = Best(
        keys=tuple(map(output_name, node.keys)),
        ranking=Ranking(by, 1, latest=last),
        closes=node.closes,
        lateness_us=node.lateness_us,
        aside=node.late == "side",
        ttl_us=node.ttl_us,
    )
    return BestOperator(best, source, output)


class FirstOperator(KeyedOperator):
    """The first row of each key that comes, at once; keys are kept until they close or rest."""

    def __init__(self, node: Deduplicate, source: pa.Schema, output: pa.Schema) -> None:
        self._output = output
        keys = pa.schema([source.field(output_name(key)) for key in node.keys])
        late = Late(node.closes, node.lateness_us, aside=node.late == "side")
        super().__init__(keys, late, closes=node.closes, ttl_us=node.ttl_us)

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """The rows whose keys are new."""
        if self._closing is not None:
            batch = self._late.split(batch, self._watermark)
        if not batch.num_rows:
            return []
        groups = self.number(only(batch, self._keys.names))
        self._reach(groups)
        if self._ttl is not None:
            self._known[self._ttl.woken(groups)] = False
        if self._closing is not None:
            self._closing.note(groups, batch.column(self._closes))
        new = self._firsts(groups)
        self._known[groups[new]] = True
        self.make_room()
        return [only(rows_of(batch, new), self._output.names)] if len(new) else []

    def on_watermark(self, time_us: int) -> Batches:
        """Forgets keys that are complete."""
        self._watermark = time_us
        if self._closing is not None:
            passed = int(self._late.passed(np.int64(time_us)))
            due = self._closing.due(passed)
            if self._ttl is not None:
                self._ttl.forget(due)
            self._forget(due)
            self._below.expire(passed)
        return []

    def on_time(self, now_us: int) -> Batches:
        """Forgets keys that rest."""
        self._forget(self.sweep(now_us))
        return []

    # ---- see `KeyedOperator`

    table = "keys"

    @property
    def stored(self) -> pa.Schema:
        """Keys, and when they last had a row."""
        last = [] if self._ttl is None else [pa.field(LAST, pa.int64())]
        return pa.schema([*self._keys, *last])

    def groups(self) -> Ints:
        """See `KeyedOperator`."""
        return self._table.ids().astype(np.int64)

    def unload(self, groups: Ints) -> tuple[pa.RecordBatch, Ints]:
        """See `KeyedOperator`."""
        keys = self._table.keys(groups.astype(np.int32))
        if self._ttl is not None:
            keys = keys.append_column(LAST, pa.array(self._ttl.last(groups)))
        return keys, np.ones(len(groups), np.int64)

    def whole(self) -> Make:
        """See `KeyedOperator`."""
        rows, _ = self.unload(self.groups())
        return lambda: with_key_groups(rows, self._keys.names)

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        """See `KeyedOperator`."""
        for rows in batches:
            if not rows.num_rows:
                continue
            groups = self._table.upsert(only(rows, self._keys.names)).astype(np.int64)
            self._reach(groups)
            self._known[groups] = True
            if self._ttl is not None:
                self._ttl.load(groups, rows.column(LAST).to_numpy())
            if self._closing is not None:
                self._closing.note(groups, rows.column(self._closes))

    @property
    def nbytes(self) -> int:
        """See `KeyedOperator`."""
        return super().nbytes + self._known.nbytes + self._slot.nbytes

    def _forget_all(self) -> None:
        super()._forget_all()
        self._known = np.empty(0, np.bool_)
        self._slot: Ints = np.empty(0, np.int64)

    # ---- inside

    def _firsts(self, groups: Ints) -> Ints:
        """The first row of each group that is not known, in the order they came."""
        rows = np.flatnonzero(~self._known[groups])
        backwards = rows[::-1]
        self._slot[groups[backwards]] = backwards
        first: Ints = rows[self._slot[groups[rows]] == rows]
        return first

    def _forget(self, groups: Ints) -> None:
        if len(groups):
            self._known[groups] = False
            self.forget(groups)

    def _reach(self, groups: Ints) -> None:
        length = int(groups.max()) + 1
        self._known = grown(self._known, length)
        self._slot = grown(self._slot, length)
