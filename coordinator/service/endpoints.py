"""What a coordinator process serves: gRPC, REST with its pages, metrics.

One job: `serving`, all of them for as long as a context is open, over whatever answers at the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from fabric.coordinator.service.front import Front, Parts
from fabric.coordinator.service.server import ControlServer
from fabric.coordinator.submit.plan_pool import PlanPool


@contextmanager
def serving(parts: Parts, front: Front) -> Iterator[str]:
    """Gives the address of gRPC."""
    config = parts.config
    planning = PlanPool(config.plan_s, config.memory)
    server = ControlServer(parts, front, planning)
    with ExitStack() as stack:
        address = server.start()
        stack.callback(server.stop)
        metrics_url = ""
        if config.metrics_port is not None:
            from fabric.coordinator.service.metrics import CoordinatorCollector
            from fabric.telemetry.metrics import metrics_served

            metrics = metrics_served(
                CoordinatorCollector(front),
                host=config.host,
                port=config.metrics_port,
                tls_certificate=config.tls_certificate,
                tls_key=config.tls_key,
                token=config.metrics_token,
            )
            metrics_url = stack.enter_context(metrics)
            parts.log("metrics", {"url": metrics_url})
        if config.rest_port is not None:
            from fabric.coordinator.rest.server import RestServer

            rest = RestServer(parts, front, planning, metrics_url)
            stack.callback(rest.stop)
            parts.log("REST and pages", {"url": rest.start()})
        yield address
