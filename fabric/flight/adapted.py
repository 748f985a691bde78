"""Edges of a Flight server over Python: rows of a `Backend` whose store or transport is not native.

One job: what `fabric/_cython/shuffle/flight/adapters.pyx` calls. An agent asks for what lies here
and gets every message with its header and END events; a foreign client gets rows, which the native
server cuts to size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import pyarrow as pa

from fabric._cython.shuffle.flight import adapters
from fabric._cython.shuffle.flight.handlers import HandlerSet
from fabric.flight.backend import Backend
from fabric.flight.ticket import AnyRequest, DatasetRequest, Part, PartitionRequest

Items = Iterator[tuple[bytes | None, pa.RecordBatch]]


class Stream(NamedTuple):
    """What DoGet answers; without a schema it is that of the location."""

    schema: pa.Schema | None
    items: Items


class Streams(Protocol):
    """Rows that Python brings."""

    def get(self, request: PartitionRequest, agent: bool) -> Stream:
        """Rows of an edge that lie here."""

    def fetch(self, address: str, request: AnyRequest) -> Stream:
        """Rows that lie with another agent."""


def adapt(handlers: HandlerSet, streams: Streams, *, get: bool = True, fetch: bool = True) -> None:
    """Set the handlers that are named to ask `streams`."""
    adapters.adapt(
        handlers,
        streams,
        partition_request=PartitionRequest,
        dataset_request=DatasetRequest,
        part=Part,
        get=get,
        fetch=fetch,
    )


class Adapted:
    """Streams of one backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def get(self, request: PartitionRequest, agent: bool) -> Stream:
        """Rows of an edge that lie here."""
        source = self._backend.source
        schema = source.edge_schema(request.job, request.edge) if agent else None
        messages = source.read(
            request.job, request.edge, request.partition, request.producers, checksums=agent
        )
        return Stream(schema, iter(messages))

    def fetch(self, address: str, request: AnyRequest) -> Stream:
        """Rows that lie with another agent."""
        transport = self._backend.transport
        if isinstance(request, DatasetRequest):
            rows = transport.read_dataset(address, request)
            return Stream(None, ((None, batch) for batch in rows))
        messages = transport.fetch(address, request)
        return Stream(None, ((None, batch) for _, batch in messages if batch is not None))
