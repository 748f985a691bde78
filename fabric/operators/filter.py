"""Keep the rows whose predicate is true.

One job: the chain form of `Filter`. Null is not true.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.operators.contract import Batches, Operator
from fabric.operators.expressions.arrow import compile_expr
from fabric.operators.expressions.predicates import filter_expr
from fabric.plan.expr import Expr


class FilterOperator(Operator):
    """A stateless filter over batches of `schema`."""

    def __init__(self, predicate: Expr, schema: pa.Schema) -> None:
        self._keep = compile_expr(filter_expr(predicate, schema), schema)

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """The rows that pass; no batch when none does, the same one when all do."""
        mask = self._keep(batch)
        n_kept = mask.true_count if pa.types.is_boolean(mask.type) else 0
        if n_kept == batch.num_rows:
            return [batch]
        return [batch.filter(mask)] if n_kept else []
