"""What every HTTP answer has, whatever answered.

One job: an ASGI wrapper that bounds requests, bodies and the time that clients take for them, adds
the headers that keep browsers from mischief, and logs what nobody expected. ``/healthz`` is outside
of the bounds: whoever restarts what does not answer must not do so because others ask a lot.
"""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fabric._cython.shuffle.wire.admission import Admission
from fabric.coordinator.rest.access import Access
from fabric.coordinator.rest.problems import response
from fabric.coordinator.runtime.log import Log

HEALTH = "/healthz"
REQUESTS_MAX = 500
"""Requests under way."""
STRANGER_BYTES = 1 << 20
"""Of a body without a token."""
IDLE_S = 30.0
"""What a client may take to send the next piece of a body, or to read one of an answer."""

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
    """`app`, with bodies of at most `bytes_max`; `admission` counts its connections, if given."""

    def __init__(self, app: ASGIApp, bytes_max: int, log: Log, access: Access) -> None:
        self._app, self._bytes_max, self._log, self._access = app, bytes_max, log, access
        self._n_requests = 0
        self.admission: Admission | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"] == HEALTH:
            await self._app(scope, receive, _with_headers(send))
            self._expect(scope)
        else:
            await self._bound(scope, receive, send)

    async def _bound(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._n_requests >= REQUESTS_MAX:
            busy = response(503, f"{REQUESTS_MAX} requests are under way; try again later")
            await busy(scope, receive, _with_headers(send))
            return
        self._n_requests += 1
        if self.admission is not None:
            self.admission.admit(peer_of(scope))
        try:
            await self._app(scope, self._bounded(scope, receive), _with_headers(_in_time(send)))
        except Exception as error:  # told already: `app.py` has a handler for what nobody expected
            fields = {"path": str(scope["path"])[:200], "error": repr(error)}
            self._log("request failed", fields)
        finally:
            self._n_requests -= 1
            self._expect(scope)

    def _expect(self, scope: Scope) -> None:
        """The next request has its time from now on."""
        if self.admission is not None:
            self.admission.expect(peer_of(scope))

    def _bounded(self, scope: Scope, receive: Receive) -> Receive:
        n_bytes, most, more = 0, min(STRANGER_BYTES, self._bytes_max), True

        async def bounded() -> Message:
            nonlocal n_bytes, most, more
            if not more:  # what comes now is that the client has gone
                return await receive()
            try:
                async with asyncio.timeout(IDLE_S):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"no more of the body came for {IDLE_S:.0f} s") from None
            n_bytes += len(message.get("body", b""))
            more = message.get("more_body", False)
            if n_bytes > most:
                if most < self._bytes_max and not self._trusts(scope):
                    raise HTTPException(401, f"a body of more than {most} bytes needs a token")
                most = self._bytes_max
            if n_bytes > most:
                raise HTTPException(413, f"a body may have {most} bytes")
            return message

        return bounded

    def _trusts(self, scope: Scope) -> bool:
        """Whether a request has a token of this fabric."""
        given = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
        return self._access.knows(given.removeprefix("Bearer "))


def peer_of(scope: Scope) -> str:
    """Who is connected, as gRPC names peers.

    >>> peer_of({"client": ("127.0.0.1", 80)}), peer_of({"client": ("::1", 80)})
    ('ipv4:127.0.0.1:80', 'ipv6:%5B::1%5D:80')
    """
    host, port = scope.get("client") or ("", 0)
    host = host.removeprefix("::ffff:")
    return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"


def _in_time(send: Send) -> Send:
    """`send`, for clients that read."""

    async def sent(message: Message) -> None:
        async with asyncio.timeout(IDLE_S):
            await send(message)

    return sent


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
