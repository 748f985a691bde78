"""The transport over Arrow Flight, between agents of one fabric.

One job: `Transport` with sockets. Calls carry an agent token and signed tickets; every message is
checked (`check.py`) and every wait is bounded (`pull.py`, `push.py`). Addresses that are in this
process go straight to the in-process transport.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pyarrow.flight as fl

from fabric.clock import Clock, SystemClock
from fabric.errors import ConfigError, FabricError
from fabric.flight.boxes import unbox
from fabric.flight.check import StreamCheck
from fabric.flight.connections import Connections
from fabric.flight.descriptor import PutPath
from fabric.flight.errors import from_flight
from fabric.flight.header import EdgeHeader, Event
from fabric.flight.inprocess import InProcessTransport
from fabric.flight.pull import pull
from fabric.flight.remote_put import RemotePut
from fabric.flight.ticket import AnyRequest, DatasetRequest, PartitionRequest, make_ticket
from fabric.flight.transport import PutWriter
from fabric.security.tokens import Signer

TOKEN_TTL_S = 3600.0
CALL_S_MAX = 24 * 3600.0
"""Ends a stream whose thread was given up on, should the peer freeze for good."""


class FlightTransport:
    """Reaches agents by ``grpc+tcp://host:port``; one per process is enough.

    `idle_s` bounds how long one message may take, connecting included.
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
    ) -> None:
        if idle_s <= 0:
            raise ConfigError(f"idle_s must be positive, got {idle_s!r}")
        self._signer, self._agent_id, self._idle_s = signer, agent_id, idle_s
        self._local = local or InProcessTransport()
        self._clock = clock or SystemClock()
        self._connections = Connections(tls_roots)
        self._lock = threading.Lock()
        self._token, self._token_until_s = "", 0.0

    def fetch(
        self, address: str, request: PartitionRequest
    ) -> Iterator[tuple[EdgeHeader, pa.RecordBatch | None]]:
        """See `Transport.fetch`."""
        if self._local.has(address):
            yield from self._local.fetch(address, request)
            return
        check = StreamCheck(
            job=request.job,
            edge=request.edge,
            producers=request.producers,
            partition=request.partition,
            node=request.node_path,
            agent=address,
        )
        with self._placed(address, request), self._connections.lend(address) as client:
            for batch, metadata in self._pull(client, address, request):
                header = check.decode(metadata)
                if check.accept(header, batch):
                    yield header, batch if header.event is Event.ROWS else None
            check.finish()

    def read_dataset(self, address: str, request: DatasetRequest) -> Iterator[pa.RecordBatch]:
        """See `Transport.read_dataset`; an END message at the end tells that nothing is missing."""
        if self._local.has(address):
            yield from self._local.read_dataset(address, request)
            return
        check = StreamCheck(
            job=request.name, edge=0, producers=[(0, 0)], partition=request.partition, agent=address
        )
        with self._connections.lend(address) as client:
            for batch, metadata in self._pull(client, address, request):
                header = check.decode(metadata)
                if check.accept(header, batch) and header.event is Event.ROWS:
                    yield batch
            check.finish()

    def open_put(self, address: str, put: PutPath, schema: pa.Schema) -> PutWriter:
        """See `Transport.open_put`."""
        if self._local.has(address):
            return self._local.open_put(address, put, schema)
        return RemotePut(
            self._connections.lend(address),
            replace(put, to_owner=True),
            schema,
            options=self._options(),
            idle_s=self._idle_s,
            address=address,
        )

    def discard(self, address: str, name: str, transaction: str) -> None:
        """See `Transport.discard`."""
        if self._local.has(address):
            self._local.discard(address, name, transaction)
            return
        body = json.dumps({"name": name, "transaction": transaction}).encode()
        with self._connections.lend(address) as client:
            try:
                action = fl.Action("dataset.discard", body)
                list(client.do_action(action, self._options(self._idle_s)))
            except (pa.ArrowException, OSError) as error:
                raise from_flight(error, agent=address) from error

    def close(self) -> None:
        """See `Transport.close`."""
        self._connections.close()

    def _pull(
        self, client: fl.FlightClient, address: str, request: AnyRequest
    ) -> Iterator[tuple[pa.RecordBatch | None, bytes | None]]:
        ticket = make_ticket(self._signer, request, self._clock.wall_s() + TOKEN_TTL_S)
        options = self._options()
        messages = pull(
            lambda: client.do_get(fl.Ticket(ticket), options), idle_s=self._idle_s, agent=address
        )
        for batch, metadata in messages:
            yield None if batch is None else unbox(batch), metadata

    @contextmanager
    def _placed(self, address: str, request: PartitionRequest) -> Iterator[None]:
        """Errors in here name the job, node, agent and what was asked for."""
        tasks = ", ".join(f"{task}#{attempt}" for task, attempt in request.producers[:5])
        try:
            yield
        except FabricError as error:
            raise error.at(
                job=request.job, node=request.node_path, task=tasks, agent=address
            ) from error.__cause__

    def _options(self, timeout_s: float = CALL_S_MAX) -> fl.FlightCallOptions:
        header = (b"authorization", f"Bearer {self._agent_token()}".encode())
        return fl.FlightCallOptions(timeout=timeout_s, headers=[header])

    def _agent_token(self) -> str:
        now_s = self._clock.wall_s()
        with self._lock:
            if now_s > self._token_until_s - TOKEN_TTL_S / 2:
                self._token = self._signer.token("agent", self._agent_id, TOKEN_TTL_S, now_s)
                self._token_until_s = now_s + TOKEN_TTL_S
            return self._token
