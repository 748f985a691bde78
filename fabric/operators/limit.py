"""Skip some rows, let some pass, and be done.

One job: the chain form of `Limit`. Its state is how many rows it has taken so far.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from fabric.operators.contract import Batches, Files, Operator, Snapshot, SnapshotReader


class LimitOperator(Operator):
    """Rows `offset` to ``offset + n`` of what comes."""

    def __init__(self, n: int, offset: int) -> None:
        self._n, self._offset, self._taken = n, offset, 0

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """The part of the batch that lies in the range."""
        begin = max(0, self._offset - self._taken)
        end = min(batch.num_rows, self._offset + self._n - self._taken)
        self._taken += batch.num_rows
        return [batch.slice(begin, end - begin)] if begin < end else []

    def on_barrier(self, checkpoint: int) -> Snapshot:
        """The rows taken, as eight bytes."""
        return Files({"taken": self._taken.to_bytes(8, "little")})

    def restore(self, snapshots: Sequence[SnapshotReader], key_groups: range) -> None:
        """Go on counting; several states add up, because a limit runs as one task."""
        taken = (snapshot.read("taken").to_pybytes() for snapshot in snapshots)
        self._taken = sum(int.from_bytes(state, "little") for state in taken)

    @property
    def done(self) -> bool:
        """Whether the last row has passed."""
        return self._taken >= self._offset + self._n
