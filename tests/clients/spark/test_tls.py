"""TLS and mutual TLS by options: Spark's workers read and write, strangers are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from fabric.clients.demo.checksum import checksum
from fabric.flight.backend import Backend
from fabric.flight.server import FabricFlightServer
from tests.support.flight_rig import FlightRig

TLS = Path(__file__).parents[2] / "flight" / "tls"
OURS, KEY, OTHER = (str(TLS / name) for name in ("ours.pem", "ours.key", "other.pem"))
ROWS = pa.table({"k": range(100), "v": [f"v{n}" for n in range(100)]})


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Address and token of an agent that is only to be found behind TLS."""
    with FlightRig(tmp_path, 1) as rig:
        backend = Backend(
            agent_id="a0",
            source=rig.sources["a0"],
            locations=rig.control.tables["a0"],
            datasets=rig.files["a0"],
            control=rig.control,
            transport=rig.transports["a0"],
        )
        pair = (Path(OURS).read_bytes(), Path(KEY).read_bytes())
        server = FabricFlightServer(backend, rig.signer, "grpc+tls://127.0.0.1:0", tls=pair)
        address = f"grpc+tls://127.0.0.1:{server.port}"
        rig.control.addresses = {"a0": address}
        rig.control.push()
        yield address, rig.token("write")
        assert server.stop()


def test_write_and_read_over_tls(
    encrypted: tuple[str, str], connector: Any, tmp_path: Path
) -> None:
    address, token = encrypted
    (tmp_path / "token").write_text(f"{token}\n")
    secrets = {"token": "", "token_file": str(tmp_path / "token"), "tls_ca": OURS}
    connector.save(ROWS, "d", url=address, keys="k", **secrets)
    frame = connector.load(dataset="d", url=address, **secrets)
    assert checksum(frame.toArrow()) == checksum(ROWS)
    for ca in ({"tls_ca": OTHER}, {}):
        with pytest.raises(Exception, match="was signed by nobody among the roots"):
            connector.load(dataset="d", url=address, token=token, timeout_s="5", **ca)


class Wary(flight.FlightServerBase):  # type: ignore[misc]
    """A server that asks its clients for a certificate."""

    def get_flight_info(self, context: Any, descriptor: Any) -> flight.FlightInfo:
        ends = [flight.FlightEndpoint(b"all", [])]
        return flight.FlightInfo(ROWS.schema, descriptor, ends, -1, -1)

    def do_get(self, context: Any, ticket: Any) -> flight.RecordBatchStream:
        assert context.peer_identity()
        return flight.RecordBatchStream(ROWS)


def test_mutual_tls(connector: Any) -> None:
    certificate, key = Path(OURS).read_bytes(), Path(KEY).read_bytes()
    server = Wary(
        "grpc+tls://127.0.0.1:0",
        tls_certificates=[(certificate, key)],
        verify_client=True,
        root_certificates=certificate,
    )
    with server:
        here = {"url": f"grpc+tls://127.0.0.1:{server.port}", "token": "", "descriptor": '["x"]'}
        identity = {"tls_ca": OURS, "tls_cert": OURS, "tls_key": KEY}
        assert checksum(connector.load(**here, **identity).toArrow()) == checksum(ROWS)
        with pytest.raises(Exception, match="if it asks its clients for a certificate"):
            connector.load(**here, tls_ca=OURS, timeout_s="5")
