"""The Flight server of an agent: every verb, for agents and for any other client.

One job: from pyarrow's calls to ours. Each verb checks the caller's scope, does its work in another
module, and lets no error out but Flight errors with an `ErrorDetail`. The verbs are Python for now;
the data plane behind the same conventions becomes native later.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow.flight as fl

from fabric.clock import Clock, SystemClock
from fabric.errors import NotFoundError
from fabric.flight.actions import Actions
from fabric.flight.backend import Backend
from fabric.flight.errors import SchemaRefusedError, to_flight
from fabric.flight.gets import Gets, guarded
from fabric.flight.handshake import ServerHandshake
from fabric.flight.listing import Listing, path_of
from fabric.flight.middleware import NAME, Gate, claims_of
from fabric.flight.puts import Puts
from fabric.flight.ticket import verify_ticket
from fabric.security.tokens import Claims, Scope, Signer

R = TypeVar("R")


class FabricFlightServer(fl.FlightServerBase):  # type: ignore[misc]
    """Serves `backend` at `location` from its construction on; end it with `stop`.

    Port 0 takes a free one, `port` tells which. `tls` is (certificate, key) in PEM; the location is
    then ``grpc+tls://host:port``.
    """

    def __init__(
        self,
        backend: Backend,
        signer: Signer,
        location: str = "grpc+tcp://127.0.0.1:0",
        *,
        clock: Clock | None = None,
        ticket_s: float = 3600.0,
        streams_max: int = 512,
        version: str = "",
        tls: tuple[bytes, bytes] | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._signer = signer
        self._gate = Gate(signer, self._clock, streams_max)
        self._listing = Listing(backend, signer, self._clock, ticket_s)
        self._gets = Gets(backend)
        self._puts = Puts(backend, lambda: self._gate.closed)
        self._actions = Actions(backend, self._puts, version)
        super().__init__(
            location,
            auth_handler=ServerHandshake(signer, self._clock),
            tls_certificates=[tls] if tls else None,
            middleware={NAME: self._gate},
        )

    def stop(self, grace_s: float = 5.0) -> bool:
        """Refuse new calls, let open ones end for `grace_s`; whether all did.

        pyarrow's own `shutdown` waits for open calls without end, so when some did not end it goes
        on in a daemon thread, and the process should exit.
        """
        self._gate.close()
        stopper = threading.Thread(target=self.shutdown, name="fabric-flight-stop", daemon=True)
        ended = self._gate.wait_empty(grace_s)
        stopper.start()
        stopper.join(grace_s)
        return ended and not stopper.is_alive()

    def list_flights(
        self, context: fl.ServerCallContext, criteria: bytes
    ) -> Iterator[fl.FlightInfo]:
        """Everything readable; `criteria` is the beginning of a path (see `Listing.all`)."""
        return iter(_call(context, "read", lambda _: list(self._listing.all(criteria))))

    def get_flight_info(
        self, context: fl.ServerCallContext, descriptor: fl.FlightDescriptor
    ) -> fl.FlightInfo:
        """Schema, endpoints and tickets of what a path names."""
        return _call(context, "read", lambda _: self._listing.info(descriptor))

    def get_schema(
        self, context: fl.ServerCallContext, descriptor: fl.FlightDescriptor
    ) -> fl.SchemaResult:
        """The schema of what a path names."""
        try:
            return _call(
                context, "read", lambda _: fl.SchemaResult(self._listing.schema(descriptor))
            )
        except fl.FlightError as error:
            raise SchemaRefusedError(str(error)) from None

    def do_get(self, context: fl.ServerCallContext, ticket: fl.Ticket) -> fl.GeneratorStream:
        """The rows of a ticket."""

        def open_stream(claims: Claims) -> fl.GeneratorStream:
            request = verify_ticket(self._signer, ticket.ticket, self._clock.wall_s())
            schema, items = self._gets.open(claims, request)
            return fl.GeneratorStream(schema, guarded(items, lambda: self._gate.closed))

        return _call(context, "read", open_stream)

    def do_put(
        self,
        context: fl.ServerCallContext,
        descriptor: fl.FlightDescriptor,
        reader: Any,
        writer: Any,
    ) -> None:
        """Rows into a dataset, acknowledged at the end."""

        def take(claims: Claims) -> None:
            writer.write(self._puts.take(claims, path_of(descriptor), reader, context))

        _call(context, "write", take)

    def do_exchange(
        self,
        context: fl.ServerCallContext,
        descriptor: fl.FlightDescriptor,
        reader: Any,
        writer: Any,
    ) -> None:
        """Nothing is exchanged yet."""

        def refuse(_claims: Claims) -> None:
            raise NotFoundError("nothing here answers do_exchange; use do_get or do_put")

        _call(context, "write", refuse)

    def list_actions(self, context: fl.ServerCallContext) -> list[fl.ActionType]:
        """The actions the caller may call."""
        return _call(
            context,
            "read",
            lambda claims: [fl.ActionType(*a) for a in self._actions.offered(claims)],
        )

    def do_action(self, context: fl.ServerCallContext, action: fl.Action) -> list[bytes]:
        """One action; one answer."""

        def run(claims: Claims) -> list[bytes]:
            body = action.body.to_pybytes() if action.body is not None else b""
            return [self._actions.run(claims, action.type, body)]

        return _call(context, "read", run)


def _call(context: fl.ServerCallContext, scope: Scope, work: Callable[[Claims], R]) -> R:
    """Run `work` for a caller of `scope`; whatever goes wrong leaves as a Flight error."""
    try:
        claims = claims_of(context)
        claims.require(scope, "this call")
        return work(claims)
    except BaseException as error:
        raise to_flight(error) from None
