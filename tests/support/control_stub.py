"""The control service for tests: each of its calls by name, and servers of a few of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import grpc
from google.protobuf.message_factory import GetMessageClass

from fabric.control.api import SERVICE
from fabric.control.rpc import to_bytes


def control_stub(channel: grpc.Channel) -> Any:
    """Has a call for every rpc: ``control_stub(channel).ListJobs(request, metadata=...)``."""
    return SimpleNamespace(**{rpc.name: _call(channel, rpc) for rpc in SERVICE.methods})


def add_control(servicer: object, server: grpc.Server) -> None:
    """Answer the calls that `servicer` has methods for."""
    handlers = {
        rpc.name: getattr(grpc, f"{_shape(rpc)}_rpc_method_handler")(
            getattr(servicer, rpc.name), GetMessageClass(rpc.input_type).FromString, to_bytes
        )
        for rpc in SERVICE.methods
        if hasattr(servicer, rpc.name)
    }
    handler = grpc.method_handlers_generic_handler(SERVICE.full_name, handlers)
    server.add_generic_rpc_handlers((handler,))


def _call(channel: grpc.Channel, rpc: Any) -> Any:
    reply = GetMessageClass(rpc.output_type).FromString
    return getattr(channel, _shape(rpc))(f"/{SERVICE.full_name}/{rpc.name}", to_bytes, reply)


def _shape(rpc: Any) -> str:
    names = (
        "stream" if streams else "unary" for streams in (rpc.client_streaming, rpc.server_streaming)
    )
    return "_".join(names)
