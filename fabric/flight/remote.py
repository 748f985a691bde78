"""The transport over Arrow Flight, between agents of one fabric.

One job: `Transport` with sockets. Calls carry an agent token and signed tickets; native threads
read and write the streams, check every message, bound every wait and try a broken connection again
(`fabric/_cython/shuffle/pump`). Addresses that are in this process go straight to the in-process
transport.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

import pyarrow as pa

from fabric._cython.shuffle.exchange.exchanges import Exchange
from fabric._cython.shuffle.flight.handlers import HandlerSet, serve_passing
from fabric._cython.shuffle.pump.pump import Connections, Fetch
from fabric._cython.shuffle.ring.ring import Pipes
from fabric._cython.shuffle.store.budget import Budget
from fabric.clock import Clock, SystemClock
from fabric.errors import ConfigError, FabricError
from fabric.flight.connections import connect_s
from fabric.flight.descriptor import PutPath
from fabric.flight.header import EdgeHeader, decode_header
from fabric.flight.inprocess import InProcessTransport
from fabric.flight.owners import OwnerPut, from_agent
from fabric.flight.ticket import AnyRequest, DatasetRequest, PartitionRequest, make_ticket
from fabric.flight.transport import ExchangeRequest, OpenExchange, PutWriter, RowStream
from fabric.security.tls import check_clear
from fabric.security.tokens import Signer

TOKEN_TTL_S = 3600.0
_NAMED_MAX = 5


class FlightTransport:
    """Reaches agents by ``grpc+tcp://host:port``; one per process is enough.

    `idle_s` bounds how long one message may take, connecting included. What came and nobody has
    taken yet is of `budget`, and for each address bounded by `peer_bytes`; so many streams of tasks
    that gather their input go to one address at a time as `peer_requests` says.
    """

    def __init__(
        self,
        signer: Signer,
        *,
        agent_id: str = "agent",
        local: InProcessTransport | None = None,
        clock: Clock | None = None,
        idle_s: float = 30.0,
        tls_roots: bytes | None = None,
        budget: Budget | None = None,
        peer_bytes: int | None = None,
        peer_requests: int | None = None,
    ) -> None:
        if idle_s <= 0:
            raise ConfigError(f"idle_s must be positive, got {idle_s!r}")
        self._signer, self._agent_id, self._idle_s = signer, agent_id, idle_s
        self._local = local or InProcessTransport()
        self._clock = clock or SystemClock()
        self._connections = Connections(
            tls_roots,
            connect_s=connect_s(idle_s),
            budget=budget,
            peer_bytes=peer_bytes,
            peer_requests=peer_requests,
        )
        self._roots = tls_roots
        self._lock = threading.Lock()
        self._token, self._token_until_s = "", 0.0

    def fetch(
        self, address: str, request: PartitionRequest
    ) -> Iterator[tuple[EdgeHeader, pa.RecordBatch | None]]:
        """See `Transport.fetch`."""
        if self._local.has(address):
            yield from self._local.fetch(address, request)
            return
        placed = _placed(address, request, self._roots)
        with placed, closing(self._edge(address, request, events=True)) as edge:
            while messages := edge.take_messages():
                for data, batch in messages:
                    yield decode_header(data), batch

    def open_rows(
        self, address: str, request: PartitionRequest, *, gathers: bool = False
    ) -> RowStream:
        """See `Transport.open_rows`."""
        if self._local.has(address):
            return self._local.open_rows(address, request)
        stream = self._edge(address, request, gathers=gathers)
        return _EdgeRows(stream, address, request, self._roots)

    def read_dataset(self, address: str, request: DatasetRequest) -> Iterator[pa.RecordBatch]:
        """See `Transport.read_dataset`; an END message at the end tells that nothing is missing."""
        if self._local.has(address):
            yield from self._local.read_dataset(address, request)
            return
        stream = self._connections.fetch(
            address, self._ticket(request), token=self._token_for(address), idle_s=self._idle_s,
            job=request.name, edge=0, producers=[(0, 0)], partition=request.partition,
            subject=f"partition {request.partition} of dataset {request.name!r}: ",
        )  # fmt: skip
        with from_agent(address, self._roots), closing(stream):
            while batches := stream.take():
                yield from batches

    def open_put(self, address: str, put: PutPath, schema: pa.Schema) -> PutWriter:
        """See `Transport.open_put`."""
        if self._local.has(address):
            return self._local.open_put(address, put, schema)
        return OwnerPut(
            self._connections, address, put, schema,
            token=self._token_for(address), idle_s=self._idle_s,
        )  # fmt: skip

    def open_exchange(self, address: str, request: ExchangeRequest, pipes: Pipes) -> OpenExchange:
        """See `Transport.open_exchange`."""
        if self._local.has(address):
            return self._local.open_exchange(address, request, pipes)
        return Exchange(
            self._connections,
            pipes,
            address=address,
            token=self._token_for(address),
            job=request.job,
            node=request.node_path,
            edge=request.edge,
            n_partitions=request.n_partitions,
            producers=request.producers,
            schema=request.schema,
            idle_s=self._idle_s,
            agent=request.agent_id,
            compression=request.compression,
            window_bytes=request.window_bytes,
        )

    def discard(self, address: str, name: str, transaction: str) -> None:
        """See `Transport.discard`."""
        if self._local.has(address):
            self._local.discard(address, name, transaction)
            return
        body = json.dumps({"name": name, "transaction": transaction}).encode()
        with from_agent(address, self._roots):
            self._connections.act(
                address, "dataset.discard", body,
                token=self._token_for(address), timeout_s=self._idle_s,
            )  # fmt: skip

    def pass_on(self, handlers: HandlerSet) -> None:
        """Let a server of this process fetch from other agents without Python."""
        serve_passing(
            handlers,
            self._connections,
            self._agent_token,
            ticket_key=self._signer.key("ticket"),
            idle_s=self._idle_s,
        )

    def shorten(self, paths: Mapping[str, str], *, only: bool = False) -> Mapping[str, str]:
        """Reach servers at {address: path} by Unix sockets (see `fabric.flight.sockets`)."""
        return self._connections.shorten(paths, only=only)

    def close(self) -> None:
        """See `Transport.close`."""
        self._connections.close()

    def _edge(
        self,
        address: str,
        request: PartitionRequest,
        *,
        events: bool = False,
        gathers: bool = False,
    ) -> Fetch:
        tasks = _tasks(request)
        return self._connections.fetch(
            address, self._ticket(request), token=self._token_for(address), idle_s=self._idle_s,
            events=events, gathers=gathers, job=request.job, edge=request.edge,
            producers=request.producers, partition=request.partition, node=request.node_path,
            tasks=tasks,
            subject=f"partition {request.partition} of edge {request.edge} from task {tasks}: ",
        )  # fmt: skip

    def _ticket(self, request: AnyRequest) -> bytes:
        return make_ticket(self._signer, request, self._clock.wall_s() + TOKEN_TTL_S)

    def _token_for(self, address: str) -> str:
        """Our token, unless it could be read on the way there."""
        if address.startswith("grpc"):  # no other is connected to
            check_clear(address)
        return self._agent_token()

    def _agent_token(self) -> str:
        now_s = self._clock.wall_s()
        with self._lock:
            if now_s > self._token_until_s - TOKEN_TTL_S / 2:
                self._token = self._signer.token("agent", self._agent_id, TOKEN_TTL_S, now_s)
                self._token_until_s = now_s + TOKEN_TTL_S
            return self._token


class _EdgeRows:
    """A native stream whose errors name what was asked for."""

    def __init__(
        self, stream: Fetch, address: str, request: PartitionRequest, tls_roots: bytes | None
    ) -> None:
        self._stream, self._address, self._request = stream, address, request
        self._roots = tls_roots

    def take(self) -> list[pa.RecordBatch]:
        """See `RowStream.take`."""
        with _placed(self._address, self._request, self._roots):
            return self._stream.take()

    def close(self) -> None:
        """See `RowStream.close`."""
        self._stream.close()


def _tasks(request: PartitionRequest) -> str:
    named = ", ".join(f"{task}#{attempt}" for task, attempt in request.producers[:_NAMED_MAX])
    return named + (", …" if len(request.producers) > _NAMED_MAX else "")


@contextmanager
def _placed(address: str, request: PartitionRequest, tls_roots: bytes | None) -> Iterator[None]:
    """Errors in here name the job, node, agent and what was asked for."""
    try:
        with from_agent(address, tls_roots):
            yield
    except FabricError as error:
        raise error.at(
            job=request.job, node=request.node_path, task=_tasks(request), agent=address
        ) from error.__cause__
