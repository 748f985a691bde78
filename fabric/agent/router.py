"""Which partition a row goes to: one router per kind of edge, and who reads and writes which.

One job: turn a batch into one reordered batch with partition offsets beside it (None: every
partition gets every row). Rows of one producer keep their order inside a partition. A router
belongs to one task's thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.kernels.take import take
from fabric._cython.shuffle.partitioner import Partitioner
from fabric.control import control_pb2 as pb
from fabric.errors import InternalError

Offsets = NDArray[np.int64]
Routed = tuple[pa.RecordBatch, Offsets | None]


class Router(Protocol):
    """Reorders a batch by partition."""

    def route(self, batch: pa.RecordBatch) -> Routed:
        """The rows by partition; partition p owns ``rows[offsets[p]:offsets[p + 1]]``."""


class KeyRouter:
    """By hash of the key columns, or by the number of the partition in one."""

    def __init__(
        self, schema: pa.Schema, keys: Sequence[str], n_partitions: int, *, numbered: bool = False
    ) -> None:
        self._partitioner = Partitioner(schema, list(keys), n_partitions, numbered=numbered)

    def route(self, batch: pa.RecordBatch) -> Routed:
        """See `Router`."""
        rows, offsets = self._partitioner.partition(batch)
        return rows, np.asarray(offsets, dtype=np.int64)


class BroadcastRouter:
    """Every row to every partition."""

    def route(self, batch: pa.RecordBatch) -> Routed:
        """See `Router`."""
        return batch, None


class OneRouter:
    """All rows to one partition: gather (partition 0) and forward (the producer's own number)."""

    def __init__(self, partition: int, n_partitions: int) -> None:
        self._after = np.arange(n_partitions + 1) > partition

    def route(self, batch: pa.RecordBatch) -> Routed:
        """See `Router`."""
        return batch, self._after * np.int64(batch.num_rows)


class RoundRobinRouter:
    """Row r of task t goes to partition ``(t + r) % n``, whatever the batches."""

    def __init__(self, task: int, n_partitions: int) -> None:
        self._next = task % n_partitions
        self._n_partitions = n_partitions

    def route(self, batch: pa.RecordBatch) -> Routed:
        """See `Router`."""
        n_rows, n = batch.num_rows, self._n_partitions
        first = (np.arange(n) - self._next) % n  # the first row of each partition
        order = np.concatenate([np.arange(start, n_rows, n, dtype=np.uint32) for start in first])
        counts = np.maximum(0, -((first - n_rows) // n))
        self._next = (self._next + n_rows) % n
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        columns = [take(column, order) for column in batch.columns]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema), offsets


def make_router(edge: pb.OutputEdge, schema: pa.Schema, task: int) -> Router:
    """The router of an output edge for one producer task."""
    n = edge.n_partitions
    match edge.kind:
        case pb.EDGE_BROADCAST:
            return BroadcastRouter()
        case (
            pb.EDGE_GATHER | pb.EDGE_FORWARD | pb.EDGE_HASH | pb.EDGE_ROUND_ROBIN | pb.EDGE_RANGE
        ) if n == 1:
            return OneRouter(0, 1)
        case pb.EDGE_GATHER:
            return OneRouter(0, n)
        case pb.EDGE_FORWARD:
            return OneRouter(task % n, n)
        case pb.EDGE_HASH:
            return KeyRouter(schema, edge.keys, n)
        case pb.EDGE_RANGE:
            return KeyRouter(schema, edge.keys, n, numbered=True)
        case pb.EDGE_ROUND_ROBIN:
            return RoundRobinRouter(task, n)
        case _:
            raise InternalError(f"edge {edge.edge} has the unknown kind {edge.kind}")


def reached(edge: pb.OutputEdge, task: int) -> list[int]:
    """The partitions that producer task `task` may have rows for: nobody reads it in the others.

    >>> reached(pb.OutputEdge(kind=pb.EDGE_FORWARD, n_partitions=3), 1)
    [1]
    >>> reached(pb.OutputEdge(kind=pb.EDGE_HASH, n_partitions=3), 1)
    [0, 1, 2]
    """
    if edge.kind == pb.EDGE_FORWARD:
        return [task % edge.n_partitions]
    return list(range(edge.n_partitions))


def partitions_of(kind: pb.EdgeKind, n_partitions: int, task: int, n_tasks: int) -> list[int]:
    """The partitions that consumer task `task` of `n_tasks` reads.

    >>> partitions_of(pb.EDGE_HASH, 4, 1, 4), partitions_of(pb.EDGE_HASH, 4, 1, 2)
    ([1], [1, 3])
    """
    if kind == pb.EDGE_BROADCAST:
        return [task % n_partitions]
    return list(range(task, n_partitions, n_tasks))


def producers_of(edge: pb.InputEdge, partition: int) -> list[pb.Producer]:
    """The producers that may have rows for `partition`: on a forward edge, its own one."""
    if edge.kind != pb.EDGE_FORWARD:
        return list(edge.producers)
    return [p for p in edge.producers if p.task % edge.n_partitions == partition]


def read_schema(data: bytes) -> pa.Schema:
    """The schema an edge message carries."""
    return pa.ipc.read_schema(pa.py_buffer(data))
