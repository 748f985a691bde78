"""What the connector says to a fabric: over Flight, as any other client.

One job: streams, endpoints and dataset transactions for reader and writer. A ``fabric://`` URL is
asked once, on the driver, for an agent; workers only ever see Flight addresses.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from fabric.clients.spark.options import SparkOptions
from fabric.errors import NotFoundError
from fabric.flight.client import REUSE, Client


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint of a stream: an opaque ticket and the agents that answer it, best first."""

    locations: tuple[str, ...]
    ticket: bytes


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """What a fabric says of a stream."""

    schema: pa.Schema
    endpoints: tuple[Endpoint, ...]


def at_agent(options: SparkOptions) -> SparkOptions:
    """`options` with a Flight address: a coordinator's URL is replaced by one of its agents."""
    if not options.url.startswith("fabric://"):
        return options
    from fabric.control import control_pb2 as pb
    from fabric.control.client import GrpcControl

    control = GrpcControl(options.url.removeprefix("fabric://"), options.token)
    try:
        agents = control.list_agents(pb.ListRequest()).agents
    finally:
        control.close()
    if not agents:
        raise NotFoundError(f"the fabric at {options.url} has no agents; start one: fabric agent")
    return replace(options, url=agents[0].address)


def stream_info(options: SparkOptions) -> StreamInfo:
    """Schema and endpoints of the stream that `options` name."""
    found = at_agent(options)
    with Client(found.url, found.token) as client:
        info = client.info(found.descriptor)
    endpoints = (
        Endpoint(
            _addresses([at.uri.decode() for at in one.locations], found.url), one.ticket.ticket
        )
        for one in info.endpoints
    )
    return StreamInfo(info.schema, tuple(endpoints))


def _addresses(locations: Sequence[str], asked: str) -> tuple[str, ...]:
    """Where a worker finds the rows: it has no connection to reuse, so `asked` is named."""
    named = [asked if at.startswith(REUSE) else at for at in locations]
    return tuple(dict.fromkeys(at for at in named if at.startswith("grpc"))) or (asked,)


def read_endpoint(endpoint: Endpoint, token: str) -> Iterator[pa.RecordBatch]:
    """The rows of one endpoint, from the first of its agents that answers."""
    with Client(endpoint.locations[0], token) as client:
        yield from client.read_endpoint(endpoint.ticket, endpoint.locations)


@dataclass(frozen=True, slots=True)
class DatasetWriter:
    """One dataset transaction; plain values only, so that Spark can send it to its workers."""

    options: SparkOptions
    mode: str

    def begin(self, schema: pa.Schema) -> str:
        """Open a transaction; its id."""
        with Client(self.options.url, self.options.token) as client:
            answer = client.action(
                "dataset.begin",
                name=self.options.dataset,
                schema=base64.b64encode(schema.serialize()).decode(),
                keys=list(self.options.keys),
                partitions=self.options.partitions,
                mode=self.mode,
            )
        return str(answer["transaction"])

    def put(
        self,
        transaction: str,
        writer: str,
        attempt: int,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
    ) -> int:
        """Put one attempt's rows; returns how many lie durably at their owners."""
        path = ("dataset", self.options.dataset, transaction, writer, str(attempt))
        with Client(self.options.url, self.options.token) as client:
            return int(client.put(path, schema, batches)["rows"])

    def commit(self, transaction: str, parts: Sequence[tuple[str, int, int]]) -> None:
        """Publish the listed (writer, attempt, rows), all at once."""
        listed = [{"writer": w, "attempt": a, "rows": n} for w, a, n in parts]
        with Client(self.options.url, self.options.token) as client:
            client.action("dataset.commit", transaction=transaction, parts=listed)

    def abort(self, transaction: str) -> None:
        """Forget the transaction and what lies at the owners."""
        with Client(self.options.url, self.options.token) as client:
            client.action("dataset.abort", transaction=transaction, name=self.options.dataset)
