"""The application: API, pages, health.

One job: put the parts together. ``/docs`` is made here from ``/openapi.json``; nothing is loaded
from elsewhere.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response

from fabric.clock import Clock
from fabric.coordinator.rest import api, pages
from fabric.coordinator.rest.access import Access
from fabric.coordinator.rest.edge import HEALTH, Edge
from fabric.coordinator.rest.problems import on_error, on_http_error, on_invalid, problem
from fabric.coordinator.runtime.log import Log
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.coordinator.service.front import Front
from fabric.coordinator.submit.plan_pool import PlanPool
from fabric.errors import FabricError, NotFoundError, NotLeaderError
from fabric.security.tokens import Signer
from fabric.version import __version__

ABOUT = "Jobs, tasks, agents, plans and events of a fabric. Times are seconds since 1970, UTC."


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """What the application stands on.

    `metrics_url` is "" when no metrics are served; plans are prepared in `planning`.
    """

    runtime: CoordinatorRuntime | Front
    signer: Signer
    clock: Clock
    log: Log
    bytes_max: int
    secure: bool
    planning: PlanPool = field(default_factory=PlanPool)
    metrics_url: str = ""
    token_file: str = pages.DEFAULT_TOKEN_FILE


def make_app(behind: Behind) -> Edge:
    """The ASGI application over a runtime."""
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
    access = Access(behind.signer, behind.clock, behind.log, secure=behind.secure)
    app.include_router(api.router(behind.runtime, access, behind.planning))
    _health(app, behind)
    app.include_router(pages.router(behind.runtime, access, app, token_file=behind.token_file))
    return Edge(app, behind.bytes_max, behind.log, access)


def _health(app: FastAPI, behind: Behind) -> None:
    @app.get(HEALTH, summary="Is it alive?", tags=["health"])
    async def alive() -> Response:
        try:
            await asyncio.to_thread(behind.runtime.check)  # not in a thread that requests wait for
        except NotLeaderError:  # another leads: nothing is wrong with this one
            return JSONResponse({"status": "standby"})
        except FabricError as error:
            return problem(error)
        return JSONResponse({"status": "ok"})

    @app.get("/readyz", summary="Does it take jobs?", tags=["health"])
    def ready() -> Response:
        try:
            behind.runtime.check()
        except FabricError as error:
            return problem(error)
        return JSONResponse({"status": "ok", "epoch": behind.runtime.epoch})

    @app.get("/metrics", summary="Where Prometheus finds its metrics", tags=["health"])
    def metrics() -> Response:
        if not behind.metrics_url:
            raise NotFoundError(
                "no metrics are served; start the coordinator with --metrics-port 9090"
            )
        return RedirectResponse(behind.metrics_url)
