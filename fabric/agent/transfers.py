"""What another agent holds, fetched to be held here.

`fetch_output` gets every partition of what one task attempt wrote (`Adopt`) into this agent's
store, under the same names; nothing is left of it when that fails.

`DatasetReplication` carries out `Replicate` and `KeepPartitions`: each part of a dataset's
partition is read from the first source that has all of it, checked as any rows of a peer are, and
sealed durably before the next; what is here already is not copied again, so that an order may be
repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fabric._cython.shuffle.store.store import Store
from fabric.agent.router import read_schema
from fabric.control import control_pb2 as pb
from fabric.errors import DataError, FabricError, PartitionLostError, PeerLostError, StorageError
from fabric.flight.ticket import DatasetRequest, Part, PartitionRequest
from fabric.flight.transport import DatasetStore, PutWriter, Transport
from fabric.telemetry.logs import logger

_log = logger("fabric.agent")


def fetch_output(adopt: pb.Adopt, store: Store, transport: Transport) -> tuple[pb.EdgeTotals, ...]:
    """Get it all; returns what each edge holds. Raises what the transport raises."""
    begun: list[int] = []
    try:
        return tuple(_fetch_edge(adopt, edge, store, transport, begun) for edge in adopt.outputs)
    except BaseException:
        for number in begun:
            store.discard(adopt.job_id, number, adopt.task, adopt.attempt)
        raise


def _fetch_edge(
    adopt: pb.Adopt, edge: pb.OutputEdge, store: Store, transport: Transport, begun: list[int]
) -> pb.EdgeTotals:
    key = (adopt.job_id, edge.edge, adopt.task, adopt.attempt)
    store.begin(
        adopt.job_id, edge.edge, read_schema(edge.schema), edge.n_partitions, adopt.task,
        adopt.attempt, compression=edge.compression,
    )  # fmt: skip
    begun.append(edge.edge)
    whole = edge.kind == pb.EDGE_BROADCAST  # every partition is the same rows
    for partition in range(1 if whole else edge.n_partitions):
        ask = PartitionRequest(
            job=adopt.job_id,
            edge=edge.edge,
            node_path=edge.node_path,
            partition=partition,
            producers=((adopt.task, adopt.attempt),),
        )
        after = np.arange(edge.n_partitions + 1) > partition
        with closing(transport.open_rows(adopt.address, ask, gathers=True)) as rows:
            while batches := rows.take():
                for batch in batches:
                    offsets = None if whole else after * np.int64(batch.num_rows)
                    store.append(*key, batch, offsets)
    n_rows, n_bytes = store.seal(*key)
    return pb.EdgeTotals(edge=edge.edge, rows=n_rows, bytes=n_bytes)


@dataclass(frozen=True, slots=True)
class DatasetReplication:
    """How an agent copies; `is_stopping` is asked between batches."""

    files: DatasetStore
    transport: Transport
    is_stopping: Callable[[], bool]

    def replicate(self, order: pb.Replicate) -> None:
        """Have all parts of the partition here; raises why that can't be."""
        schema = pa.ipc.read_schema(pa.py_buffer(order.schema))
        for part in _parts(order.parts):
            request = DatasetRequest(
                name=order.dataset, version=order.version, partition=order.partition, parts=(part,)
            )
            if not self.files.has(request):
                self._copy(request, order.sources, schema)

    def keep(self, order: pb.KeepPartitions) -> None:
        """Remove the other partitions of these parts."""
        parts = _parts(order.parts)
        request = DatasetRequest(name=order.dataset, version=0, partition=0, parts=parts)
        self.files.keep(request, order.partitions)

    def _copy(
        self, request: DatasetRequest, sources: Iterable[pb.ReplicaSource], schema: pa.Schema
    ) -> None:
        failed: FabricError | None = None
        for source in sources:
            writer = self.files.open_copy(request, schema)
            try:
                self._write(writer, request, source.address, schema)
                writer.seal()
                return
            except (PeerLostError, PartitionLostError, DataError) as error:
                failed = error.at(agent=source.agent_id)
                _log.warning(
                    "replica not copied", dataset=request.name, partition=request.partition,
                    source=source.agent_id, reason=error.message,
                )  # fmt: skip
            finally:
                writer.abandon()
        raise failed or PartitionLostError(
            f"partition {request.partition} of dataset {request.name!r} has no source to copy from"
        )

    def _write(
        self, writer: PutWriter, request: DatasetRequest, address: str, schema: pa.Schema
    ) -> None:
        nothing = pa.RecordBatch.from_pylist([], schema)
        writer.write(request.partition, nothing)  # it may have no rows
        for batch in self.transport.read_dataset(address, request):
            if self.is_stopping():
                raise StorageError("the agent is shutting down")
            writer.write(request.partition, batch)


def _parts(parts: Iterable[pb.CommittedPart]) -> tuple[Part, ...]:
    return tuple(Part(part.transaction, part.writer, part.attempt) for part in parts)
