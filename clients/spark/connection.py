"""What the connector says to a fabric: over Flight, as any other client.

One job: clients, streams and endpoints. A ``fabric://`` URL is asked once, on the driver, for its
agents; workers only ever see Flight addresses. Dataset transactions are in `writer.py`.

Spark prints the Python traceback of whatever a data source raises; a `FabricError` says all its
reader needs, so `plainly` leaves only one frame of it. A bug keeps its frames.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

import pyarrow as pa

from fabric.clients.session.address import parse_address
from fabric.clients.spark.options import Credentials, SparkOptions
from fabric.errors import FabricError, NotFoundError, PeerLostError
from fabric.flight.client import REUSE, Client

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint of a stream: an opaque ticket and the agents that answer it, best first."""

    locations: tuple[str, ...]
    ticket: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """What a fabric says of a stream."""

    schema: pa.Schema
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class Agents:
    """Agents that all answer the same questions; plain values, so that Spark can send them."""

    addresses: tuple[str, ...]
    credentials: Credentials = field(repr=False)
    timeout_s: float

    def client(self, address: str = "") -> Client:
        """A client of the agent at `address`, of the first one without it; close it."""
        return Client(
            address or self.addresses[0],
            self.credentials.token,
            idle_s=self.timeout_s,
            tls_roots=self.credentials.tls_ca,
            tls_identity=self.credentials.tls_identity,
            insecure=self.credentials.insecure,
        )

    def ask(self, question: Callable[[Client], Answer]) -> Answer:
        """The answer of the first agent that gives one; `question` may be asked again."""
        lost: PeerLostError | None = None
        for address in self.addresses:
            try:
                with self.client(address) as client:
                    return question(client)
            except PeerLostError as error:
                lost = lost or error
        assert lost is not None
        raise lost


def agents_of(options: SparkOptions) -> Agents:
    """Whom `options` name: one address, or all agents the coordinator knows."""
    return Agents(_addresses_of(options), options.credentials, options.timeout_s)


def _addresses_of(options: SparkOptions) -> tuple[str, ...]:
    if not options.url.startswith(("fabric://", "fabric+tls://")):
        return (options.url,)
    from fabric.control import control_pb2 as pb
    from fabric.control.client import GrpcControl

    encrypted, given = options.url.startswith("fabric+tls://"), options.credentials
    control = GrpcControl(
        parse_address(options.url),
        given.token,
        tls_roots=given.tls_ca if encrypted else None,
        insecure=given.insecure,
    )
    try:
        agents = control.list_agents(pb.ListRequest()).agents
    finally:  # gRPC takes 0.2 s to close a channel, and nobody needs to wait
        threading.Thread(target=control.close, name="fabric-close", daemon=True).start()
    if not agents:
        raise NotFoundError(f"the fabric at {options.url} has no agents; start one: fabric agent")
    return tuple(agent.address for agent in agents)


def stream_info(options: SparkOptions, agents: Agents | None = None) -> StreamInfo:
    """Schema and endpoints of the stream that `options` name, asked of `agents`."""
    agents = agents or agents_of(options)
    address, info = agents.ask(lambda c: (c.address, c.info(options.path, options.command)))
    endpoints = (
        Endpoint(_locations([at.uri.decode() for at in one.locations], address), one.ticket.ticket)
        for one in info.endpoints
    )
    return StreamInfo(info.schema, tuple(endpoints))


def _locations(named: Sequence[str], asked: str) -> tuple[str, ...]:
    """Where a worker finds the rows: it has no connection to reuse, so `asked` is named."""
    found = [asked if at.startswith(REUSE) else at for at in named]
    return tuple(dict.fromkeys(at for at in found if at.startswith("grpc"))) or (asked,)


def read_endpoint(endpoint: Endpoint, agents: Agents) -> Iterator[pa.RecordBatch]:
    """The rows of one endpoint, from the first of its agents that answers."""
    with agents.client(endpoint.locations[0]) as client:
        yield from client.read_endpoint(endpoint.ticket, endpoint.locations)


P = ParamSpec("P")
R = TypeVar("R")


def plainly(call: Callable[P, R]) -> Callable[P, R]:
    """`call`, whose `FabricError` comes without the frames and causes below it."""

    @functools.wraps(call)
    def plain(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except FabricError as error:
            raise error.with_traceback(None) from None

    return plain


def plainly_each(call: Callable[P, Iterator[R]]) -> Callable[P, Iterator[R]]:
    """The same for a generator."""

    @functools.wraps(call)
    def plain(*args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        try:
            yield from call(*args, **kwargs)
        except FabricError as error:
            raise error.with_traceback(None) from None

    return plain
