"""Errors as `application/problem+json` (RFC 9457).

One job: which status a class of ours has, and the body that tells it. Nothing but the details of a
`FabricError` leaves; an unexpected error is logged by the caller and told as "internal".
"""

from __future__ import annotations

from http import HTTPStatus

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from fabric.control.errors import to_detail
from fabric.errors import (
    AuthError,
    CancelledError,
    ExhaustedError,
    FabricError,
    NotFoundError,
    PeerLostError,
    StorageError,
    UserError,
)
from fabric.security.tokens import ScopeError

_STATUS: tuple[tuple[type[FabricError], int], ...] = (
    (ScopeError, 403),
    (AuthError, 401),
    (NotFoundError, 404),
    (CancelledError, 409),
    (UserError, 400),
    (PeerLostError, 503),
    (ExhaustedError, 503),
    (StorageError, 503),
)
MEDIA_TYPE = "application/problem+json"


def status_of(error: BaseException) -> int:
    """The HTTP status of an error.

    >>> status_of(NotFoundError("no such job")), status_of(KeyError("a bug"))
    (404, 500)
    """
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def problem(error: BaseException) -> JSONResponse:
    """The response that tells `error`."""
    detail, status = to_detail(error), status_of(error)
    where = {
        name: value for name in ("job", "node", "task", "agent") if (value := getattr(detail, name))
    }
    return response(status, detail.message, kind=detail.kind, **where)


def response(status: int, detail: str, kind: str = "", **where: str) -> JSONResponse:
    """A problem of `status`; `kind` is one of our classes, if it has one."""
    headers = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "2"}}.get(status)
    body = {
        "type": f"urn:fabric:error:{kind}" if kind else "about:blank",
        "title": kind or HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        **where,
    }
    return JSONResponse(body, status, headers, MEDIA_TYPE)


async def on_error(_: Request, error: Exception) -> JSONResponse:
    """Handler of FastAPI for what the runtime refuses, and for what nobody expected."""
    return problem(error)


async def on_http_error(_: Request, error: Exception) -> JSONResponse:
    """Handler of FastAPI for unknown paths and methods."""
    assert isinstance(error, HTTPException)
    return response(error.status_code, str(error.detail))


async def on_invalid(_: Request, error: Exception) -> JSONResponse:
    """Handler of FastAPI for parameters that don't fit; says which, but not what was given."""
    assert isinstance(error, RequestValidationError)
    wrong = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    return response(422, "; ".join(wrong)[:2000])
