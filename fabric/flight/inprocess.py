"""The transport without sockets: agents of one process read each other's partitions directly.

One job: `Transport` over a registry of peers by address. No bytes are copied or checksummed; order
and totals are still checked, because they are the producer's promises.

`read_result` reads the rows of a job that has ended, by any transport, from whoever holds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from fabric._cython.shuffle.exchange.exchanges import InProcessExchange, JobPipes
from fabric._cython.shuffle.ring.ring import Pipes
from fabric._cython.shuffle.wire.headers import WireCheck
from fabric.control import control_pb2 as pb
from fabric.errors import CancelledError, InternalError, PartitionLostError, PeerLostError
from fabric.flight.descriptor import PutPath
from fabric.flight.header import EdgeHeader, Event, decode_header
from fabric.flight.ticket import DatasetRequest, PartitionRequest
from fabric.flight.transport import (
    DatasetStore,
    ExchangeRequest,
    OpenExchange,
    PartitionSource,
    PutWriter,
    RowStream,
    Transport,
)


@dataclass(frozen=True, slots=True)
class Peer:
    """What one agent of this process offers."""

    source: PartitionSource
    datasets: DatasetStore
    exchanges: JobPipes


class InProcessTransport:
    """Reaches the peers registered under their addresses (``local:<agent id>``, or a real one)."""

    def __init__(self) -> None:
        self._peers: dict[str, Peer] = {}

    def register(
        self,
        address: str,
        source: PartitionSource,
        datasets: DatasetStore,
        exchanges: JobPipes | None = None,
    ) -> None:
        """Make an agent of this process reachable."""
        self._peers[address] = Peer(source, datasets, exchanges or JobPipes())

    def unregister(self, address: str) -> None:
        """Take an agent away; unknown is fine."""
        self._peers.pop(address, None)

    def has(self, address: str) -> bool:
        """Whether `address` is in this process."""
        return address in self._peers

    def fetch(
        self, address: str, request: PartitionRequest
    ) -> Iterator[tuple[EdgeHeader, pa.RecordBatch | None]]:
        """See `Transport.fetch`."""
        check = WireCheck(
            job=request.job,
            edge=request.edge,
            producers=request.producers,
            partition=request.partition,
            node=request.node_path,
            agent=address,
            checksums=False,
        )
        source = self._peer(address).source
        messages = source.open(
            request.job, request.edge, request.partition, request.producers, False
        )
        for data, batch in chain.from_iterable(iter(messages.take, [])):
            if check.accept(data, batch):
                header = decode_header(data)
                yield header, batch if header.event is Event.ROWS else None
        check.finish()

    def open_rows(
        self, address: str, request: PartitionRequest, *, gathers: bool = False
    ) -> RowStream:
        """See `Transport.open_rows`."""
        return _Rows(self.fetch(address, request))

    def read_dataset(self, address: str, request: DatasetRequest) -> Iterator[pa.RecordBatch]:
        """See `Transport.read_dataset`."""
        return self._peer(address).datasets.read(request)

    def open_put(self, address: str, put: PutPath, schema: pa.Schema) -> PutWriter:
        """See `Transport.open_put`."""
        return self._peer(address).datasets.open_write(put, schema)

    def open_exchange(self, address: str, request: ExchangeRequest, pipes: Pipes) -> OpenExchange:
        """See `Transport.open_exchange`."""
        return InProcessExchange(
            self._peer(address).exchanges,
            pipes,
            job=request.job,
            node=request.node_path,
            edge=request.edge,
            n_partitions=request.n_partitions,
            producers=request.producers,
        )

    def discard(self, address: str, name: str, transaction: str) -> None:
        """See `Transport.discard`."""
        self._peer(address).datasets.discard(name, transaction)

    def close(self) -> None:
        """Forget all peers."""
        self._peers.clear()

    def _peer(self, address: str) -> Peer:
        peer = self._peers.get(address)
        if peer is None:
            raise PeerLostError(f"no agent answers at {address!r} any more; was it stopped?")
        return peer


class _Rows:
    """Rows that are here already, a message at a time."""

    def __init__(self, messages: Iterator[tuple[EdgeHeader, pa.RecordBatch | None]]) -> None:
        self._messages, self._closed = messages, False

    def take(self) -> list[pa.RecordBatch]:
        """See `RowStream.take`."""
        for _, batch in self._messages:
            if self._closed:
                raise CancelledError("the stream was closed")
            if batch is not None:
                return [batch]
        return []

    def close(self) -> None:
        """See `RowStream.close`."""
        self._closed = True


def result_edge(located: pb.Locations, job: str) -> pb.EdgeLocation:
    """The edge of a job's result.

    Raises
    ------
    PartitionLostError
        An agent that held a part of it is gone.
    """
    edge = next((edge for edge in located.edges if edge.is_result), None)
    if edge is None:
        raise InternalError("the job has ended and its result is nowhere", job=job)
    if not edge.complete or len(edge.producers) < edge.n_producers:
        raise PartitionLostError(
            f"{edge.n_producers - len(edge.producers)} of {edge.n_producers} parts of the result "
            "are gone with the agents that held them; job.restart() makes them again",
            job=job,
        )
    return edge


def read_result(located: pb.Locations, job: str, transport: Transport) -> Iterator[pa.RecordBatch]:
    """All rows, in the order of the partitions; `located` is what the coordinator says of a job."""
    edge = result_edge(located, job)
    for partition in range(1 if edge.kind == pb.EDGE_BROADCAST else edge.n_partitions):
        for producer in edge.producers:
            request = PartitionRequest(
                job=job,
                edge=edge.edge,
                node_path=edge.node_path,
                partition=partition,
                producers=((producer.task, producer.attempt),),
            )
            for _, batch in transport.fetch(located.addresses[producer.agent_id], request):
                if batch is not None:
                    yield batch
