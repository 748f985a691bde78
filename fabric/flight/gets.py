"""DoGet: the rows a ticket names, for agents with headers, for anybody else as plain batches.

One job: streams. An agent asks for what lies here and gets every message with its header and END
events; a foreign client gets rows only, in messages of at most 4 MiB, also of partitions that lie
with other agents, which are passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from fabric._cython.shuffle.checksum import batch_crc32c
from fabric.errors import PartitionLostError, PeerLostError
from fabric.flight.backend import Backend
from fabric.flight.batches import empty_batch, small_messages
from fabric.flight.boxes import BOX_SCHEMA, box, holds_dictionaries
from fabric.flight.directory import Directory
from fabric.flight.errors import to_flight
from fabric.flight.header import EdgeHeader, Event, encode_header
from fabric.flight.ticket import AnyRequest, DatasetRequest, PartitionRequest
from fabric.security.tokens import Claims

Item = Any  # a RecordBatch, or (RecordBatch, header): what pyarrow's GeneratorStream takes


class Stream(NamedTuple):
    """What DoGet answers."""

    schema: pa.Schema
    items: Iterator[Item]


class Gets:
    """Opens streams for one server."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._directory = Directory(backend)

    def open(self, claims: Claims, request: AnyRequest) -> Stream:
        """The stream of a checked ticket."""
        agent = claims.is_agent
        if isinstance(request, PartitionRequest):
            stream = self._own_edge(request) if agent else self._foreign_edge(request)
        else:
            stream = self._own_part(request) if agent else self._foreign_part(request)
        return _boxed(stream) if agent else _tables(stream)

    def _own_edge(self, request: PartitionRequest) -> Stream:
        source = self._backend.source
        schema = source.edge_schema(request.job, request.edge)
        messages = source.read(request.job, request.edge, request.partition, request.producers)
        return Stream(schema, ((batch, header) for header, batch in messages))

    def _foreign_edge(self, request: PartitionRequest) -> Stream:
        location = self._directory.edge_numbered(request.job, request.edge, request.producers)
        agent_of = {(p.task, p.attempt): p.agent_id for p in location.producers}
        by_agent: dict[str, list[tuple[int, int]]] = {}
        for task, attempt in request.producers:
            if (task, attempt) not in agent_of:
                raise PartitionLostError(
                    f"what task {task} attempt {attempt} wrote is gone; ask get_flight_info again",
                    job=request.job,
                    node=request.node_path,
                )
            by_agent.setdefault(agent_of[task, attempt], []).append((task, attempt))
        batches = (
            batch
            for agent_id, producers in by_agent.items()
            for batch in self._edge_rows(agent_id, _narrow(request, producers))
        )
        schema = pa.ipc.read_schema(pa.py_buffer(location.schema))
        return Stream(schema, _plain(schema, batches))

    def _edge_rows(self, agent_id: str, request: PartitionRequest) -> Iterator[pa.RecordBatch]:
        if agent_id == self._backend.agent_id:
            messages = self._backend.source.read(
                request.job, request.edge, request.partition, request.producers
            )
            yield from (batch for _, batch in messages)
            return
        address = self._directory.address(agent_id, f"partition {request.partition}")
        for _, batch in self._backend.transport.fetch(address, request):
            if batch is not None:
                yield batch

    def _own_part(self, request: DatasetRequest) -> Stream:
        schema = self._backend.datasets.schema(request) or self._part_schema(request)
        return Stream(schema, _with_headers(request, schema, self._backend.datasets.read(request)))

    def _foreign_part(self, request: DatasetRequest) -> Stream:
        datasets = self._backend.datasets
        if datasets.has(request):
            schema = datasets.schema(request) or self._part_schema(request)
            return Stream(schema, _plain(schema, datasets.read(request)))
        location = self._directory.dataset(request.name)
        if request.partition >= location.n_partitions:
            raise PartitionLostError(
                f"dataset {request.name!r} was replaced; ask get_flight_info again"
            )
        what = f"partition {request.partition} of dataset {request.name!r}"
        owner = location.owners[request.partition]
        if owner == self._backend.agent_id:  # ours, yet not here: let the store say what is missing
            datasets.read(request)
        address = self._directory.address(owner, what)
        schema = self._part_schema(request)
        rows = self._backend.transport.read_dataset(address, request)
        return Stream(schema, _plain(schema, rows))

    def _part_schema(self, request: DatasetRequest) -> pa.Schema:
        location = self._directory.dataset(request.name)
        return pa.ipc.read_schema(pa.py_buffer(location.schema))


def _boxed(stream: Stream) -> Stream:
    """For agents: messages with dictionaries in boxes."""
    if not holds_dictionaries(stream.schema):
        return stream
    return Stream(BOX_SCHEMA, ((box(batch), header) for batch, header in stream.items))


def _tables(stream: Stream) -> Stream:
    """For anybody else: batches with dictionaries as tables of one batch."""
    if not holds_dictionaries(stream.schema):
        return stream
    return Stream(stream.schema, (pa.Table.from_batches([batch]) for batch in stream.items))


def guarded(items: Iterator[Item], stopping: Callable[[], bool]) -> Iterator[Item]:
    """`items` for pyarrow's GeneratorStream: errors become Flight errors, a stop ends it."""
    try:
        for item in items:
            if stopping():
                raise PeerLostError("this agent is shutting down; ask another one")
            yield item
    except GeneratorExit:
        raise
    except BaseException as error:
        raise to_flight(error) from None


def _narrow(request: PartitionRequest, producers: list[tuple[int, int]]) -> PartitionRequest:
    return PartitionRequest(
        job=request.job,
        edge=request.edge,
        node_path=request.node_path,
        partition=request.partition,
        producers=tuple(producers),
    )


def _plain(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Never quite empty: readers fail on dictionaries that no batch brought."""
    sent = False
    for batch in batches:
        if batch.num_rows:
            yield from small_messages(batch)
            sent = True
    if not sent:
        yield empty_batch(schema)


def _with_headers(
    request: DatasetRequest, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[Item]:
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
        yield batch, encode_header(header)
        sequence += 1
        rows += batch.num_rows
    end = EdgeHeader(
        job=request.name, edge=0, producer=0, sequence=sequence, event=Event.END, total_rows=rows
    )
    yield empty_batch(schema), encode_header(end)
