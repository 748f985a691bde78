"""A plan out of the body of a request.

One job: `request_of`, and `while_wanted`, which waits for the answer as long as the client does. A
plan comes as bytes (what `fabric.plan.codec.encode` makes) or as JSON: the same message,
`plan.proto`, in protobuf's JSON form. Python source is not taken.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import HTTPException, Request
from google.protobuf.json_format import ParseDict, ParseError

from fabric.control import control_pb2 as pb
from fabric.errors import PlanError
from fabric.plan import plan_pb2

Reply = TypeVar("Reply")

LOOK_S = 0.25
GONE = 499
"""What proxies write down for such a request."""
BYTES, JSON = "application/x-protobuf", "application/json"
FIELDS = ("plan", "name", "parallelism")
SCHEMA = {
    "type": "object",
    "required": ["plan"],
    "additionalProperties": False,
    "properties": {
        "plan": {"type": "object", "description": "fabric.plan.v1.Plan in protobuf's JSON form"},
        "name": {"type": "string"},
        "parallelism": {"type": "integer", "minimum": 0},
    },
}
BODY = {
    "requestBody": {
        "required": True,
        "content": {
            BYTES: {"schema": {"type": "string", "format": "binary"}},
            JSON: {"schema": SCHEMA},
        },
    }
}
"""What OpenAPI says of it."""


def request_of(
    body: bytes, content_type: str, name: str, parallelism: int, client_key: str
) -> pb.SubmitRequest:
    """What the body and the parameters beside it ask for; `PlanError` when they make no sense."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == BYTES:
        return pb.SubmitRequest(
            plan=body, name=name, parallelism=parallelism, client_key=client_key
        )
    if kind != JSON:
        raise PlanError(f"the content type of a plan is {BYTES} or {JSON}")
    given = _object(body)
    return pb.SubmitRequest(
        plan=_plan(given.get("plan")),
        name=_text(given.get("name", name)),
        parallelism=_number(given.get("parallelism", parallelism)),
        client_key=client_key,
    )


async def while_wanted(request: Request, work: Coroutine[Any, Any, Reply]) -> Reply:
    """What `work` gives; it is cancelled when the client of `request` has gone away."""
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({task}, timeout=LOOK_S))[0]:
            if await request.is_disconnected():
                raise HTTPException(GONE, "the client gave up")
        return task.result()
    finally:
        task.cancel()


def _object(body: bytes) -> dict[str, object]:
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise PlanError("the body is not JSON") from None
    if not isinstance(given, dict):
        raise PlanError("the body must be an object with the plan under `plan`")
    if unknown := sorted(set(given) - set(FIELDS)):
        raise PlanError(f"{unknown[0][:80]!r} is not one of {', '.join(FIELDS)}")
    return given


def _plan(given: object) -> bytes:
    if not isinstance(given, dict):
        raise PlanError("`plan` must be an object: fabric.plan.v1.Plan in protobuf's JSON form")
    try:
        return ParseDict(given, plan_pb2.Plan()).SerializeToString()
    except (ParseError, RecursionError) as error:
        raise PlanError(f"the plan does not fit plan.proto: {str(error)[:300]}") from None


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise PlanError("name must be a text")
    return given


def _number(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given < 1 << 15:
        raise PlanError("parallelism must be a number, 0 or more")
    return given
