"""The materialised partitions of this agent: written once, sealed, read until the job is released.

One job: the native store (`fabric/_cython/shuffle/store`) in the words of agents. A producer task
appends one reordered batch with its partition offsets at a time; slicing and coalescing wait until
somebody reads. Any thread may call anything; one output is written by its task's thread only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.shuffle.store.budget import Budget
from fabric._cython.shuffle.store.store import LocalRows, Store, Stream
from fabric.ids import EdgeId

Offsets = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Totals:
    """What one producer task wrote on one edge; a broadcast row counts once."""

    rows: int
    n_bytes: int


class PartitionStore:
    """Partitions by (job, edge, producer task, attempt); implements `PartitionSource`.

    What `budget` has no room for goes to files in `folders`, in turn; without any it stays.
    """

    def __init__(
        self, agent_id: str = "", budget: Budget | None = None, folders: Sequence[Path] = ()
    ) -> None:
        self.native = Store(agent_id, budget, folders)
        """For native code: it shares the same partitions."""

    @property
    def stored_bytes(self) -> int:
        """Bytes of all rows in memory, sealed or not, and of IPC bytes kept beside them."""
        return self.native.stored_bytes

    @property
    def spilled_bytes(self) -> int:
        """Decoded bytes of all rows that lie on the disk."""
        return self.native.spilled_bytes

    def jobs(self) -> set[str]:
        """Jobs that hold anything here."""
        return self.native.jobs()

    def begin(
        self,
        edge: EdgeId,
        schema: pa.Schema,
        n_partitions: int,
        producer: int,
        attempt: int,
        *,
        compression: str = "",
    ) -> None:
        """Open the output of one task attempt; what the same attempt wrote before is dropped.

        With a `compression` ("lz4" or "zstd") rows are compressed once, when another agent first
        reads them.
        """
        self.native.begin(edge.job, edge.edge, schema, n_partitions, producer, attempt, compression)

    def append(
        self,
        edge: EdgeId,
        producer: int,
        attempt: int,
        batch: pa.RecordBatch,
        offsets: Offsets | None,
    ) -> None:
        """Add rows: partition p owns ``batch[offsets[p]:offsets[p + 1]]``; None: all own all."""
        self.native.append(edge.job, edge.edge, producer, attempt, batch, offsets)

    def seal(self, edge: EdgeId, producer: int, attempt: int) -> Totals:
        """End the output: from now on it can be read, and never changes."""
        return Totals(*self.native.seal(edge.job, edge.edge, producer, attempt))

    def discard(self, edge: EdgeId, producer: int, attempt: int) -> None:
        """Drop the output of a task attempt that did not succeed; unknown is fine."""
        self.native.discard(edge.job, edge.edge, producer, attempt)

    def release(self, job: str) -> int:
        """Drop all partitions of `job`; returns the bytes given back. Streams being read go on."""
        return self.native.release(job)

    def edge_schema(self, job: str, edge: int) -> pa.Schema:
        """The schema of rows on an edge; `NotFoundError` when nothing of it is here."""
        return self.native.edge_schema(job, edge)

    def batches(
        self, job: str, edge: int, partition: int, producers: Sequence[tuple[int, int]]
    ) -> Iterator[list[pa.RecordBatch]]:
        """The rows of sealed outputs, a few messages at a time: the way inside one process.

        Raises before the first message, as `read` does.
        """
        return iter(self.native.batches(job, edge, partition, producers).take_batches, [])

    def local(
        self, job: str, edge: int, partition: int, producers: Sequence[tuple[int, int]]
    ) -> list[LocalRows]:
        """The same rows, a `LocalRows` for each producer."""
        return self.native.local(job, edge, partition, producers)

    def put_here(self, edge: EdgeId, task: int, attempt: int, schema: pa.Schema) -> LocalRows:
        """A place, under the same budget, for rows that a task fetches from another agent."""
        return self.native.put_here(edge.job, edge.edge, task, attempt, schema)

    def read(
        self,
        job: str,
        edge: int,
        partition: int,
        producers: Sequence[tuple[int, int]],
        *,
        checksums: bool = True,
    ) -> Iterator[tuple[bytes, pa.RecordBatch]]:
        """Messages with headers, producer by producer, each closed by an END event with totals.

        `producers` are (task, attempt). Raises before the first message: `PartitionLostError` when
        one of them is not sealed here, `NotFoundError` for a partition that can't be.
        """
        return _messages(self.native.open(job, edge, partition, producers, checksums))


def _messages(stream: Stream) -> Iterator[tuple[bytes, pa.RecordBatch]]:
    for found in iter(stream.take, []):
        yield from found
