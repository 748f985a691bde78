"""The application: API, pages, health.

One job: put the parts together. ``/docs`` is made here from ``/openapi.json``; nothing is loaded
from elsewhere.
"""

from __future__ import annotations

import asyncio

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response

from fabric.coordinator.rest import api, pages
from fabric.coordinator.rest.access import Access
from fabric.coordinator.rest.edge import HEALTH, Edge
from fabric.coordinator.rest.problems import on_error, on_http_error, on_invalid, problem
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.coordinator.service.front import Front, Parts
from fabric.coordinator.submit.plan_pool import PlanPool
from fabric.errors import FabricError, NotFoundError, NotLeaderError
from fabric.version import __version__

ABOUT = "Jobs, tasks, agents, plans and events of a fabric. Times are seconds since 1970, UTC."


def make_app(
    parts: Parts, control: CoordinatorRuntime | Front, planning: PlanPool, metrics_url: str
) -> Edge:
    """The ASGI application over `control`, which prepares plans in `planning`.

    `metrics_url` is "" when no metrics are served.
    """
    config = parts.config
    app = FastAPI(
        title="Fabric",
        version=__version__,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        exception_handlers={
            Exception: on_error,
            FabricError: on_error,
            HTTPException: on_http_error,
            RequestValidationError: on_invalid,
        },
    )
    access = Access(parts.signer, parts.clock, parts.log, secure=config.tls_certificate is not None)
    app.include_router(api.router(control, access, planning))
    _health(app, control, metrics_url)
    token_file = str(config.home / "token")
    app.include_router(pages.router(control, access, app, token_file=token_file))
    return Edge(app, config.message_bytes_max, parts.log, access)


def _health(app: FastAPI, control: CoordinatorRuntime | Front, metrics_url: str) -> None:
    @app.get(HEALTH, summary="Is it alive?", tags=["health"])
    async def alive() -> Response:
        try:
            await asyncio.to_thread(control.check)  # not in a thread that requests wait for
        except NotLeaderError:  # another leads: nothing is wrong with this one
            return JSONResponse({"status": "standby"})
        except FabricError as error:
            return problem(error)
        return JSONResponse({"status": "ok"})

    @app.get("/readyz", summary="Does it take jobs?", tags=["health"])
    def ready() -> Response:
        try:
            control.check()
        except FabricError as error:
            return problem(error)
        return JSONResponse({"status": "ok", "epoch": control.epoch})

    @app.get("/metrics", summary="Where Prometheus finds its metrics", tags=["health"])
    def metrics() -> Response:
        if not metrics_url:
            raise NotFoundError(
                "no metrics are served; start the coordinator with --metrics-port 9090"
            )
        return RedirectResponse(metrics_url)
