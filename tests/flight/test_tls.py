"""TLS between agents: with the right CA, and refused with another or none.

The certificates beside this file are for 127.0.0.1 and were made for these tests alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from fabric.errors import PeerLostError
from fabric.flight.backend import Backend
from fabric.flight.client import Client
from fabric.flight.remote import FlightTransport
from fabric.flight.server import FabricFlightServer
from fabric.flight.ticket import PartitionRequest
from tests.support.flight_rig import FlightRig

TLS = Path(__file__).parent / "tls"
ROWS = pa.table({"k": range(10)})


@pytest.fixture
def server(rig: FlightRig) -> Iterator[FabricFlightServer]:
    rig.add_edge("job-1", "n", {("a0", 0, 0): ROWS})
    backend = Backend(
        agent_id="a0",
        source=rig.sources["a0"],
        locations=rig.control.tables["a0"],
        datasets=rig.files["a0"],
        control=rig.control,
        transport=rig.transports["a0"],
    )
    pair = ((TLS / "ours.pem").read_bytes(), (TLS / "ours.key").read_bytes())
    server = FabricFlightServer(backend, rig.signer, "grpc+tls://127.0.0.1:0", tls=pair)
    yield server
    assert server.stop()


def test_agents_and_clients_talk_over_tls(rig: FlightRig, server: FabricFlightServer) -> None:
    address = f"grpc+tls://127.0.0.1:{server.port}"
    roots = (TLS / "ours.pem").read_bytes()
    transport = FlightTransport(rig.signer, tls_roots=roots, idle_s=30.0)
    request = PartitionRequest(job="job-1", edge=0, node_path="n", partition=0, producers=((0, 0),))
    got = [batch for _, batch in transport.fetch(address, request) if batch is not None]
    assert pa.Table.from_batches(got) == ROWS
    transport.close()
    with Client(address, rig.token(), tls_roots=roots) as client:
        assert client.action("healthcheck")["agent"] == "a0"


@pytest.mark.parametrize(("scheme", "roots"), [("tls", "other.pem"), ("tcp", "ours.pem")])
def test_strangers_are_refused(
    rig: FlightRig, server: FabricFlightServer, scheme: str, roots: str
) -> None:
    address = f"grpc+{scheme}://127.0.0.1:{server.port}"
    pem = (TLS / roots).read_bytes()
    with (
        Client(address, rig.token(), tls_roots=pem, idle_s=3.0) as client,
        pytest.raises(PeerLostError),
    ):
        client.action("healthcheck")
