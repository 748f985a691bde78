from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

from tests.support.by_hand import field, ipc_messages
from tests.support.flight_rig import FlightRig

RawPut = Callable[..., grpc.RpcError | None]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[FlightRig]:
    with FlightRig(tmp_path) as rig:
        yield rig


@pytest.fixture
def raw_put(rig: FlightRig) -> RawPut:
    """DoPut of hand-made messages: what no well-meaning client library would send."""

    def put(messages: Sequence[bytes], scope: str = "write") -> grpc.RpcError | None:
        address = rig.address().removeprefix("grpc+tcp://")
        metadata = [("authorization", f"Bearer {rig.token(scope)}")]  # type: ignore[arg-type]
        with grpc.insecure_channel(address) as channel:
            call = channel.stream_stream("/arrow.flight.protocol.FlightService/DoPut")
            try:
                list(call(iter(messages), metadata=metadata, timeout=60))
            except grpc.RpcError as error:
                return error
        return None

    return put


def flight_data(
    message: pa.Message | None = None,
    path: Sequence[str] = (),
    *,
    header: bytes | None = None,
    body: bytes | None = None,
    metadata: bytes = b"",
) -> bytes:
    """A FlightData; `header` and `body` stand in for those of an IPC `message`."""
    if message is not None:
        header = message.metadata.to_pybytes() if header is None else header
        if body is None:
            body = message.body.to_pybytes() if message.body is not None else b""
    descriptor = b"\x08\x01" + b"".join(field(3, p.encode()) for p in path)
    out = field(1, descriptor) if path else b""
    out += field(2, header) if header is not None else b""
    out += field(3, metadata) if metadata else b""
    return out + (field(1000, body) if body is not None else b"")


@pytest.fixture
def wire() -> tuple[Callable[..., bytes], Callable[[pa.RecordBatch], list[pa.Message]]]:
    """`flight_data` and `ipc_messages`: pytest's importlib mode has no imports between tests."""
    return flight_data, ipc_messages
