"""The materialised partitions of this agent: written once, sealed, read until the job is released.

One job: keep what tasks wrote, in memory, and give it out as messages with headers. A producer task
appends one reordered batch with its partition offsets at a time; slicing and coalescing wait until
somebody reads. Any thread may call anything; one output is written by its task's thread only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.agent.messages import LOCAL_BYTES, coalesce, empty_batch
from fabric.errors import InternalError, NotFoundError, PartitionLostError
from fabric.flight.compact import compact
from fabric.flight.header import end_header, rows_header
from fabric.ids import EdgeId, PartitionId

Offsets = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Totals:
    """What one producer task wrote on one edge; a broadcast row counts once."""

    rows: int
    n_bytes: int


@dataclass(slots=True)
class _Output:
    """What one task attempt wrote: batches with offsets (None: every partition gets all)."""

    n_partitions: int
    chunks: list[tuple[pa.RecordBatch, Offsets | None]] = field(default_factory=list)
    rows: int = 0
    n_bytes: int = 0
    sealed: bool = False

    def slices(self, partition: int) -> Iterator[pa.RecordBatch]:
        for batch, offsets in self.chunks:
            if offsets is None:
                yield batch
            elif (n_rows := int(offsets[partition + 1] - offsets[partition])) > 0:
                yield batch.slice(int(offsets[partition]), n_rows)


@dataclass(slots=True)
class _Edge:
    schema: pa.Schema
    n_partitions: int
    outputs: dict[tuple[int, int], _Output] = field(default_factory=dict)


class PartitionStore:
    """Partitions by (job, edge, producer task, attempt); implements `PartitionSource`."""

    def __init__(self, agent_id: str = "") -> None:
        self._agent_id = agent_id
        self._lock = Lock()
        self._edges: dict[EdgeId, _Edge] = {}
        self._bytes = 0

    @property
    def stored_bytes(self) -> int:
        """Bytes of all rows held now, sealed or not."""
        with self._lock:
            return self._bytes

    def jobs(self) -> set[str]:
        """Jobs that hold anything here."""
        with self._lock:
            return {edge.job for edge in self._edges}

    def begin(
        self, edge: EdgeId, schema: pa.Schema, n_partitions: int, producer: int, attempt: int
    ) -> None:
        """Open the output of one task attempt; what the same attempt wrote before is dropped."""
        with self._lock:
            known = self._edges.setdefault(edge, _Edge(schema, n_partitions))
            if known.n_partitions != n_partitions or not known.schema.equals(schema):
                raise InternalError(f"edge {edge} was opened twice with different shapes")
            self._forget(known, (producer, attempt))
            known.outputs[producer, attempt] = _Output(n_partitions)

    def append(
        self,
        edge: EdgeId,
        producer: int,
        attempt: int,
        batch: pa.RecordBatch,
        offsets: Offsets | None,
    ) -> None:
        """Add rows: partition p owns ``batch[offsets[p]:offsets[p + 1]]``; None: all own all."""
        output = self._open_output(edge, producer, attempt)
        if batch.num_rows == 0:
            return
        size = batch.nbytes
        with self._lock:
            output.chunks.append((batch, offsets))
            output.rows += batch.num_rows
            output.n_bytes += size
            self._bytes += size

    def seal(self, edge: EdgeId, producer: int, attempt: int) -> Totals:
        """End the output: from now on it can be read, and never changes."""
        output = self._open_output(edge, producer, attempt)
        with self._lock:
            output.sealed = True
        return Totals(output.rows, output.n_bytes)

    def discard(self, edge: EdgeId, producer: int, attempt: int) -> None:
        """Drop the output of a task attempt that did not succeed; unknown is fine."""
        with self._lock:
            if known := self._edges.get(edge):
                self._forget(known, (producer, attempt))
                if not known.outputs:
                    del self._edges[edge]

    def release(self, job: str) -> int:
        """Drop all partitions of `job`; returns the bytes given back. Streams being read go on."""
        with self._lock:
            before = self._bytes
            for edge in [edge for edge in self._edges if edge.job == job]:
                known = self._edges.pop(edge)
                for key in list(known.outputs):
                    self._forget(known, key)
            return before - self._bytes

    def edge_schema(self, job: str, edge: int) -> pa.Schema:
        """The schema of rows on an edge; `NotFoundError` when nothing of it is here."""
        with self._lock:
            if known := self._edges.get(EdgeId(job, edge)):
                return known.schema
        raise NotFoundError(
            f"edge {edge} has no partitions on this agent; was the job released?",
            job=job,
            agent=self._agent_id,
        )

    def batches(
        self, job: str, edge: int, partition: int, producers: Sequence[tuple[int, int]]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of sealed outputs as messages without headers: the way inside one process."""
        for _, output in self._sealed(EdgeId(job, edge), partition, producers):
            yield from coalesce(output.slices(partition), LOCAL_BYTES)

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
        schema = self.edge_schema(job, edge)
        found = self._sealed(EdgeId(job, edge), partition, producers)
        of = PartitionId(EdgeId(job, edge), 0, 0, partition)
        return self._messages(of, schema, found, checksums=checksums)

    def _messages(
        self,
        of: PartitionId,
        schema: pa.Schema,
        found: list[tuple[tuple[int, int], _Output]],
        *,
        checksums: bool,
    ) -> Iterator[tuple[bytes, pa.RecordBatch]]:
        for (producer, attempt), output in found:
            source = PartitionId(of.edge, producer, attempt, of.partition)
            rows = n_bytes = sequence = 0
            for batch in map(compact, coalesce(output.slices(of.partition))):
                yield rows_header(source, sequence, batch, checksum=checksums), batch
                sequence += 1
                rows += batch.num_rows
                n_bytes += batch.nbytes
            yield end_header(source, sequence, rows, n_bytes), empty_batch(schema)

    def _sealed(
        self, edge: EdgeId, partition: int, producers: Sequence[tuple[int, int]]
    ) -> list[tuple[tuple[int, int], _Output]]:
        with self._lock:
            known = self._edges.get(edge)
            if known is not None and not 0 <= partition < known.n_partitions:
                raise NotFoundError(
                    f"edge {edge.edge} has partitions 0 to {known.n_partitions - 1}, "
                    f"not {partition}",
                    job=edge.job,
                    agent=self._agent_id,
                )
            outputs = known.outputs if known else {}
            for task, attempt in producers:
                output = outputs.get((task, attempt))
                if output is None or not output.sealed:
                    raise self._lost(PartitionId(edge, task, attempt, partition))
            return [(key, outputs[key]) for key in producers]

    def _lost(self, partition: PartitionId) -> PartitionLostError:
        return PartitionLostError(
            f"partition {partition.partition} of edge {partition.edge.edge}, written by task "
            f"{partition.producer} attempt {partition.attempt}, is not on this agent; "
            "the job was released or the agent restarted, so run it again",
            job=partition.edge.job,
            agent=self._agent_id,
        )

    def _open_output(self, edge: EdgeId, producer: int, attempt: int) -> _Output:
        with self._lock:
            known = self._edges.get(edge)
            output = known.outputs.get((producer, attempt)) if known else None
        if output is None:  # dropped under a running task: its job was released
            raise self._lost(PartitionId(edge, producer, attempt, 0))
        if output.sealed:
            raise InternalError(f"edge {edge} from task {producer}#{attempt} is sealed already")
        return output

    def _forget(self, known: _Edge, key: tuple[int, int]) -> None:
        if output := known.outputs.pop(key, None):
            self._bytes -= output.n_bytes
