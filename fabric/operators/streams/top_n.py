"""The best rows of each key, as rows come or when the key's group closes.

    rows ─ late ones aside ─► group of each ─► ranking ─► changes as they happen, or
                                                          all of a group when it closes

One job: the operator of `TopN`, and `BestOperator`, a `KeyedOperator` with a ranking, which serves
deduplication as well. What is best is the caller's `Ranking`; equal rows are in the order they
came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from fabric.operators.contract import Batches
from fabric.operators.snapshots import with_key_groups
from fabric.operators.streams.columns import Ints, only, shown
from fabric.operators.streams.deltas import Make
from fabric.operators.streams.keyed_operator import LAST, KeyedOperator, joined
from fabric.operators.streams.rank import BestRows, Change, FrozenBest, Ranking, Wanted
from fabric.plan.nodes import TopN
from fabric.plan.nodes.groups import Groups

_RANK = "__rank"


class BestOperator(KeyedOperator):
    """The best rows of each key among those of `source`; puts out `output`.

    Groups without a closing time put out changes as they happen, a net change a batch; `output`
    then ends with the kind of each row. `rank` names the column of ranks, the last; "": none.
    """

    def __init__(
        self, node: Groups, source: pa.Schema, output: pa.Schema, ranking: Ranking,
        *, rank: str = "", ttl_us: int = 0,
    ) -> None:  # fmt: skip
        self._ranking, self._rank = ranking, rank
        self._schema = shown(source)
        super().__init__(node, source, output, ttl_us=ttl_us)

    # ---- see `KeyedOperator`

    table = "rows"

    @property
    def columns(self) -> pa.Schema:
        """A row's columns, its rank."""
        return self._schema.append(pa.field(_RANK, pa.int64()))

    @property
    def told(self) -> dict[str, str]:
        """Its columns, and its rank where ranks are put out."""
        told = {name: name for name in self._schema.names}
        return {**told, _RANK: self._rank} if self._rank else told

    def update(self, groups: Ints, batch: pa.RecordBatch) -> Batches:
        """What the rows change; nothing where groups close."""
        change = self._rows.update(groups, batch, self._wanted)
        return [] if change is None else self._put_out(change)

    def empty(self, groups: Ints) -> None:
        """See `KeyedOperator`."""
        self._rows.forget(groups)

    def complete(self, groups: Ints) -> Batches:
        """See `KeyedOperator`."""
        return self._put_out(self._rows.gather(groups))

    def groups(self) -> Ints:
        """See `KeyedOperator`."""
        return self._rows.groups()

    @property
    def n_rows(self) -> int:
        """See `KeyedOperator`."""
        return self._rows.n_rows

    def rows(self, groups: Ints) -> tuple[list[pa.Array], Ints]:
        """See `KeyedOperator`."""
        found = self._rows.gather(groups)
        return [*found.rows.columns, pa.array(found.ranks)], self._rows.counts(groups)

    def put(self, groups: Ints, batches: Sequence[pa.RecordBatch]) -> None:
        """The rows of each group are side by side, by rank."""
        rows = [only(batch, self._schema.names) for batch in batches]
        self._rows.load(groups, rows, joined(batches, _RANK))

    def whole(self) -> Make:
        """See `KeyedOperator`; all rows, group by group."""
        groups, frozen = self._rows.freeze()
        last = None if self._ttl is None else self._ttl.last(groups).copy()
        return lambda: with_key_groups(_table(frozen, last), self._keys.names)

    @property
    def nbytes(self) -> int:
        """See `KeyedOperator`."""
        return super().nbytes + self._rows.nbytes

    def _forget_all(self) -> None:
        super()._forget_all()
        self._rows = BestRows(self._ranking, self._schema)

    def _close_below(self, passed: int) -> Batches:
        return [] if self._below.is_empty else self.gradually(self._close_cold(passed))

    # ---- what is put out

    def _close_cold(self, passed: int) -> Iterator[Batches]:
        assert self._closing is not None
        for rows in self._below.due(passed):
            self._load([rows])
            yield self._close(self._closing, passed)
        self._below.expire(passed)

    @property
    def _wanted(self) -> Wanted:
        if self._closing is not None:
            return "nothing"
        return "ranks" if self._rank else "rows"

    def _put_out(self, change: Change) -> Batches:
        if not change.rows.num_rows:
            return []
        columns = list(change.rows.columns)
        if self._rank:
            columns.append(pa.array(change.ranks))
        if self._closing is None:
            columns.append(pa.array(change.kinds.astype(np.int8)))
        return [pa.RecordBatch.from_arrays(columns, schema=self._output)]


def _table(frozen: FrozenBest, last: Ints | None) -> pa.Table:
    table = frozen.table().append_column(_RANK, pa.array(frozen.ranks))
    return table if last is None else table.append_column(LAST, pa.array(last))


def top_n_operator(node: TopN, source: pa.Schema, output: pa.Schema) -> BestOperator:
    """The operator of `node` over rows of `source`."""
    return BestOperator(node, source, output, Ranking(node.by, node.n, node.ties), rank=node.rank)
