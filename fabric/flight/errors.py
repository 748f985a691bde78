"""Errors over Flight: a status class for any client, and the whole error for ours.

One job: `FabricError` to a Flight error with an `ErrorDetail` in `extra_info`, and back. Which
Flight status tells what, for clients in any language:

    UNAUTHENTICATED  no token, or not one of this fabric      UNAVAILABLE  try again later
    UNAUTHORIZED     the token's scope does not suffice       INTERNAL     a bug of ours
    UNKNOWN          everything the caller can mend; the text says how

CANCELLED is never sent: pyarrow clients turn it into a KeyboardInterrupt of the whole process.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.flight as fl
from google.protobuf.message import DecodeError

from fabric._cython.shuffle.wire import faults
from fabric.control.control_pb2 import ErrorDetail, ErrorFrame
from fabric.control.errors import from_detail, to_detail
from fabric.errors import (
    ERRORS,
    AuthError,
    CancelledError,
    DataError,
    ExternalError,
    FabricError,
    InternalError,
    NotFoundError,
    PeerLostError,
)
from fabric.security.tokens import ScopeError

# What pyarrow and gRPC put behind a server's own words.
_CLUTTER = re.compile(
    r"(\. Detail: |\. gRPC client debug context: | Client context: ).*", re.DOTALL
)
_FRAME_CODE = b"\x08"
_LEAD = re.compile(r"^(Flight returned [a-z ]+ error, with message: |Unknown error: |IOError: )+")

_BY_CLASS: tuple[tuple[type[BaseException], type[FabricError]], ...] = (
    (fl.FlightUnauthenticatedError, AuthError),
    (fl.FlightUnauthorizedError, AuthError),
    (fl.FlightUnavailableError, PeerLostError),
    (fl.FlightTimedOutError, PeerLostError),
    (fl.FlightCancelledError, CancelledError),
    (pa.ArrowKeyError, NotFoundError),
    (pa.ArrowInvalid, DataError),
)


def told(error: BaseException) -> tuple[str, str, bytes]:
    """What may leave of an error of Python: text, the kind that names the Flight status, detail.

    An error that is not ours is logged here and leaves as an internal one without its text.

    >>> told(NotFoundError("no such job"))[:2]
    ('NotFoundError: no such job', 'UserError')
    """
    if not isinstance(error, FabricError):
        from fabric.telemetry.logs import logger  # a server's part: clients start without it

        logger("fabric.flight").error("unexpected error in a Flight call", exc_info=error)
    detail = to_detail(error)
    return f"{detail.kind}: {detail.message}", _status(error), detail.SerializeToString()


def from_flight(error: BaseException, *, agent: str = "") -> FabricError:
    """What a Flight client's exception says, as one of our errors; `agent` fills in the place."""
    if isinstance(error, FabricError):
        return error.at(agent=agent)
    extra = getattr(error, "extra_info", None)
    if extra and (detail := _detail(extra)) is not None:
        return from_detail(detail).at(agent=agent)
    kind = next((ours for theirs, ours in _BY_CLASS if isinstance(error, theirs)), ExternalError)
    text = plain_text(error)
    if kind is PeerLostError:
        text = f"no answer ({text}); is the agent still running?"
    return kind(text, agent=agent)


def is_told(error: FabricError) -> bool:
    """Whether a fabric's agent said so itself, and not Arrow, gRPC or any other server."""
    extra: bytes | None = getattr(error.__cause__, "extra_info", None)
    return bool(extra and _detail(extra))


def from_status(text: str, detail: bytes) -> FabricError:
    """What a status of the native data plane says: `ErrorDetail` bytes, or Arrow's own words."""
    if detail and (known := _detail(detail)) is not None:
        return from_detail(known)
    return from_flight(_status_error(text))


def _status_error(text: str) -> BaseException:
    """An exception of the class that Arrow's own status text begins with."""
    words = plain_text(OSError(text))
    if "Flight returned" in text or "gRPC returned" in text:
        for code, kind in _BY_CODE.items():
            if f" {code} error" in text:
                return kind(words)  # type: ignore[no-any-return]
    return pa.ArrowInvalid(words) if text.startswith("Invalid") else OSError(words)


_BY_CODE: dict[str, type[fl.FlightError]] = {
    "unavailable": fl.FlightUnavailableError,
    "timeout": fl.FlightTimedOutError,
    "cancelled": fl.FlightCancelledError,
    "unauthenticated": fl.FlightUnauthenticatedError,
    "unauthorized": fl.FlightUnauthorizedError,
}


def plain_text(error: BaseException) -> str:
    """The words of a pyarrow error without pyarrow's and gRPC's wrapping.

    >>> plain_text(OSError("Flight returned unavailable error, with message: no. Detail: x"))
    'no'
    """
    text = _LEAD.sub("", _CLUTTER.sub("", str(error))).strip()
    return text or type(error).__name__


def _status(error: BaseException) -> str:
    """A kind whose Flight status (`fault.hpp`) tells a foreign client most about `error`."""
    if isinstance(error, ScopeError):
        return "ScopeError"
    if isinstance(error, AuthError):
        return "AuthError"
    if isinstance(error, ExternalError) and error.retryable:
        return "PeerLostError"
    if isinstance(error, InternalError) or not isinstance(error, FabricError):
        return "InternalError"
    return "UserError"


def _detail(extra: bytes) -> ErrorDetail | None:
    """The detail in its frame (`fault.hpp`), or alone."""
    try:
        frame = ErrorFrame.FromString(extra) if extra.startswith(_FRAME_CODE) else None
        detail = ErrorDetail.FromString(frame.details[0].value if frame else extra)
    except (DecodeError, IndexError):
        return None
    return detail if detail.kind in ERRORS else None


faults.install(from_status=from_status, told=told)
