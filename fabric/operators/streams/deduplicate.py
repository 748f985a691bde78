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
from fabric.operators.streams.columns import Ints, only, rows_of
from fabric.operators.streams.group_values import Numbers
from fabric.operators.streams.keyed_operator import KeyedOperator
from fabric.operators.streams.rank import Ranking
from fabric.operators.streams.top_n import BestOperator
from fabric.plan.expr import Column, SortKey
from fabric.plan.nodes import Deduplicate


def deduplicate_operator(node: Deduplicate, source: pa.Schema, output: pa.Schema) -> Operator:
    """The operator of `node` over rows of `source`."""
    if node.keep == "first" and not node.by:
        return FirstOperator(node, source, output, ttl_us=node.ttl_us)
    last = node.keep == "last"
    by = (SortKey(Column(node.by), descending=last, nulls_last=True),) if node.by else ()
    ranking = Ranking(by, 1, latest=last)
    return BestOperator(node, source, output, ranking, ttl_us=node.ttl_us)


class FirstOperator(KeyedOperator):
    """The first row of each key that comes, at once; keys are kept until they close or rest."""

    table = "keys"

    @property
    def columns(self) -> pa.Schema:
        """The keys."""
        return self._keys

    def update(self, groups: Ints, batch: pa.RecordBatch) -> Batches:
        """The rows whose keys are new."""
        new = self._firsts(groups)
        self._known.values[groups[new]] = True
        return [only(rows_of(batch, new), self._output.names)] if len(new) else []

    def empty(self, groups: Ints) -> None:
        """See `KeyedOperator`."""
        self._known.put(groups, False)

    def rows(self, groups: Ints) -> tuple[list[pa.Array], Ints]:
        """See `KeyedOperator`."""
        keys = self._table.keys(groups.astype(np.int32))
        return list(keys.columns), np.ones(len(groups), np.int64)

    def put(self, groups: Ints, batches: Sequence[pa.RecordBatch]) -> None:
        """See `KeyedOperator`."""
        self._known.put(groups, True)

    @property
    def nbytes(self) -> int:
        """See `KeyedOperator`."""
        return super().nbytes + self._known.nbytes + self._slot.nbytes

    def _forget_all(self) -> None:
        super()._forget_all()
        self._known, self._slot = Numbers(np.bool_, False), Numbers(np.int64, 0)

    def _firsts(self, groups: Ints) -> Ints:
        """The first row of each group that is not known, in the order they came."""
        self._known.reach(groups)
        rows = np.flatnonzero(~self._known.values[groups])
        backwards = rows[::-1]
        self._slot.put(groups[backwards], backwards)
        first: Ints = rows[self._slot.values[groups[rows]] == rows]
        return first
