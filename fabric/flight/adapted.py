"""The verbs of a Flight server over Python: rows of a `Backend` that is not native.

One job: what `fabric/_cython/shuffle/flight/adapters.pyx` calls. An agent asks for what lies here
and gets every message with its header and END events; a foreign client gets rows, which the native
server cuts to size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from fabric._cython.shuffle.checksum import batch_crc32c
from fabric._cython.shuffle.flight.adapters import PutReader
from fabric.errors import PeerLostError
from fabric.flight.backend import Backend
from fabric.flight.batches import empty_batch
from fabric.flight.descriptor import DatasetPath, PutPath
from fabric.flight.directory import Directory
from fabric.flight.header import EdgeHeader, Event, encode_header
from fabric.flight.puts import Puts
from fabric.flight.ticket import AnyRequest, DatasetRequest, PartitionRequest
from fabric.security.tokens import Claims, Scope

Items = Iterator[tuple[bytes | None, pa.RecordBatch]]


class Stream(NamedTuple):
    """What DoGet answers; without a schema it is that of the location."""

    schema: pa.Schema | None
    items: Items


class Adapted:
    """Streams and puts of one backend."""

    def __init__(self, backend: Backend, puts: Puts) -> None:
        self._backend, self._puts = backend, puts
        self._directory = Directory(backend)

    def get(self, request: AnyRequest, agent: bool) -> Stream:
        """Rows that lie here."""
        if isinstance(request, PartitionRequest):
            return self._partition(request, agent)
        datasets = self._backend.datasets
        schema = datasets.schema(request)
        if not agent:
            return Stream(schema, ((None, batch) for batch in datasets.read(request)))
        if schema is None:
            location = self._directory.dataset(request.name)
            schema = pa.ipc.read_schema(pa.py_buffer(location.schema))
        return Stream(schema, _with_headers(request, schema, datasets.read(request)))

    def has(self, request: DatasetRequest) -> bool:
        """Whether a partition of a dataset lies here."""
        return self._backend.datasets.has(request)

    def fetch(self, address: str, request: AnyRequest) -> Stream:
        """Rows that lie with another agent."""
        transport = self._backend.transport
        if isinstance(request, DatasetRequest):
            rows = transport.read_dataset(address, request)
            return Stream(None, ((None, batch) for batch in rows))
        messages = transport.fetch(address, request)
        return Stream(None, ((None, batch) for _, batch in messages if batch is not None))

    def put(self, path: PutPath, agent: bool, reader: PutReader) -> bytes:
        """Take a whole put; the acknowledgement. Without a transaction it is a plain one."""
        scope: Scope = "agent" if agent else "write"
        claims = Claims(scope=scope, subject="", expires_s=0.0, token_id="")
        to = path if path.transaction else DatasetPath(path.name)
        return self._puts.take(claims, to, _Chunks(reader), reader)

    def _partition(self, request: PartitionRequest, agent: bool) -> Stream:
        source = self._backend.source
        schema = source.edge_schema(request.job, request.edge) if agent else None
        messages = source.read(
            request.job, request.edge, request.partition, request.producers, checksums=agent
        )
        return Stream(schema, iter(messages))


class _Chunk(NamedTuple):
    data: pa.RecordBatch | None
    app_metadata: pa.Buffer | None


class _Chunks:
    """A put's stream as `Puts` reads it."""

    def __init__(self, reader: PutReader) -> None:
        self._reader = reader

    @property
    def schema(self) -> pa.Schema:
        """Of the stream."""
        return self._reader.schema

    def read_chunk(self) -> _Chunk:
        """The next message; `StopIteration` at the end."""
        item = self._reader.read()
        if item is None:
            raise StopIteration
        if self._reader.is_cancelled():
            raise PeerLostError("this agent is shutting down; ask another one")
        batch, metadata = item
        return _Chunk(batch, None if metadata is None else pa.py_buffer(metadata))


def _with_headers(
    request: DatasetRequest, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Items:
    """A dataset's partition as messages of an edge, so that an agent can check them."""
    sequence = rows = 0
    for batch in batches:
        header = EdgeHeader(
            job=request.name,
            edge=0,
            producer=0,
            sequence=sequence,
            partitions=((request.partition, batch.num_rows),),
            crc32c=batch_crc32c(batch),
        )
        yield encode_header(header), batch
        sequence += 1
        rows += batch.num_rows
    end = EdgeHeader(
        job=request.name, edge=0, producer=0, sequence=sequence, event=Event.END, total_rows=rows
    )
    yield encode_header(end), empty_batch(schema)
