from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

from fabric.testing.flight_rig import FlightRig

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
                list(call(iter(messages), metadata=metadata, timeout=10.0))
            except grpc.RpcError as error:
                return error
        return None

    return put


def field(number: int, value: bytes) -> bytes:
    """One length-delimited protobuf field."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


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


def ipc(batch: pa.RecordBatch) -> list[pa.Message]:
    """Schema, dictionaries and rows of `batch` as IPC messages."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    reader = pa.MessageReader.open_stream(sink.getvalue())
    return list(reader)


@pytest.fixture
def wire() -> tuple[Callable[..., bytes], Callable[[pa.RecordBatch], list[pa.Message]]]:
    """`flight_data` and `ipc`: pytest's importlib mode has no import between test files."""
    return flight_data, ipc
