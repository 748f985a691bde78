"""Who may call what: a token on every call.

One job: the interceptor that checks ``authorization: Bearer`` before a handler is called, and the
table of scopes. A method that is not in the table is refused, so a new one can't be forgotten.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc

from fabric._cython.shuffle.wire.admission import Admission
from fabric.clock import Clock
from fabric.control.api import SERVICE
from fabric.control.rpc import status_of
from fabric.coordinator.runtime.log import Log
from fabric.errors import AuthError
from fabric.security.callers import PEER_KEY, Caller, Refusals, called_by, peer_of
from fabric.security.tokens import Claims, Scope, Signer

Behaviour = Callable[[Any, Any], Awaitable[Any]]

_PREFIX = f"/{SERVICE.full_name}/"
SCOPES: Mapping[str, Scope] = {
    "Attach": "agent",
    "Submit": "submit",
    "Explain": "submit",
    "Watch": "read",
    "Cancel": "submit",
    "Release": "submit",
    "Restart": "submit",
    "Rescale": "submit",
    "ListTasks": "read",
    "ListCheckpoints": "read",
    "TakeCheckpoint": "submit",
    "ListSavepoints": "read",
    "DeleteSavepoint": "submit",
    "ListStreams": "read",
    "DropStream": "submit",
    "JobPlan": "read",
    "ListEvents": "read",
    "Drain": "submit",
    "Undrain": "submit",
    "ListJobs": "read",
    "ListAgents": "read",
    "Locate": "read",
    "Dataset": "submit",
    "Depose": "agent",
}


class AuthInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """Refuses calls without a token that suffices; handlers of the others know who calls."""

    def __init__(self, signer: Signer, clock: Clock, log: Log) -> None:
        self._signer, self._clock = signer, clock
        self._refusals = Refusals(log)
        self.admission: Admission | None = None

    def close(self) -> None:
        """Write down what was counted only, and end no connection any more."""
        self._refusals.settle()
        if self.admission is not None:
            self.admission.stop()

    async def intercept_service(
        self,
        continuation: Callable[[Any], Awaitable[Any]],
        handler_call_details: Any,
    ) -> Any:
        """The handler, or one that refuses."""
        method = handler_call_details.method.removeprefix(_PREFIX)
        metadata = handler_call_details.invocation_metadata
        try:
            claims = self._check(method, metadata)
        except AuthError as error:  # as a call of streams it reads no message of a stranger
            return grpc.stream_stream_rpc_method_handler(self._refusing(method, error))
        handler = await continuation(handler_call_details)
        return None if handler is None else self._calling(handler, claims, _told(metadata))

    def _check(self, method: str, metadata: Any) -> Claims:
        scope = SCOPES.get(method)
        if scope is None:
            raise AuthError("there is no such call")
        return self._signer.verify(_token(metadata), (scope,), self._clock.wall_s())

    def _refusing(self, method: str, error: AuthError) -> Behaviour:
        """What only ends the call."""
        code, text, trailing = status_of(error)

        async def refuse(_: Any, context: Any) -> None:
            self._refusals.add(method, error, peer_of(context.peer()))
            await context.abort(code, text, trailing)

        return refuse

    def _calling(self, handler: Any, claims: Claims, told: str) -> Any:
        """What `handler` does, done for whoever calls, whose connection may stay."""
        behaviour: Behaviour = (
            handler.stream_stream
            or handler.stream_unary
            or handler.unary_stream
            or handler.unary_unary
        )

        async def call(request: Any, context: Any) -> Any:
            peer = context.peer()
            if self.admission is not None:
                self.admission.admit(peer, agent=claims.is_agent)
            called_by(Caller(claims, peer_of(peer), told))  # each call is a task
            return await behaviour(request, context)

        make = (
            grpc.stream_stream_rpc_method_handler
            if handler.request_streaming
            else grpc.unary_stream_rpc_method_handler
            if handler.response_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        return make(call, handler.request_deserializer, handler.response_serializer)


def _token(metadata: Any) -> str:
    values = [value for key, value in metadata or () if key == "authorization"]
    if len(values) != 1 or not isinstance(values[0], str) or not values[0].startswith("Bearer "):
        raise AuthError(
            "this call needs a token; give connect(..., token=...) the text of the token file that "
            "`fabric up` names"
        )
    return values[0].removeprefix("Bearer ")


def _told(metadata: Any) -> str:
    """Whom an agent says that it asks for."""
    values = [value for key, value in metadata or () if key == PEER_KEY]
    return values[0].decode("utf-8", "replace") if values else ""
