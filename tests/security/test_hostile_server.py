"""A Flight server that answers with every order of messages: whoever reads it lives on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pyarrow as pa
import pytest

from tests.support.by_hand import field, ipc_messages

SERVICE = "arrow.flight.protocol.FlightService"
WORDS = pa.array(["a", "b", "a"]).dictionary_encode()
KINDS = [
    *(
        field(2, message.metadata.to_pybytes())
        + field(1000, message.body.to_pybytes() if message.body is not None else b"")
        for message in ipc_messages(pa.record_batch({"d": WORDS, "e": WORDS}))
    ),
    field(3, b"metadata only"), field(1000, b"a body only"), b"",
]  # fmt: skip
READER = """
import itertools, sys
from fabric.errors import DataError
from fabric.flight.client import Client

n_read = n_refused = 0
with Client(f"grpc+tcp://127.0.0.1:{sys.argv[1]}") as client:
    for n in range(5):
        for order in itertools.product(range(int(sys.argv[2])), repeat=max(0, n - 1)):
            ticket = bytes((0, *order)) if n else b""
            try:
                n_read += sum(batch.num_rows for batch in client.read_endpoint(ticket))
            except DataError:
                n_refused += 1
print(n_read > 0, n_refused > 0)
"""


@pytest.fixture
def port() -> Iterator[int]:
    def get(request: bytes, _context: Any) -> Iterator[bytes]:
        return iter([KINDS[n] for n in request[2:]])

    calls = {"DoGet": grpc.unary_stream_rpc_method_handler(get)}
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, calls),))
    found = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield found
    server.stop(None).wait()


def test_every_order_of_messages_is_read_or_refused(port: int) -> None:
    reader = subprocess.run(
        [sys.executable, "-c", READER, str(port), str(len(KINDS))],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (reader.returncode, reader.stdout) == (0, "True True\n"), reader.stderr
