"""Changing results as rows that say what they are.

One job: the operator of `Changes`: the hidden kind becomes a visible text.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.operators.contract import Batches, Operator
from fabric.operators.streams.columns import shown
from fabric.plan.stream import KIND, KINDS


class ChangesOperator(Operator):
    """Rows of `output`: first the kind, "+I" where rows have none."""

    def __init__(self, output: pa.Schema, source: pa.Schema) -> None:
        self._output, self._names = output, shown(source).names
        self._texts = pa.array(KINDS)

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """The same rows."""
        if KIND in batch.schema.names:
            kinds = self._texts.take(batch.column(KIND))
        else:
            kinds = pa.repeat(pa.scalar(KINDS[0]), batch.num_rows)
        columns = [kinds, *batch.select(self._names).columns]
        return [pa.RecordBatch.from_arrays(columns, schema=self._output)]
