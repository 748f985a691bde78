"""A partition of a dataset, copied from another owner into this agent's folder.

One job: carry out `Replicate` and `KeepPartitions`. Each part is read from the first source that
has all of it, checked as any rows of a peer are, and sealed durably before the next; what is here
already is not copied again, so that an order may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from fabric.control import control_pb2 as pb
from fabric.errors import DataError, FabricError, PartitionLostError, PeerLostError, StorageError
from fabric.flight.ticket import DatasetRequest, Part
from fabric.flight.transport import DatasetStore, PutWriter, Transport
from fabric.telemetry.logs import logger

_log = logger("fabric.agent")


@dataclass(frozen=True, slots=True)
class Copying:
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
