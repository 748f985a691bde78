"""A registry that answers as a test says: what no real one would."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Scripted(BaseHTTPRequestHandler):
    """Answers as the test says: a registry that no real one is."""

    def do_GET(self) -> None:
        server: Any = self.server
        server.seen.append(dict(self.headers))
        status, body = server.script[min(len(server.seen), len(server.script)) - 1]
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def scripted(*script: tuple[int, bytes], tls: ssl.SSLContext | None = None) -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    server.script, server.seen = script, []
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
