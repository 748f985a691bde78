"""Compute columns.

One job: the chain form of `Select` and `WithColumns`, which differ only in the columns they keep.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from fabric.operators.contract import Batches, Operator
from fabric.operators.expressions.arrow import compile_expr
from fabric.plan.expr import Expr


class ProjectOperator(Operator):
    """One expression over `source` per column of `output`."""

    def __init__(self, exprs: Sequence[Expr], source: pa.Schema, output: pa.Schema) -> None:
        self._columns = [compile_expr(expr, source) for expr in exprs]
        self._output = output

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """All rows, with the columns of the output."""
        columns = [column(batch) for column in self._columns]
        return [pa.RecordBatch.from_arrays(columns, schema=self._output)]
