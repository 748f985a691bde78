"""Who is calling: every verb of the server passes here first.

One job: check the bearer token of every call (Handshake excepted, which has its own proof), bound
the number of open calls, and say in the log who was refused. What a scope may do is decided by the
verbs, from `claims_of`.
"""

from __future__ import annotations

import threading
from typing import Any

import pyarrow.flight as fl

from fabric.clock import Clock
from fabric.errors import AuthError, FabricError, PeerLostError
from fabric.flight.errors import to_flight
from fabric.security.tokens import Claims, Signer, bearer
from fabric.telemetry.logs import logger

NAME = "fabric"
_log = logger("fabric.flight")


class Caller(fl.ServerMiddleware):  # type: ignore[misc]
    """One call and its checked claims; gives its place back when the call ends."""

    def __init__(self, gate: Gate, claims: Claims | None) -> None:
        self._gate, self.claims = gate, claims

    def call_completed(self, exception: Exception | None) -> None:
        """Count the call out."""
        self._gate.leave()


class Gate(fl.ServerMiddlewareFactory):  # type: ignore[misc]
    """Lets calls in. After `close` it refuses all; `wait_empty` tells when the last one left."""

    def __init__(self, signer: Signer, clock: Clock, streams_max: int) -> None:
        self._signer, self._clock, self._streams_max = signer, clock, streams_max
        self._changed = threading.Condition()
        self._inside = 0
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether the server is stopping."""
        return self._closed

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> Caller:
        """Refuse the call or let it in."""
        try:
            claims = self._claims(info.method, headers)
            self._enter()
        except FabricError as error:
            if isinstance(error, AuthError):
                _log.warning("call refused", method=info.method.name, reason=error.message)
            raise to_flight(error) from None
        return Caller(self, claims)

    def leave(self) -> None:
        """A call ended."""
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def close(self) -> None:
        """Refuse new calls from now on; open streams end at their next message."""
        with self._changed:
            self._closed = True

    def wait_empty(self, timeout_s: float) -> bool:
        """Whether all calls ended within `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._inside == 0, timeout_s)

    def _claims(self, method: fl.FlightMethod, headers: dict[str, list[str]]) -> Claims | None:
        if method == fl.FlightMethod.HANDSHAKE:
            return None
        values = headers.get("authorization", [])
        if len(values) != 1:
            raise AuthError("this call needs one header: authorization: Bearer <token>")
        return self._signer.verify(bearer(values[0]), ["read"], self._clock.wall_s())

    def _enter(self) -> None:
        with self._changed:
            if self._closed:
                raise PeerLostError("this agent is shutting down; ask another one")
            if self._inside >= self._streams_max:
                raise PeerLostError(
                    f"this agent already serves {self._inside} calls at once; try again later"
                )
            self._inside += 1


def claims_of(context: fl.ServerCallContext) -> Claims:
    """The claims of the call; `AuthError` when no gate checked it."""
    caller = context.get_middleware(NAME)
    if not isinstance(caller, Caller) or caller.claims is None:
        raise AuthError("this call was not authenticated")
    return caller.claims
