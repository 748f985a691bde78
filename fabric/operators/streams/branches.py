"""Branches of one source at the top of a stage.

One job: `BranchesOperator`, which puts the rows of each branch out by a side of their own. How far
each has come in event time, the chain knows.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.operators.contract import Batches, Operator
from fabric.plan.nodes import branch_side


class BranchesOperator(Operator):
    """Input i is branch i.

    >>> branches = BranchesOperator()
    >>> branches.on_batch(1, pa.record_batch({"a": [7]})), list(branches.take_side())
    ([], ['1'])
    """

    def __init__(self) -> None:
        self._rows: dict[str, Batches] = {}

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """Rows of a branch."""
        self._rows.setdefault(branch_side(input), []).append(batch)
        return []

    def take_side(self) -> dict[str, Batches]:
        """The rows of each branch since the last call."""
        rows, self._rows = self._rows, {}
        return rows
