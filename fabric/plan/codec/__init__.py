"""A plan as bytes and back: versioned protobuf, with sharing kept.

One job: `encode` and `decode`. Arrow types and schemas travel as IPC schema messages (which have no
body), constants as plain protobuf values: an IPC batch could be a decompression bomb. Nothing is
pickled. Bytes that are no plan are a `PlanError`, whatever they are.
"""

from __future__ import annotations

import pyarrow as pa
from google.protobuf.message import DecodeError, EncodeError

from fabric.errors import PlanError
from fabric.plan import plan_pb2 as pb
from fabric.plan.codec.reader import Reader
from fabric.plan.codec.writer import Writer
from fabric.plan.nodes import Plan
from fabric.plan.wire.tables import BYTES_MAX, VERSION

__all__ = ["BYTES_MAX", "VERSION", "decode", "encode"]


def encode(plan: Plan) -> bytes:
    """`plan` as bytes; the same plan always gives the same bytes.

    Raises
    ------
    PlanError
        If it is too large or deep, or a name or constant can't be written down.

    Examples
    --------
    >>> from fabric.plan.nodes import Limit, StageInput
    >>> plan = Plan(Limit(StageInput(0, pa.schema([("a", pa.int32())])), 3))
    >>> decode(encode(plan)) == plan
    True
    """
    try:
        data = Writer().plan(plan).SerializeToString(deterministic=True)
    except (ValueError, TypeError, ArithmeticError, EncodeError, pa.ArrowException) as error:
        raise PlanError(f"the plan can't be sent: {error}") from error
    if len(data) > BYTES_MAX:
        raise PlanError(f"the plan has {len(data)} bytes; at most {BYTES_MAX} can be sent")
    return data


def decode(data: bytes) -> Plan:
    """The plan in `data`; raises `PlanError` for anything else. Types and names are not checked."""
    if len(data) > BYTES_MAX:
        raise PlanError(f"a plan has at most {BYTES_MAX} bytes, got {len(data)}")
    message = pb.Plan()
    try:
        message.ParseFromString(bytes(data))
    except (DecodeError, ValueError):
        raise PlanError("these bytes are no plan: not the protobuf expected") from None
    if message.version != VERSION:
        raise PlanError(
            f"the plan has version {message.version}, this Fabric reads version {VERSION}; use the "
            "same release on clients, coordinator and agents"
        )
    try:
        return Reader(message).plan()
    except (ValueError, TypeError, LookupError, ArithmeticError, pa.ArrowException) as error:
        raise PlanError(f"these bytes are no plan: {str(error)[:200]}") from None
