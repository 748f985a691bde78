"""The Flight server of an agent: every verb, for agents and for any other client.

One job: build the native server (`fabric/_cython/shuffle/flight`) over an agent's parts. It asks
back only what `handlers.py` answers; rows, lists, infos and polls never wait for Python.
"""

from __future__ import annotations

import weakref
from pathlib import Path

from fabric._cython.shuffle.datasets.puts import serve_datasets
from fabric._cython.shuffle.flight.handlers import HandlerSet, serve_store
from fabric._cython.shuffle.flight.server import NativeServer
from fabric._cython.shuffle.store.store import Store
from fabric.clock import Clock, SystemClock
from fabric.config import Limits
from fabric.flight.actions import Actions
from fabric.flight.backend import Backend, streams_of
from fabric.flight.directory import Puts
from fabric.flight.handlers import Adapted, Answers, adapt
from fabric.flight.remote import FlightTransport
from fabric.security.tokens import Signer


class FabricFlightServer:
    """Serves `backend` at `location` from its construction on; end it with `stop`.

    Port 0 takes a free one, `port` tells which. `tls` is (certificate, key) in PEM; the location is
    then ``grpc+tls://host:port``. `limits` bound what clients may ask. A
    lossless tap that holds its job up for `idle_s` is cut.
    """

    def __init__(
        self,
        backend: Backend,
        signer: Signer,
        location: str = "grpc+tcp://127.0.0.1:0",
        *,
        clock: Clock | None = None,
        ticket_s: float = 3600.0,
        limits: Limits | None = None,
        version: str = "",
        tls: tuple[bytes, bytes] | None = None,
        idle_s: float = 30.0,
    ) -> None:
        clock = clock or SystemClock()
        puts = Puts(backend)
        answers = Answers(backend, signer, clock, Actions(backend, puts, version))
        handlers = HandlerSet()
        adapt(handlers, Adapted(backend))
        serve_datasets(
            handlers, puts, backend.datasets.native, backend.locations.native, backend.agent_id
        )
        backend.exchanges.serve(handlers, idle_s)
        if isinstance(backend.source, Store):
            serve_store(handlers, backend.source)
        backend.exchanges.serve_taps(handlers, backend.locations.native, idle_s)
        if isinstance(backend.transport, FlightTransport):
            backend.transport.pass_on(handlers)
        self._streams = streams_of(backend.agent_id)
        self._native = NativeServer(
            answers,
            handlers,
            backend.locations.native,
            agent_id=backend.agent_id,
            location=location,
            ticket_key=signer.key("ticket"),
            ticket_s=ticket_s,
            limits=limits or Limits(),
            own_clock=not isinstance(clock, SystemClock),
            tls=tls,
            streams=self._streams.puts,
        )
        # Threads of the server ask Python: none may be left when the interpreter ends.
        self._end = weakref.finalize(self, self._native.stop, 0.0)

    def listen(self, path: Path) -> None:
        """Answer at a Unix socket as well; `StorageError` when it can't be made."""
        self._native.listen(str(path))
        path.chmod(0o600)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._native.port

    @property
    def n_open(self) -> int:
        """Calls that are open now."""
        return self._native.n_open

    @property
    def n_changes(self) -> int:
        """Grows when a stream of rows begins or ends."""
        return self._native.n_changes

    def refuse_calls(self) -> None:
        """Refuse new calls from now on; open streams end at their next message."""
        self._native.refuse_calls()

    def set_streams_max(self, most: int) -> None:
        """How many calls may be open at once."""
        self._native.set_streams_max(most)

    def stop(self, grace_s: float = 5.0) -> bool:
        """Refuse new calls, let open ones end for `grace_s`; whether all did.

        Afterwards open calls are broken off; it returns within about twice `grace_s` whatever
        clients do. What still waits in Python then goes on in a thread, and the process should end.
        """
        self._end.detach()
        return self._native.stop(grace_s)
