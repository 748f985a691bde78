"""The thread that serves gRPC.

One job: `ControlServer`, which runs the event loop (uvloop) of `calls.py` in a thread of its own,
so that the process's main thread stays free for signals.
"""

from __future__ import annotations

import asyncio
import threading

import grpc
import uvloop

from fabric._cython.shuffle.wire.admission import Admission, surge
from fabric.control.rpc import server_options
from fabric.coordinator.service.auth import AuthInterceptor
from fabric.coordinator.service.calls import ControlService
from fabric.coordinator.service.front import Front, Parts
from fabric.coordinator.submit.plan_pool import PlanPool
from fabric.errors import ConfigError
from fabric.security.tls import read_pair

STOP_S = 2.0
"""How long calls under way may take to end when the server stops."""


class ControlServer:
    """A server for `front`; `start` returns its address."""

    def __init__(self, parts: Parts, front: Front, planning: PlanPool | None = None) -> None:
        """`planning` is shared with other servers; without it this one has its own."""
        config = self._config = parts.config
        self._planning = planning or PlanPool(config.plan_s, config.memory)
        self._service = ControlService(
            front, parts.log, self._planning, encrypted=config.tls_certificate is not None
        )
        self._auth = AuthInterceptor(parts.signer, parts.clock, parts.log)
        self._loop = uvloop.new_event_loop()
        self._ready = threading.Event()
        self._address = ""
        self._failure: Exception | None = None
        self._stopped: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="control server", daemon=True)

    def start(self) -> str:
        """Listen; returns the address for clients. `ConfigError` when it can't be had."""
        self._config.check_bind()
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self._address

    def stop(self) -> None:
        """End all calls and the thread."""
        if self._stopped is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
        if self._thread.is_alive():
            self._thread.join()
        self._planning.close()
        self._service.close()
        self._auth.close()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except Exception as error:
            self._failure = error
        finally:
            self._loop.close()
            self._ready.set()

    async def _serve(self) -> None:
        self._stopped = asyncio.Event()
        config = self._config
        options = server_options(
            config.message_bytes_max, surge(config.connections_max), config.handshake_s
        )
        server = grpc.aio.server(interceptors=(self._auth,), options=options)
        server.add_generic_rpc_handlers((self._service.handler(),))
        host, port = config.host, config.port
        shown = f"[{host}]" if ":" in host else host
        try:
            bound = self._bind(server, f"{shown}:{port}")
        except RuntimeError:
            raise ConfigError(
                f"can't listen on {shown}:{port}; is another coordinator running there? port 0 "
                "takes a free one"
            ) from None
        # Agents that wait for this port come at once, so this counts before the server begins.
        self._auth.admission = Admission(
            bound, connections_max=config.connections_max, handshake_s=config.handshake_s
        )
        self._address = f"{self._config.scheme}{self._config.advertise or shown}:{bound}"
        await server.start()
        self._ready.set()
        await self._stopped.wait()
        await server.stop(STOP_S)

    def _bind(self, server: grpc.aio.Server, address: str) -> int:
        """Listen on one address; returns the port."""
        certificate, key = self._config.tls_certificate, self._config.tls_key
        if certificate is None or key is None:
            return server.add_insecure_port(address)
        chain, private = read_pair(certificate, key)
        credentials = grpc.ssl_server_credentials([(private, chain)])
        return server.add_secure_port(address, credentials)
