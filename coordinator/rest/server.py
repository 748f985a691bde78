"""The thread that serves HTTP.

One job: `RestServer`, which runs uvicorn over `app.py` in a thread of its own, so that pages and
gRPC never wait for each other. Who may stay connected is counted beside it (`Admission`).
"""

from __future__ import annotations

import socket
import threading

import uvicorn

from fabric._cython.shuffle.wire.admission import Admission
from fabric.coordinator.rest.app import make_app
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.coordinator.service.front import Front, Parts
from fabric.coordinator.submit.plan_pool import PlanPool
from fabric.errors import ConfigError, InternalError

STOP_S = 2.0
"""How long requests under way may take to end when the server stops."""
KEEP_ALIVE_S = 15
"""Until an idle connection is closed; within `handshake_s`, after which it would be cut."""
_START_S = 10.0


class RestServer:
    """A server of REST and pages over `control`; `start` returns its URL."""

    def __init__(
        self,
        parts: Parts,
        control: CoordinatorRuntime | Front,
        planning: PlanPool,
        metrics_url: str = "",
    ) -> None:
        config = self._config = parts.config
        self._edge = make_app(parts, control, planning, metrics_url)
        self._server = _Quiet(
            uvicorn.Config(
                self._edge,
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="off",
                ws="none",
                loop="uvloop",
                http="h11",
                proxy_headers=False,  # the peer is who is connected
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=int(STOP_S),
                ssl_certfile=config.tls_certificate,
                ssl_keyfile=config.tls_key,
            )
        )
        self._thread: threading.Thread | None = None

    def start(self) -> str:
        """Listen; `ConfigError` when the port can't be had."""
        config, listener = self._config, self._listen()
        port = listener.getsockname()[1]
        self._edge.admission = Admission(
            port, connections_max=config.connections_max, handshake_s=config.handshake_s
        )
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="rest server", daemon=True
        )
        self._thread.start()
        if not self._server.listens.wait(_START_S):
            self.stop()
            raise InternalError("the HTTP server did not start")
        shown = f"[{config.host}]" if ":" in config.host else config.host
        return f"{'https' if config.tls_certificate else 'http'}://{shown}:{port}"

    def stop(self) -> None:
        """End all requests and the thread."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._edge.admission is not None:
            self._edge.admission.stop()

    def _listen(self) -> socket.socket:
        host, port = self._config.host, self._config.rest_port or 0
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(128)
        except OSError as error:
            listener.close()
            raise ConfigError(
                f"can't serve REST and pages on port {port} of {host} "
                f"({error.strerror}); choose another with --rest-port or "
                "FABRIC_COORDINATOR_REST_PORT (0: a free one, off: none)"
            ) from None
        return listener


class _Quiet(uvicorn.Server):
    """Says when it listens, to a waiting thread instead of a log."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self.listens.set()
