"""Calling any Flight server from a client: reading, putting, actions, with our errors.

One job: a small face over pyarrow's client for everything outside the agents (`FlightSource` and
`FlightTarget`, sessions of a remote fabric, the Spark connector). Every wait is bounded by
`idle_s`; what the server says comes back as the same `FabricError` it raised.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar

import pyarrow as pa
import pyarrow.flight as fl

from fabric.errors import DataError, PeerLostError
from fabric.flight.batches import empty_batch
from fabric.flight.boxes import holds_dictionaries
from fabric.flight.connections import Connections
from fabric.flight.descriptor import PutPath
from fabric.flight.errors import from_flight
from fabric.flight.pull import pull
from fabric.flight.push import Push
from fabric.flight.remote_put import RemotePut
from fabric.flight.transport import PutWriter

R = TypeVar("R")
_STREAM_S_MAX = 24 * 3600.0
REUSE = "arrow-flight-reuse-connection:"


class Client:
    """Calls the Flight server at `address` with a bearer token; close it or use it in a `with`."""

    def __init__(
        self,
        address: str,
        token: str = "",
        *,
        idle_s: float = 30.0,
        tls_roots: bytes | None = None,
        tls_identity: tuple[bytes, bytes] | None = None,
    ) -> None:
        self.address = address
        self._idle_s = idle_s
        self._headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        self._connections = Connections(tls_roots, tls_identity)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def info(self, path: Sequence[str] = (), command: bytes = b"") -> fl.FlightInfo:
        """Schema and endpoints of a path, or of a command."""
        descriptor = (
            fl.FlightDescriptor.for_path(*path)
            if path
            else fl.FlightDescriptor.for_command(command)
        )
        return self._call(lambda client, options: client.get_flight_info(descriptor, options))

    def flights(self, criteria: bytes = b"") -> list[fl.FlightInfo]:
        """What the server lists."""
        return self._call(lambda client, options: list(client.list_flights(criteria, options)))

    def action(self, name: str, /, **fields: Any) -> dict[str, Any]:
        """Call an action of a fabric's agent: JSON in, JSON out."""
        body = json.dumps(fields).encode()
        answers = self._call(
            lambda client, options: list(client.do_action(fl.Action(name, body), options))
        )
        return _object(answers[0].body.to_pybytes()) if answers else {}

    def actions(self) -> list[str]:
        """The names of the actions the server offers."""
        found = self._call(lambda client, options: list(client.list_actions(options)))
        return [action.type for action in found]

    def read(self, info: fl.FlightInfo) -> Iterator[pa.RecordBatch]:
        """The rows of all endpoints, in their order."""
        for endpoint in info.endpoints:
            yield from self.read_endpoint(
                endpoint.ticket.ticket, [location.uri.decode() for location in endpoint.locations]
            )

    def read_endpoint(
        self, ticket: bytes, locations: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one ticket, from the first location that answers (none: this server)."""
        addresses = [self.address if at.startswith(REUSE) else at for at in locations]
        usable = [at for at in addresses if at.startswith("grpc")] or [self.address]
        for n, address in enumerate(usable, 1):
            begun = False
            try:
                for batch in self._rows(address, ticket):
                    begun = True
                    yield batch
                return
            except PeerLostError:
                if begun or n == len(usable):
                    raise

    def put(
        self, path: Sequence[str], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> dict[str, Any]:
        """Send `batches` under a path; the server's acknowledgement, {} when it has none."""
        writer = self.open_put(path, schema)
        try:
            for batch in batches:
                writer.write(batch)
            return writer.finish()
        finally:
            writer.abandon()

    def open_put(self, path: Sequence[str], schema: pa.Schema) -> ClientPut:
        """Begin a put whose batches come later."""
        return ClientPut(self._connections, self.address, path, schema, self._push)

    def open_owner_put(self, address: str, put: PutPath, schema: pa.Schema) -> PutWriter:
        """Begin one attempt's put to the owner at `address`: its partitions, already split."""
        return RemotePut(
            self._connections.lend(address),
            replace(put, to_owner=True),
            schema,
            options=self._options(_STREAM_S_MAX),
            idle_s=self._idle_s,
            address=address,
        )

    def _push(self, client: fl.FlightClient, path: Sequence[str], schema: pa.Schema) -> Push:
        descriptor = fl.FlightDescriptor.for_path(*path)
        options = self._options(_STREAM_S_MAX)
        return Push(
            lambda: client.do_put(descriptor, schema, options),
            idle_s=self._idle_s,
            agent=self.address,
        )

    def _rows(self, address: str, ticket: bytes) -> Iterator[pa.RecordBatch]:
        options = self._options(_STREAM_S_MAX)
        with self._connections.lend(address) as client:
            messages = pull(
                lambda: client.do_get(fl.Ticket(ticket), options),
                idle_s=self._idle_s,
                agent=address,
            )
            for batch, _ in messages:
                if batch is not None:
                    yield batch

    def _call(self, call: Callable[[fl.FlightClient, fl.FlightCallOptions], R]) -> R:
        with self._connections.lend(self.address) as client:
            try:
                return call(client, self._options(self._idle_s))
            except (pa.ArrowException, OSError, ValueError, KeyError) as error:
                raise from_flight(error, agent=self.address) from error

    def _options(self, timeout_s: float) -> fl.FlightCallOptions:
        return fl.FlightCallOptions(timeout=timeout_s, headers=self._headers)


class ClientPut:
    """A put in progress: `write` batches, then `finish`; `abandon` breaks it off."""

    def __init__(
        self,
        connections: Connections,
        address: str,
        path: Sequence[str],
        schema: pa.Schema,
        push: Callable[[fl.FlightClient, Sequence[str], pa.Schema], Push],
    ) -> None:
        self._lease = connections.lend(address)
        self._push = push(self._lease.__enter__(), path, schema)
        self._schema, self._sent = schema, False
        self._open = True

    def write(self, batch: pa.RecordBatch) -> None:
        """Send one batch; raises what went wrong with this or an earlier one."""
        self._push.send(batch)
        self._sent = True

    def finish(self) -> dict[str, Any]:
        """End the stream; the server's acknowledgement."""
        if not self._sent and holds_dictionaries(self._schema):  # no batch brought them: fails
            self._push.send(empty_batch(self._schema))
        answer = self._push.finish()
        self._close()
        return _object(answer) if answer else {}

    def abandon(self) -> None:
        """Break off; does nothing after `finish`."""
        if self._open:
            self._push.abandon()
            self._close()

    def _close(self) -> None:
        self._open = False
        self._lease.__exit__(None, None, None)


def read_endpoints(
    info: fl.FlightInfo, token: str, address: str, *, tls_roots: bytes | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of all endpoints of `info`, which the server at `address` gave."""
    with Client(address, token, tls_roots=tls_roots) as client:
        yield from client.read(info)


def _object(data: bytes) -> dict[str, Any]:
    """A JSON object; foreign servers may answer anything."""
    try:
        value = json.loads(data)
    except ValueError as error:
        raise DataError("the server's answer is not JSON") from error
    return value if isinstance(value, dict) else {"answer": value}
