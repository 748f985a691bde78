"""The control link under TLS: whoever does not check out, on either side, is refused by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import fabric
from fabric.clock import SystemClock
from fabric.control import control_pb2 as pb
from fabric.control.client import GrpcControl
from fabric.control.grpc_link import GrpcLink
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.coordinator.service.front import Front, Parts
from fabric.coordinator.service.server import ControlServer
from fabric.errors import ConfigError, PeerLostError
from fabric.security.tokens import Signer

TLS = Path(__file__).parents[1] / "flight" / "tls"
OURS, OTHER = ((TLS / name).read_bytes() for name in ("ours.pem", "other.pem"))
SIGNER = Signer(b"s" * 32)
Served = tuple[str, str, str]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[Path, Path], Served]]:
    """Start a coordinator with a certificate and a key: its address, tokens of client and agent."""
    clock, stops = SystemClock(), []

    def start(certificate: Path = TLS / "ours.pem", key: Path = TLS / "ours.key") -> Served:
        config = CoordinatorConfig(
            home=tmp_path, host="0.0.0.0", port=0, tls_certificate=certificate, tls_key=key
        )
        runtime = CoordinatorRuntime(config=config)
        server = ControlServer(Parts(config, SIGNER, clock, lambda *_: None), Front(runtime))
        runtime.start()
        stops.extend((server.stop, runtime.close))
        address = server.start().replace("0.0.0.0", "127.0.0.1")
        tokens = (SIGNER.token(scope, "a", 60.0, clock.wall_s()) for scope in ("submit", "agent"))
        return (address, *tokens)

    yield start
    for stop in stops:
        stop()


def test_clients_and_agents_come_by_tls(serve: Any, make_agent: Any) -> None:
    address, token, agents = serve()
    assert address.startswith("grpc+tls://127.0.0.1:")
    agent = make_agent("a").attach(GrpcLink(address, agents, tls_roots=OURS))
    with closing(GrpcControl(address, token, tls_roots=OURS)) as control:
        assert [a.agent_id for a in control.list_agents(pb.ListRequest()).agents] == ["a"]
    agent.link.close()


def test_a_session_by_tls(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    address, token, _ = serve()
    target = address.replace("grpc+", "fabric+")
    with fabric.connect(target, token=token, tls_roots=TLS / "ours.pem") as session:
        assert not session.agents()
    monkeypatch.setenv("FABRIC_TLS_ROOTS", str(TLS / "ours.pem"))
    with fabric.connect(target, token=token) as session:
        assert not session.agents()


@pytest.mark.parametrize("roots", [OTHER, None])
def test_an_unknown_certificate_is_refused(serve: Any, roots: bytes | None) -> None:
    address, token, agents = serve()
    for end in (GrpcControl(address, token, tls_roots=roots, connect_s=1.0),):
        with closing(end), pytest.raises(PeerLostError, match="signed by nobody among the roots"):
            end.list_agents(pb.ListRequest())
    link = GrpcLink(address, agents, tls_roots=roots, connect_s=1.0)
    with pytest.raises(PeerLostError, match="signed by nobody among the roots"):
        link.open(pb.Hello(agent_id="a"), lambda _: None, lambda _: None)


def test_nobody_talks_in_the_clear(serve: Any) -> None:
    address, token, _ = serve()
    plain = address.removeprefix("grpc+tls://")
    with (
        closing(GrpcControl(plain, token, connect_s=1.0)) as control,
        pytest.raises(PeerLostError),
    ):
        control.list_agents(pb.ListRequest())
    with (
        closing(GrpcControl(plain, token, tls_roots=OURS)) as control,
        pytest.raises(ConfigError, match=r"write grpc\+tls://127\.0\.0\.1"),
    ):
        control.list_agents(pb.ListRequest())


def test_what_is_no_certificate(serve: Any, tmp_path: Path) -> None:
    nonsense = tmp_path / "x.pem"
    nonsense.write_bytes(os.urandom(100))
    with pytest.raises(ConfigError, match=r"x\.pem holds no certificate"):
        serve(nonsense)
    nonsense.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(ConfigError, match=r"x\.pem"):
        serve(nonsense)
    with pytest.raises(ConfigError, match=r"can't read .*gone\.pem: No such file"):
        serve(TLS / "gone.pem")
    with pytest.raises(ConfigError, match="belong together"):
        CoordinatorConfig(tls_certificate=nonsense).check_bind()
