"""Calling any Flight server from a client: reading, putting, actions, with our errors.

One job: a small face for everything outside the agents (`FlightSource` and `FlightTarget`, sessions
of a remote fabric, the Spark connector). Streams are read and written by native threads and fully
validated, for the server may be anybody's; other calls go through pyarrow's client. Every wait is
bounded by `idle_s`; what the server says comes back as the same `FabricError` it raised.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any, Self, TypeVar

import pyarrow as pa
import pyarrow.flight as fl

from fabric._cython.shuffle.pump.pump import Connections, Put
from fabric.errors import DataError, PeerLostError
from fabric.flight.connections import connect, connect_s
from fabric.flight.descriptor import PutPath
from fabric.flight.errors import from_flight
from fabric.flight.owners import OWNER_WAIT_S, Kept, OwnerPut, from_agent, patiently
from fabric.flight.transport import PutWriter
from fabric.security.tls import check_clear

R = TypeVar("R")
Headers = Sequence[tuple[bytes, bytes]]
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
        insecure: bool = False,
    ) -> None:
        """A token is sent in the clear to this machine alone, or to any that is `insecure`."""
        self.address = address
        self._insecure = insecure
        self._check_clear(token, address)
        self._reached = set[str]()
        self._idle_s = idle_s
        self._token, self._tls = token, (tls_roots, tls_identity)
        self._connections = Connections(tls_roots, tls_identity, connect_s=connect_s(idle_s))
        self._lock = threading.Lock()
        self._caller: fl.FlightClient | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()
        with self._lock:
            self._closed = True
            caller, self._caller = self._caller, None
        if caller is not None:
            caller.close()

    def info(
        self, path: Sequence[str] = (), command: bytes = b"", *, headers: Headers = ()
    ) -> fl.FlightInfo:
        """Schema and endpoints of a path, or of a command."""
        descriptor = (
            fl.FlightDescriptor.for_path(*path)
            if path
            else fl.FlightDescriptor.for_command(command)
        )
        return self._call(
            lambda client, options: client.get_flight_info(descriptor, options), headers
        )

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
        self,
        path: Sequence[str],
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        *,
        owner_wait_s: float = OWNER_WAIT_S,
    ) -> dict[str, Any]:
        """Send `batches` under a path; the server's acknowledgement, {} when it has none.

        Into an open transaction of a dataset: owners that start again are waited for, as long as
        the first of `batches` are still here to be sent again.
        """
        if not _is_attempt(path):
            return self.put_once(path, schema, batches)
        kept = Kept(batches)
        return patiently(
            lambda: self.put_once(path, schema, kept),
            owner_wait_s,
            may_repeat=lambda: kept.is_whole,
        )

    def put_once(
        self, path: Sequence[str], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> dict[str, Any]:
        """See `put`; nobody is waited for."""
        writer = self.open_put(path, schema)
        try:
            for batch in batches:
                writer.write(batch)
            return writer.finish()
        finally:
            writer.abandon()

    def open_put(self, path: Sequence[str], schema: pa.Schema) -> ClientPut:
        """Begin a put whose batches come later."""
        put = self._connections.put(
            self.address, path, schema, token=self._token, idle_s=self._idle_s
        )
        return ClientPut(put, self.address, self._from)

    def open_owner_put(self, address: str, put: PutPath, schema: pa.Schema) -> PutWriter:
        """Begin one attempt's put to the owner at `address`: its partitions, already split."""
        self._check_clear(self._token, address)
        return OwnerPut(
            self._connections, address, put, schema, token=self._token, idle_s=self._idle_s
        )

    def _rows(self, address: str, ticket: bytes) -> Iterator[pa.RecordBatch]:
        self._check_clear(self._token, address)  # a server may name any
        stream = self._connections.read(address, ticket, token=self._token, idle_s=self._idle_s)
        with self._from(address), closing(stream):
            while batches := stream.take():
                self._reached.add(address)
                yield from batches

    def _check_clear(self, token: str, address: str) -> None:
        if token:
            check_clear(address, self._insecure)

    def _from(self, address: str) -> AbstractContextManager[None]:
        """Errors in here name the server, and what is wrong with its certificate."""
        return from_agent(address, self._tls[0], new=address not in self._reached)

    def _call(
        self, call: Callable[[fl.FlightClient, fl.FlightCallOptions], R], headers: Headers = ()
    ) -> R:
        auth = [(b"authorization", f"Bearer {self._token}".encode())] if self._token else []
        options = fl.FlightCallOptions(timeout=self._idle_s, headers=[*auth, *headers])
        client = self._calling()
        try:
            with self._from(self.address):
                answer = self._called(client, call, options)
            self._reached.add(self.address)
            return answer
        except PeerLostError:
            self._drop(client)
            raise

    def _called(
        self,
        client: fl.FlightClient,
        call: Callable[[fl.FlightClient, fl.FlightCallOptions], R],
        options: fl.FlightCallOptions,
    ) -> R:
        try:
            return call(client, options)
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            raise from_flight(error, agent=self.address) from error

    def _calling(self) -> fl.FlightClient:
        with self._lock:
            if self._closed:
                raise PeerLostError(f"the connection to {self.address} was closed: shutting down")
            if self._caller is None:
                self._caller = connect(self.address, *self._tls)
            return self._caller

    def _drop(self, client: fl.FlightClient) -> None:
        """A lost peer's connection is thrown away; calls that still use it may end."""
        with self._lock:
            if self._caller is client:
                self._caller = None


class ClientPut:
    """A put in progress: `write` batches, then `finish`; `abandon` breaks it off."""

    def __init__(
        self, put: Put, address: str, from_: Callable[[str], AbstractContextManager[None]]
    ) -> None:
        self._put, self._address, self._from = put, address, from_

    def write(self, batch: pa.RecordBatch) -> None:
        """Send one batch; raises what went wrong with this or an earlier one."""
        with self._from(self._address):
            self._put.write(batch)

    def finish(self) -> dict[str, Any]:
        """End the stream; the server's acknowledgement."""
        with self._from(self._address):
            answer = self._put.seal()
        return _object(answer) if answer else {}

    def abandon(self) -> None:
        """Break off; does nothing after `finish`."""
        self._put.abandon()


def _is_attempt(path: Sequence[str]) -> bool:
    """Whether a put there is one attempt of a writer in an open transaction."""
    return len(path) > 2 and path[0] == "dataset"


def _object(data: bytes) -> dict[str, Any]:
    """A JSON object; foreign servers may answer anything."""
    try:
        value = json.loads(data)
    except ValueError as error:
        raise DataError("the server's answer is not JSON") from error
    return value if isinstance(value, dict) else {"answer": value}
