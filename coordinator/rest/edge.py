"""What every HTTP answer has, whatever answered.

One job: an ASGI wrapper that bounds bodies, adds the headers that keep browsers from mischief, and
logs what nobody expected.
"""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fabric.coordinator.runtime import Log

_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
        b"frame-ancestors 'none'; base-uri 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Edge:
    """`app`, with bodies of at most `bytes_max`."""

    def __init__(self, app: ASGIApp, bytes_max: int, log: Log) -> None:
        self._app, self._bytes_max, self._log = app, bytes_max, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            await self._app(scope, self._bounded(receive), _with_headers(send))
        except Exception as error:  # told already: `app.py` has a handler for what nobody expected
            fields = {"path": str(scope["path"])[:200], "error": repr(error)}
            self._log("request failed", fields)

    def _bounded(self, receive: Receive) -> Receive:
        n_bytes = 0

        async def bounded() -> Message:
            nonlocal n_bytes
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if n_bytes > self._bytes_max:
                raise HTTPException(413, f"a body may have {self._bytes_max} bytes")
            return message

        return bounded


def _with_headers(send: Send) -> Send:
    """`send`, with our headers on every answer."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", ()))
            named = {name for name, _ in given}
            given += [header for header in _HEADERS if header[0] not in named]
            message = {**message, "headers": given}
        await send(message)

    return sent
