"""What one task writes to its edges.

One job: route every batch to each output edge, into the store (materialised) or into the job's
queues (pipelined), then seal and count. Belongs to the task's thread.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.shuffle.store.messages import add_partition_bytes, batch_bytes
from fabric._cython.shuffle.store.store import Store
from fabric.agent.pipes import OF_JOBS, Backlog, Item, Mark, Pipes, Port
from fabric.agent.router import Offsets, Router, make_router, reached, read_schema
from fabric.control import control_pb2 as pb
from fabric.errors import InternalError
from fabric.flight.compact import compact, may_waste
from fabric.flight.header import Event
from fabric.ids import TaskId

_MEASURED = (pb.EDGE_HASH, pb.EDGE_RANGE)
"""Kinds of edges whose partitions the coordinator may coalesce or split."""


def shaped(batch: pa.RecordBatch, schema: pa.Schema, where: str) -> pa.RecordBatch:
    """`batch` under exactly `schema`: only metadata and nullability may differ, nothing else."""
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    if batch.schema.names != schema.names or batch.schema.types != schema.types:
        raise InternalError(f"{where} carries {schema}, but the stage made {batch.schema}")
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


class EdgeOutput:
    """One output edge of one task."""

    def __init__(self, edge: pb.OutputEdge, task: TaskId) -> None:
        self.edge = edge.edge
        self.key = (task.job, edge.edge, task.task, task.attempt)
        """Of this output in the store."""
        self.pipelined = edge.mode == pb.MODE_PIPELINED
        self.schema = read_schema(edge.schema)
        self._may_waste = may_waste(self.schema)
        self.n_partitions = edge.n_partitions
        self.buffer_batches = edge.buffer_batches
        self.compression = edge.compression
        self.side = edge.side
        self._task = task
        self._path = edge.node_path
        self._router: Router = make_router(edge, self.schema, task.task)
        self._reached = reached(edge, task.task)
        self._sent: NDArray[np.int64] = np.zeros(edge.n_partitions, dtype=np.int64)
        self._measured = edge.kind in _MEASURED and edge.n_partitions > 1 and not self.pipelined
        self._partition_bytes: NDArray[np.int64] = np.zeros(edge.n_partitions, dtype=np.int64)
        self.rows = self.n_bytes = 0

    def is_of(self, branch: str) -> bool:
        """Whether its rows are of this branch; ``""`` is any."""
        return not branch or self.side.partition("/")[0] == branch

    def route(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Offsets | None]:
        """The batch reordered by partition, counted."""
        batch = shaped(batch, self.schema, f"edge {self._path}")
        rows, offsets = self._router.route(batch)
        if self._may_waste:
            rows = compact(rows)  # else what a filter threw away is kept as long as the job
        self.rows += rows.num_rows
        self.n_bytes += batch_bytes(rows)
        self._sent += rows.num_rows if offsets is None else np.diff(offsets)
        if self._measured and offsets is not None:
            add_partition_bytes(rows, offsets, self._partition_bytes)
        return rows, offsets

    def totals(self) -> pb.EdgeTotals:
        """What it carried; by partition where the next stage may be planned by that."""
        return pb.EdgeTotals(
            edge=self.edge,
            rows=self.rows,
            bytes=self.n_bytes,
            partition_bytes=self._partition_bytes.tolist() if self._measured else (),
        )

    def marks(self, event: Event, value: int) -> list[tuple[Port, Item]]:
        """A watermark or barrier for every partition that somebody reads of this task."""
        mark = Mark(self._task.task, event, value)
        return [((self.edge, partition), mark) for partition in self._reached]

    def ends(self) -> list[tuple[Port, Item]]:
        """END with totals for every partition."""
        return [
            ((self.edge, partition), Mark(self._task.task, Event.END, total_rows=total))
            for partition, total in enumerate(self._sent.tolist())
        ]


class Outputs:
    """All output edges of one task attempt: `write` batches, then `finish` or `abort`.

    `waited_ns` is how long it waited for room in pipelined edges, each of which may hold
    `ring_bytes` (0: any number), and each of their partitions what `waiting` says.
    """

    def __init__(
        self,
        edges: Sequence[pb.OutputEdge],
        task: TaskId,
        store: Store,
        pipes: Pipes,
        *,
        ring_bytes: int = 0,
        waiting: Backlog = OF_JOBS,
    ) -> None:
        self._task, self._store, self._pipes = task, store, pipes
        self._edges = [EdgeOutput(edge, task) for edge in edges]
        self.rows = self.waited_ns = 0
        for out in self._edges:
            if out.pipelined:
                share = ring_bytes // out.n_partitions
                of_each = min(waiting.ring_bytes, share) if ring_bytes else waiting.ring_bytes
                pipes.declare(
                    out.edge, out.n_partitions, out.buffer_batches, of_each, waiting.wait_ns
                )
            else:
                store.begin(
                    task.job, out.edge, out.schema, out.n_partitions, task.task, task.attempt,
                    compression=out.compression,
                )  # fmt: skip

    @property
    def wanted(self) -> bool:
        """False when every edge is pipelined and all its consumers have had enough."""
        if not self._edges or not all(out.pipelined for out in self._edges):
            return True
        return any(self._pipes.wanted(out.edge) for out in self._edges)

    @property
    def waiting(self) -> bool:
        """Whether rows of this job lie in pipelined edges here, which nobody has taken yet."""
        return self._pipes.waiting_bytes() > 0

    def write(self, batch: pa.RecordBatch, *, lent: bool = False, side: str = "") -> None:
        """Give the rows to every edge of that `side`; waits while a pipelined one is full.

        Of a `lent` batch nothing is kept: its memory is warm, and what would take its place is not.
        Fresh pages of shared memory cost five times what copying out of used ones does.
        """
        self.rows += batch.num_rows
        if batch.num_rows == 0:
            return
        task = self._task
        parts: list[tuple[int, pa.RecordBatch, Offsets | None]] = []
        for out in self._edges:
            if out.side != side:
                continue
            rows, offsets = out.route(batch)
            if out.pipelined:
                parts.append((out.edge, rows, offsets))
            else:
                if lent and _shares(rows, batch):
                    rows = rows.copy_to(pa.default_cpu_memory_manager())
                self._store.append(*out.key, rows, offsets)
        if parts:
            self.waited_ns += self._pipes.put_parts(task.task, parts)

    def mark(self, event: Event, value: int, branch: str = "") -> None:
        """Send a watermark or barrier behind all rows written so far, over every pipelined edge.

        With `branch` only over those of this one, see `fabric.plan.stream.Branches`.
        """
        edges = [out for out in self._edges if out.pipelined and out.is_of(branch)]
        sends = [send for out in edges for send in out.marks(event, value)]
        if sends:
            self.waited_ns += self._pipes.put(sends)

    def finish(self) -> list[pb.EdgeTotals]:
        """Seal and end every edge; returns what each carried."""
        ends = [send for out in self._edges if out.pipelined for send in out.ends()]
        if ends:
            self.waited_ns += self._pipes.put(ends)
        for out in self._edges:
            if not out.pipelined:
                self._store.seal(*out.key)
        return [out.totals() for out in self._edges]

    def abort(self) -> None:
        """Drop what was written; consumers of pipelined edges hear of it by the cancel."""
        for out in self._edges:
            if not out.pipelined:
                self._store.discard(*out.key)


def _shares(rows: pa.RecordBatch, batch: pa.RecordBatch) -> bool:
    """Whether `rows`, which were made of `batch`, lie in its memory."""
    return not _addresses(rows).isdisjoint(_addresses(batch))


def _addresses(batch: pa.RecordBatch) -> set[int]:
    buffers = (buffer for column in batch.columns for buffer in column.buffers())
    return {buffer.address for buffer in buffers if buffer is not None and buffer.size}
