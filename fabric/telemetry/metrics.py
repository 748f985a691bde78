"""Metrics for Prometheus: one port a process.

One job: `metrics_served`, a small HTTP server over collectors that look at the process's state when
they are asked; nothing is counted where rows run. `prometheus_client` is imported only here, and
only when metrics are wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fabric.errors import ConfigError

if TYPE_CHECKING:
    from prometheus_client.registry import Collector


@contextmanager
def metrics_served(
    *collectors: Collector,
    host: str,
    port: int,
    tls_certificate: Path | None = None,
    tls_key: Path | None = None,
) -> Iterator[str]:
    """Serve `collectors`, and the process's own memory and CPU, while the context is open.

    Gives the URL. Names and counts, no rows, and no token is asked for: it listens where the
    process's other servers do, and with their certificate.
    """
    from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    for collector in collectors:
        registry.register(collector)
    try:
        server, thread = start_http_server(
            port,
            host,
            registry,
            certfile=str(tls_certificate) if tls_certificate else None,
            keyfile=str(tls_key) if tls_key else None,
        )
    except OSError as error:
        raise ConfigError(
            f"can't serve metrics on port {port} of {host} ({error.strerror}); choose another "
            "with --metrics-port (0: a free one, off: none)"
        ) from None
    shown = f"[{host}]" if ":" in host else host
    try:
        yield f"{'https' if tls_certificate else 'http'}://{shown}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
