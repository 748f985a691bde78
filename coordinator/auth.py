"""Who may call what: a token on every call.

One job: the interceptor that checks ``authorization: Bearer`` before a handler is even found, and
the table of scopes. A method that is not in the table is refused, so a new one can't be forgotten.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

import grpc

from fabric.clock import Clock
from fabric.control.rpc import status_of
from fabric.coordinator.runtime import Log
from fabric.errors import AuthError
from fabric.security.tokens import Claims, Scope, Signer

SERVICE = "/fabric.control.v1.Control/"
SCOPES: Mapping[str, Scope] = {
    "Attach": "agent",
    "Submit": "submit",
    "Explain": "submit",
    "Watch": "read",
    "Cancel": "submit",
    "Release": "submit",
    "Restart": "submit",
    "ListTasks": "read",
    "ListCheckpoints": "read",
    "JobPlan": "read",
    "ListEvents": "read",
    "Drain": "submit",
    "ListJobs": "read",
    "ListAgents": "read",
    "Locate": "read",
    "Dataset": "submit",
    "Depose": "agent",
}


_caller: ContextVar[Claims] = ContextVar("caller")


def caller() -> Claims:
    """What the token of the call says that this coroutine answers."""
    return _caller.get()


class AuthInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """Refuses calls without a token that suffices."""

    def __init__(self, signer: Signer, clock: Clock, log: Log) -> None:
        self._signer, self._clock, self._log = signer, clock, log

    async def intercept_service(
        self,
        continuation: Callable[[Any], Awaitable[Any]],
        handler_call_details: Any,
    ) -> Any:
        """The handler, or one that refuses."""
        method = handler_call_details.method.removeprefix(SERVICE)
        try:
            self._check(method, handler_call_details.invocation_metadata)
        except AuthError as error:
            self._log("call refused", {"method": method[:80], "error": error.message})
            handler = await continuation(handler_call_details)
            return _refusal(error, handler)
        return await continuation(handler_call_details)

    def _check(self, method: str, metadata: Any) -> None:
        scope = SCOPES.get(method)
        if scope is None:
            raise AuthError("there is no such call")
        _caller.set(self._signer.verify(_token(metadata), (scope,), self._clock.wall_s()))


def _token(metadata: Any) -> str:
    values = [value for key, value in metadata or () if key == "authorization"]
    if len(values) != 1 or not isinstance(values[0], str) or not values[0].startswith("Bearer "):
        raise AuthError(
            "this call needs a token; give connect(..., token=...) the text of the token file that "
            "`fabric up` names"
        )
    return values[0].removeprefix("Bearer ")


def _refusal(error: AuthError, handler: Any) -> Any:
    """A handler of the same shape that only ends the call."""
    code, text, trailing = status_of(error)

    async def refuse(_: Any, context: Any) -> None:
        await context.abort(code, text, trailing)

    if handler is not None and handler.request_streaming:
        return grpc.stream_stream_rpc_method_handler(refuse)
    if handler is not None and handler.response_streaming:
        return grpc.unary_stream_rpc_method_handler(refuse)
    return grpc.unary_unary_rpc_method_handler(refuse)
