"""All rows of all inputs, in the order they come.

One job: the chain form of `Union`: columns by position, in the common types, under the first's
names.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from fabric.operators.contract import Batches, Operator
from fabric.operators.expressions.arrow import compile_expr
from fabric.plan.expr import Cast, Column


class UnionOperator(Operator):
    """Casts each input to `output`."""

    def __init__(self, sources: Sequence[pa.Schema], output: pa.Schema) -> None:
        self._output = output
        self._columns = [
            [_column(field, wanted, source) for field, wanted in zip(source, output, strict=True)]
            for source in sources
        ]

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """The same rows as columns of the output."""
        columns = [column(batch) for column in self._columns[input]]
        return [pa.RecordBatch.from_arrays(columns, schema=self._output)]


def _column(field: pa.Field, wanted: pa.Field, source: pa.Schema):  # type: ignore[no-untyped-def]
    column = Column(field.name)
    same = field.type.equals(wanted.type)
    return compile_expr(column if same else Cast(column, wanted.type), source)
