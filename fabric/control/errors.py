"""Errors on their way through protobuf.

One job: a `FabricError` to an `ErrorDetail` and back. An error that is not ours leaves as an
`InternalError` naming only its class, because its text may hold a path, a value or a credential.
"""

from __future__ import annotations

from fabric.control import control_pb2 as pb
from fabric.errors import ERRORS, FabricError, InternalError

MESSAGE_CHARS_MAX = 4096
_PLACE_CHARS_MAX = 256


def to_detail(error: BaseException) -> pb.ErrorDetail:
    """What may be told about `error`.

    >>> from fabric.errors import PlanError
    >>> to_detail(PlanError("no column 'x'", node="filter_1")).node
    'filter_1'
    >>> to_detail(KeyError("secret")).message
    'unexpected KeyError; the log of the process it happened in says more'
    """
    if not isinstance(error, FabricError):
        kind = type(error).__name__
        error = InternalError(f"unexpected {kind}; the log of the process it happened in says more")
    where = error.where
    return pb.ErrorDetail(
        kind=_wire_kind(error),
        message=_clip(error.message, MESSAGE_CHARS_MAX),
        job=_clip(where.job, _PLACE_CHARS_MAX),
        node=_clip(where.node, _PLACE_CHARS_MAX),
        task=_clip(where.task, _PLACE_CHARS_MAX),
        agent=_clip(where.agent, _PLACE_CHARS_MAX),
    )


def from_detail(detail: pb.ErrorDetail) -> FabricError:
    """The error that `detail` describes; an unknown class becomes `InternalError`.

    >>> from_detail(pb.ErrorDetail(kind="PlanError", message="no column 'x'", node="filter_1"))
    PlanError("no column 'x'")
    """
    kind = ERRORS.get(detail.kind, InternalError)
    return kind(
        detail.message or "no reason was given",
        job=detail.job,
        node=detail.node,
        task=detail.task,
        agent=detail.agent,
    )


def _wire_kind(error: FabricError) -> str:
    """The name of the nearest class that the other side knows too."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in ERRORS)


def _clip(text: str, limit: int) -> str:
    clean = text.encode("utf-8", "replace").decode()
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
