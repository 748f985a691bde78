"""What a coordinator process serves: gRPC, and REST with its pages.

One job: `serving`, both for as long as a context is open, over whatever answers at the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from fabric.clock import Clock
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.runtime.log import Log
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.coordinator.service.front import Front
from fabric.coordinator.service.server import ControlServer
from fabric.coordinator.submit.plan_pool import PlanPool
from fabric.security.tokens import Signer


@dataclass(frozen=True, slots=True)
class Parts:
    """What every coordinator is made with."""

    config: CoordinatorConfig
    signer: Signer
    clock: Clock
    log: Log


@contextmanager
def serving(parts: Parts, front: Front) -> Iterator[str]:
    """Gives the address of gRPC."""
    planning = PlanPool(parts.config.plan_s, parts.config.memory)
    server = ControlServer(
        front, parts.signer, parts.clock, parts.config, parts.log, planning=planning
    )
    with ExitStack() as stack:
        address = server.start()
        stack.callback(server.stop)
        metrics_url = ""
        if parts.config.metrics_port is not None:
            metrics_url = stack.enter_context(metrics_server(parts, front))
            parts.log("metrics", {"url": metrics_url})
        if parts.config.rest_port is not None:
            url = stack.enter_context(rest_server(parts, front, planning, metrics_url))
            parts.log("REST and pages", {"url": url})
        yield address


def metrics_server(parts: Parts, front: CoordinatorRuntime | Front) -> AbstractContextManager[str]:
    """Prometheus' metrics of `front` for as long as the context is open; gives their URL."""
    from fabric.coordinator.service.metrics import CoordinatorCollector
    from fabric.telemetry.metrics import metrics_served

    config = parts.config
    return metrics_served(
        CoordinatorCollector(front),
        host=config.host,
        port=config.metrics_port or 0,
        tls_certificate=config.tls_certificate,
        tls_key=config.tls_key,
        token=config.metrics_token,
    )


@contextmanager
def rest_server(
    parts: Parts, runtime: CoordinatorRuntime | Front, planning: PlanPool, metrics_url: str = ""
) -> Iterator[str]:
    """REST and pages over `runtime` for as long as the context is open; gives their URL."""
    from fabric.coordinator.rest.app import Behind
    from fabric.coordinator.rest.server import RestServer

    config = parts.config
    behind = Behind(
        runtime=runtime,
        planning=planning,
        signer=parts.signer,
        clock=parts.clock,
        log=parts.log,
        bytes_max=config.message_bytes_max,
        secure=config.tls_certificate is not None,
        metrics_url=metrics_url,
        token_file=str(config.home / "token"),
    )
    server = RestServer(
        behind,
        config.host,
        config.rest_port or 0,
        connections_max=config.connections_max,
        handshake_s=config.handshake_s,
        tls_certificate=config.tls_certificate,
        tls_key=config.tls_key,
    )
    url = server.start()
    try:
        yield url
    finally:
        server.stop()
