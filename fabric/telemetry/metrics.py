"""Metrics for Prometheus: one port a process.

One job: `metrics_served`, a small HTTP server over collectors that look at the process's state when
they are asked; nothing is counted where rows run. Each connection is for one answer, and none waits
for another: whoever says nothing, or reads nothing, is disconnected. `prometheus_client` is
imported only here, and only when metrics are wanted.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fabric.errors import ConfigError

if TYPE_CHECKING:
    from prometheus_client.registry import Collector, CollectorRegistry

CONNECTIONS_MAX = 128
IDLE_S = 10.0
"""What a connection may take to ask, and to read its answer."""
_HEAD_BYTES_MAX = 16 << 10
_PATHS = ("/", "/metrics")


@contextmanager
def metrics_served(
    *collectors: Collector,
    host: str,
    port: int,
    tls_certificate: Path | None = None,
    tls_key: Path | None = None,
    token: Path | None = None,
) -> Iterator[str]:
    """Serve `collectors`, and the process's own memory and CPU, while the context is open.

    Gives the URL. Names and counts, no rows: it listens where the process's other servers do, and
    with their certificate. Who asks must show the text of the file `token`, if there is one.
    """
    from prometheus_client import CollectorRegistry, ProcessCollector

    from fabric._cython.shuffle.wire.admission import Admission

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    for collector in collectors:
        registry.register(collector)
    secret = _token_in(token) if token else ""
    listener = _listen(host, port)
    bound = listener.getsockname()[1]
    served = _Served(registry, secret, listener, _context(tls_certificate, tls_key))
    admission = Admission(bound, connections_max=CONNECTIONS_MAX, handshake_s=2 * IDLE_S)
    shown = f"[{host}]" if ":" in host else host
    try:
        yield f"{'https' if tls_certificate else 'http'}://{shown}:{bound}/metrics"
    finally:
        served.stop()
        admission.stop()


class _Served:
    """A thread with an event loop, until `stop`."""

    def __init__(
        self,
        registry: CollectorRegistry,
        token: str,
        listener: socket.socket,
        context: ssl.SSLContext | None,
    ) -> None:
        self._registry, self._token = registry, token.encode()
        self._listener, self._context = listener, context
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="metrics server", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Answer nobody any more."""
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        tls = {"ssl": self._context, "ssl_handshake_timeout": IDLE_S} if self._context else {}
        server = await asyncio.start_server(
            self._connected, sock=self._listener, limit=_HEAD_BYTES_MAX, backlog=CONNECTIONS_MAX,
            **tls,  # type: ignore[arg-type]
        )  # fmt: skip
        await self._over.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(IDLE_S):
                try:
                    head = await reader.readuntil(b"\r\n\r\n")
                except asyncio.LimitOverrunError:
                    head = b""
            writer.write(await self._answer(head))
            async with asyncio.timeout(IDLE_S):
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        writer.transport.abort()

    async def _answer(self, head: bytes) -> bytes:
        first, *lines = head.decode("latin-1").split("\r\n")
        method, _, rest = first.partition(" ")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if method not in ("GET", "HEAD") or not rest.endswith((" HTTP/1.1", " HTTP/1.0")):
            return _response("400 Bad Request", b"metrics are asked for by GET\n")
        if self._token and not self._knows(headers.get("authorization", "")):
            told = b"this port needs the header Authorization: Bearer <token>\n"
            return _response("401 Unauthorized", told, "WWW-Authenticate: Bearer")
        if rest.partition(" ")[0].partition("?")[0] not in _PATHS:
            return _response("404 Not Found", b"metrics are at /metrics\n")
        kind, body = await asyncio.to_thread(self._collected, headers.get("accept", ""))
        return _response("200 OK", body, kind=kind, bare=method == "HEAD")

    def _knows(self, header: str) -> bool:
        scheme, _, given = header.partition(" ")
        shown = given.strip().encode("latin-1")
        return scheme.lower() == "bearer" and hmac.compare_digest(shown, self._token)

    def _collected(self, accept: str) -> tuple[str, bytes]:
        from prometheus_client.exposition import choose_encoder

        encoder, kind = choose_encoder(accept)
        return kind, encoder(self._registry)


def _response(
    status: str, body: bytes, *headers: str, kind: str = "text/plain; charset=utf-8",
    bare: bool = False,
) -> bytes:  # fmt: skip
    lines = (
        f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}",
        "Connection: close", *headers, "", "",
    )  # fmt: skip
    return "\r\n".join(lines).encode("latin-1") + (b"" if bare else body)


def _token_in(path: Path) -> str:
    """The token that `path` holds."""
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"can't read metrics_token from {path}: {error}") from None
    if not token or not token.isprintable() or " " in token:
        raise ConfigError(f"metrics_token: {path} must hold one word, which scrapers have to show")
    return token


def _context(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(CONNECTIONS_MAX)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"can't serve metrics on port {port} of {host} ({error.strerror}); choose another "
            "with --metrics-port (0: a free one, off: none)"
        ) from None
    return listener
