"""A TCP proxy that breaks connections off, for tests of what a broken network leaves.

One job: `CutProxy`, which passes bytes between clients and one server and cuts each connection
after a number of bytes of the server's answers, hard (reset), as if the server had closed it, or by
falling silent.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Literal, Self

How = Literal["reset", "close", "silence"]
_RESET = struct.pack("ii", 1, 0)
_READ = 1 << 16


class CutProxy:
    """Passes connections on to ``127.0.0.1:port``; use it in a `with`.

    The n-th connection is cut after `cuts[n]` bytes of answers; later ones are never cut.
    """

    def __init__(self, port: int, cuts: Sequence[int] = (), how: How = "reset") -> None:
        self._port, self._cuts, self._how = port, list(cuts), how
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._closed = False
        self.n_connections = self.n_cut = self.n_refused = 0
        self.answered: list[int] = []
        """Bytes of answers that went through each connection."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [self._start(self._accept)]

    def lead_to(self, port: int) -> None:
        """Pass later connections on to another server."""
        self._port = port

    @property
    def address(self) -> str:
        """What Flight clients connect to."""
        return f"grpc+tcp://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            sockets = list(self._sockets)
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def _start(self, target: Callable[..., object], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        thread.start()
        return thread

    def _count(self, n: int, n_bytes: int) -> None:
        self.answered[n] += n_bytes

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                if self._closed:
                    return
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._port))
            except OSError:  # the server is gone
                self.n_refused += 1
                client.close()
                continue
            with self._lock:
                if self._closed:
                    client.close()
                    server.close()
                    return
                n, self.n_connections = self.n_connections, self.n_connections + 1
                self._sockets |= {client, server}
                self.answered.append(0)
            cut = self._cuts[n] if n < len(self._cuts) else None
            self._threads.append(self._start(self._link, client, server, n, cut))

    def _link(self, client: socket.socket, server: socket.socket, n: int, cut: int | None) -> None:
        """One connection, until it ends; sockets are closed when nobody reads them any more."""
        asking = self._start(_ask, client, server)
        if _pass(server, client, cut, partial(self._count, n)):
            self.n_cut += 1
            if self._how == "silence":
                asking.join()
            elif self._how == "reset":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                _shut(client, socket.SHUT_RD)
        else:
            _shut(client, socket.SHUT_RDWR)
        _shut(server, socket.SHUT_RDWR)
        if self._how != "reset":
            _shut(client, socket.SHUT_RDWR)
        asking.join()
        with self._lock:
            self._sockets -= {client, server}
        client.close()
        server.close()


def _pass(
    source: socket.socket,
    target: socket.socket,
    cut: int | None,
    passing: Callable[[int], None] = lambda n: None,
) -> bool:
    """Bytes from one to the other until one ends, or `cut` of them have passed: then True."""
    passed = 0
    with suppress(OSError):
        while cut is None or passed < cut:
            data = source.recv(_READ if cut is None else min(_READ, cut - passed))
            if not data:
                return False
            passing(len(data))
            target.sendall(data)
            passed += len(data)
        return True
    return False


def _ask(client: socket.socket, server: socket.socket) -> None:
    """What the client sends; its end is the server's."""
    _pass(client, server, None)
    _shut(server, socket.SHUT_RDWR)


def _shut(each: socket.socket, how: int) -> None:
    with suppress(OSError):
        each.shutdown(how)
