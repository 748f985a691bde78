"""TLS gone wrong: each reason by a sentence of its own, at the start and at a connection."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

import fabric
from fabric.agent.process.service import AgentProcess
from fabric.clock import SystemClock
from fabric.config import AgentConfig
from fabric.control import control_pb2 as pb
from fabric.control.client import GrpcControl
from fabric.control.grpc_link import GrpcLink
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.main import run_coordinator
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.coordinator.service.front import Front, Parts
from fabric.coordinator.service.server import ControlServer
from fabric.errors import AuthError, ConfigError, PeerLostError
from fabric.flight.client import Client
from fabric.flight.remote import FlightTransport
from fabric.flight.ticket import PartitionRequest
from fabric.security.tls import TlsError, check_clear, place_of, read_pair
from fabric.security.tokens import Signer
from tests.support.certificates import Issuer

SIGNER = Signer(b"s" * 32)
CLOCK = SystemClock()
DAY = timedelta(days=1)
TIMES = {
    "good": (-DAY, DAY),
    "expired": (-3 * DAY, -DAY),
    "not yet": (DAY, 3 * DAY),
}


class Certificates:
    """What an issuer makes, each once."""

    def __init__(self, folder: Path) -> None:
        self.issuer, self.other = Issuer(folder / "one"), Issuer(folder / "other")
        self.roots = self.issuer.roots.read_bytes()
        self.pairs = {
            name.replace(" ", "_"): self.issuer.make(
                name.replace(" ", "_"), begins=begins, ends=ends
            )
            for name, (begins, ends) in TIMES.items()
        }
        self.pairs["elsewhere"] = self.issuer.make("elsewhere", ("DNS:elsewhere.example",))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


# ---- at the start


def spoilt(made: Certificates, what: str, folder: Path) -> tuple[Path, Path]:
    """A certificate and a key with something wrong."""
    certificate, key = made.pairs[what if what in made.pairs else "good"]
    copy = folder / "the.key"
    copy.write_bytes(key.read_bytes())
    copy.chmod(0o600)
    match what:
        case "readable":
            copy.chmod(0o604)
        case "of the group":
            copy.chmod(0o640)
        case "another":
            copy.write_bytes(made.pairs["elsewhere"][1].read_bytes())
        case "no key":
            copy.unlink()
        case "no certificate":
            return folder / "gone.pem", copy
        case "nonsense":
            copy.write_text("not a key")
    return certificate, copy


STARTS = {
    "expired": r"the certificate .*expired\.pem expired at 20..-..-.. .* UTC; put a new one",
    "not_yet": r"the certificate .*not_yet\.pem is not valid before .*; is the clock right\?",
    "readable": r"the key .*the\.key can be read or written by others .* 0604; run: chmod 600",
    "of the group": r"the key .*the\.key can be read or written by others .* 0640; run: chmod 600",
    "another": r"good\.pem and .*the\.key don't belong together",
    "no key": r"can't read .*the\.key: No such file",
    "no certificate": r"can't read .*gone\.pem: No such file",
    "nonsense": r"the\.key holds no certificate or key in PEM format",
}


@pytest.mark.parametrize("what", STARTS)
def test_nothing_starts_with_bad_files(made: Certificates, tmp_path: Path, what: str) -> None:
    certificate, key = spoilt(made, what, tmp_path)
    with pytest.raises(ConfigError, match=STARTS[what]):
        run_coordinator(
            CoordinatorConfig(
                home=tmp_path / "home", port=0, rest_port=None, tls_certificate=certificate,
                tls_key=key,
            ),
        )  # fmt: skip
    config = AgentConfig(
        home=tmp_path / "home",
        tls_certificate=certificate,
        tls_key=key,
        coordinator="grpc+tls://127.0.0.1:1",
    )
    with ExitStack() as stack, pytest.raises(ConfigError, match=STARTS[what]):
        AgentProcess(config, stack)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to own files as somebody else")
def test_a_key_of_root_may_be_its_groups(
    made: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = spoilt(made, "of the group", tmp_path)
    monkeypatch.setattr("fabric.security.tls.os.geteuid", lambda: 1000)
    assert read_pair(certificate, key)
    key.chmod(0o644)
    with pytest.raises(ConfigError, match="can be read or written by others"):
        read_pair(certificate, key)


# ---- at a connection


@pytest.fixture(scope="module")
def serve(made: Certificates) -> Iterator[Callable[[str], int]]:
    """The port of a Flight server with a certificate, or with none."""
    servers: dict[str, Any] = {}

    def start(name: str) -> int:
        if name not in servers:
            tls: dict[str, Any] = {}
            if name in made.pairs:
                certificate, key = made.pairs[name]
                tls["tls_certificates"] = [(certificate.read_bytes(), key.read_bytes())]
            if name == "wary":
                certificate, key = made.pairs["good"]
                tls["tls_certificates"] = [(certificate.read_bytes(), key.read_bytes())]
                tls |= {"verify_client": True, "root_certificates": made.roots}
            scheme = "grpc+tls" if tls else "grpc+tcp"
            servers[name] = fl.FlightServerBase(f"{scheme}://127.0.0.1:0", **tls)
        return int(servers[name].port)

    yield start
    for server in servers.values():
        server.shutdown()


CONNECTIONS = {
    "expired": ("expired", "ours", r"the certificate of grpc\+tls://127\.0\.0\.1:\d+ has expired"),
    "not yet valid": ("not_yet", "ours", r"certificate of .* is not valid yet; are the clocks"),
    "wrong host": ("elsewhere", "ours", r"certificate of .* is not for '127\.0\.0\.1'; use a name"),
    "unknown issuer": ("good", "other", r"signed by nobody among the roots that were given"),
    "no roots": ("good", "none", r"signed by nobody among the roots that this system trusts"),
    "server without TLS": ("plain", "ours", r"the server at 127\.0\.0\.1:\d+ speaks no TLS"),
    "client without TLS": (
        "good", "clear", r"the server at 127\.0\.0\.1:\d+ speaks TLS and the address does not; "
        r"write fabric\+tls://127",
    ),
    "no certificate of the client": (
        "wary", "ours", r"127\.0\.0\.1:\d+ ends connections .*; if it asks its clients for",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CONNECTIONS)
def test_a_connection_that_fails_says_why(made: Certificates, serve: Any, what: str) -> None:
    name, trusted, sentence = CONNECTIONS[what]
    place = f"127.0.0.1:{serve(name)}"
    roots = {"ours": made.roots, "other": made.other.roots.read_bytes()}.get(trusted)
    address = place if trusted == "clear" else f"grpc+tls://{place}"
    flight = f"grpc+tcp://{place}" if trusted == "clear" else address
    with (
        Client(flight, "x", tls_roots=roots, idle_s=3.0) as client,
        pytest.raises(TlsError, match=sentence),
    ):
        client.action("healthcheck")
    if name == "wary":
        return  # a coordinator asks nobody for certificates
    with (
        closing(GrpcControl(address, "x", tls_roots=roots, connect_s=5.0)) as control,
        pytest.raises(TlsError, match=sentence),
    ):
        control.list_agents(pb.ListRequest())
    link = GrpcLink(address, "x", tls_roots=roots, connect_s=5.0)
    with pytest.raises(TlsError, match=sentence):
        link.open(pb.Hello(agent_id="a"), lambda _: None, lambda _: None)


def test_so_do_sessions_and_agents_among_themselves(made: Certificates, serve: Any) -> None:
    place = f"127.0.0.1:{serve('expired')}"
    with pytest.raises(PeerLostError, match="has expired"):
        fabric.connect(f"fabric+tls://{place}", token="x", tls_roots=made.issuer.roots)
    transport = FlightTransport(SIGNER, tls_roots=made.roots, idle_s=15.0)
    request = PartitionRequest(job="job-1", edge=0, node_path="n", partition=0, producers=((0, 0),))
    with pytest.raises(PeerLostError, match="has expired") as caught:
        list(transport.fetch(f"grpc+tls://{place}", request))
    assert caught.value.where.job == "job-1"
    transport.close()


def test_who_is_not_there_is_still_told_so() -> None:
    with (
        closing(GrpcControl("grpc+tls://127.0.0.1:1", "x", connect_s=0.3)) as control,
        pytest.raises(PeerLostError, match="no coordinator answers at"),
    ):
        control.list_agents(pb.ListRequest())


# ---- agents without


def test_an_agent_without_tls_never_attaches(made: Certificates, tmp_path: Path) -> None:
    logged: list[tuple[str, Any]] = []
    certificate, key = made.pairs["good"]
    config = CoordinatorConfig(home=tmp_path, port=0, tls_certificate=certificate, tls_key=key)
    with CoordinatorRuntime(config=config) as runtime:
        parts = Parts(config, SIGNER, CLOCK, lambda event, fields: logged.append((event, fields)))
        server = ControlServer(parts, Front(runtime))
        address = server.start()
        token = SIGNER.token("agent", "a", 60.0, CLOCK.wall_s())
        link = GrpcLink(address, token, tls_roots=made.roots)
        hello = pb.Hello(agent_id="a", address="grpc+tcp://127.0.0.1:7000")
        sentence = "agent 'a' serves its rows without TLS, at grpc"
        with pytest.raises(AuthError, match=sentence):
            link.open(hello, lambda _: None, lambda _: None)
        ((_, fields),) = [one for one in logged if one[0] == "agent refused"]
        assert fields["who"].startswith("a from 127.0.0.1:")
        assert sentence in fields["error"]
        assert not runtime.list_agents(pb.ListRequest()).agents
        # the agent itself does not even start
        config = AgentConfig(home=tmp_path, coordinator=address, tls_roots=made.issuer.roots)
        with ExitStack() as stack, pytest.raises(ConfigError, match="has TLS and this agent has"):
            AgentProcess(config, stack)
        # nor one that does not know that the coordinator has TLS
        plain = address.removeprefix("grpc+tls://")
        with pytest.raises(TlsError, match="speaks TLS and the address does not"):
            GrpcLink(plain, token, connect_s=5.0).open(hello, lambda _: None, lambda _: None)
        server.stop()


# ---- tokens in the clear

FAR = "192.0.2.7:6123"


@pytest.mark.parametrize(
    "call",
    [
        lambda: fabric.connect(f"fabric://{FAR}", token="x"),
        lambda: fabric.connect(f"fabric://127.0.0.1:1,{FAR}", token="x"),
        lambda: Client(f"grpc+tcp://{FAR}", "x"),
        lambda: Client("grpc://example.org:1", "x"),
        lambda: GrpcLink(FAR, "x").open(pb.Hello(), lambda _: None, lambda _: None),
        lambda: FlightTransport(SIGNER).discard(f"grpc+tcp://{FAR}", "d", "tx"),
    ],
)
def test_no_token_goes_in_the_clear(call: Callable[[], Any]) -> None:
    with pytest.raises(AuthError, match=r"refusing to send a token to .* in the clear"):
        call()


def test_a_server_can_not_lure_a_token_out() -> None:
    class Luring(fl.FlightServerBase):  # type: ignore[misc]
        def get_flight_info(self, _: Any, descriptor: Any) -> fl.FlightInfo:
            ends = [fl.FlightEndpoint(b"t", [f"grpc+tcp://{FAR}"])]
            return fl.FlightInfo(pa.schema([]), descriptor, ends, -1, -1)

    with Luring("grpc+tcp://127.0.0.1:0") as server:
        address = f"grpc+tcp://127.0.0.1:{server.port}"
        with (
            Client(address, "x") as client,
            pytest.raises(AuthError, match=r"refusing to send a token to 192\.0\.2\.7"),
        ):
            list(client.read(client.info(("a",))))


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:1", "127.8.9.1:1", "localhost:1", "[::1]:1", "grpc+tcp://127.0.0.1:1",
     "grpc+unix:///tmp/x", "unix:/tmp/x", "grpc+tls://example.org:1"],
)  # fmt: skip
def test_where_a_token_may_go(address: str) -> None:
    check_clear(address)


def test_insecure_says_that_it_may() -> None:
    with Client(f"grpc+tcp://{FAR}", "x", insecure=True), Client(f"grpc+tcp://{FAR}"):
        pass
    with (
        closing(GrpcControl("a.invalid:1", "x", connect_s=0.2, insecure=True)) as control,
        pytest.raises(PeerLostError, match="no coordinator answers"),
    ):
        control.list_agents(pb.ListRequest())


def test_places() -> None:
    assert place_of("grpc+tcp://h:1/") == ("h", 1)
    assert place_of("nonsense") is None


# ---- foreign servers


class Foreign(fl.FlightServerBase):  # type: ignore[misc]
    """Any server that speaks TLS: it has one table and takes what it is given."""

    TABLE = pa.table({"a": [1, 2, 3]})
    taken: pa.Table | None = None

    def get_flight_info(self, _: Any, descriptor: Any) -> fl.FlightInfo:
        return fl.FlightInfo(self.TABLE.schema, descriptor, [fl.FlightEndpoint(b"t", [])], -1, -1)

    def do_get(self, _context: Any, _ticket: Any) -> fl.RecordBatchStream:
        return fl.RecordBatchStream(self.TABLE)

    def do_put(self, _context: Any, _descriptor: Any, reader: Any, _writer: Any) -> None:
        self.taken = reader.read_all()


def test_foreign_servers_are_reached_by_tls_with_roots_of_their_own(made: Certificates) -> None:
    certificate, key = made.pairs["good"]
    pair = (certificate.read_bytes(), key.read_bytes())
    with Foreign("grpc+tls://127.0.0.1:0", tls_certificates=[pair]) as server:
        uri = f"grpc+tls://127.0.0.1:{server.port}"
        given = {"token": "x", "tls_roots": made.issuer.roots}
        with fabric.connect():
            frame = fabric.read_flight(uri, "t", **given)
            assert frame.collect() == Foreign.TABLE
            frame.write_flight(uri, "t", **given)
        assert server.taken == Foreign.TABLE
        with pytest.raises(TlsError, match="signed by nobody among the roots"):
            fabric.read_flight(uri, "t", tls_roots=made.other.roots)


def test_plans_send_no_token_in_the_clear(made: Certificates) -> None:
    far = f"grpc+tcp://{FAR}"
    frame = fabric.read_arrow({"a": [1]})
    for call in (
        lambda: fabric.read_flight(far, "t", token="x"),
        lambda: frame.write_flight(far, "t", token="x"),
        lambda: fabric.streams.to_flight(far, "t", token="x"),
    ):
        with pytest.raises(AuthError, match=r"refusing to send a token to 192\.0\.2\.7"):
            call()
    assert fabric.streams.to_flight(far, "t", token="x", insecure=True).insecure
    with pytest.raises(ConfigError, match="tls_roots is for addresses with TLS"):
        fabric.streams.to_flight(far, "t", tls_roots=made.issuer.roots)
