"""An agent's link over real sockets: welcome, heartbeats, loss, coming back."""

from __future__ import annotations

import re
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from fabric import __version__
from fabric.clock import SystemClock
from fabric.control import control_pb2 as pb
from fabric.control.grpc_link import GrpcLink
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.coordinator.service.front import Front, Parts
from fabric.coordinator.service.server import ControlServer
from fabric.errors import AuthError, ConfigError, ExternalError, PeerLostError
from fabric.security.tokens import Signer


def link(served: SimpleNamespace) -> GrpcLink:
    return GrpcLink(served.address, served.token("agent"))


def names(served: SimpleNamespace) -> list[str]:
    return [a.agent_id for a in served.runtime.list_agents(pb.ListRequest()).agents]


def test_welcome_table_and_goodbye(served: Any, make_agent: Any) -> None:
    agent = make_agent("a").attach(link(served))
    agent.until(lambda: len(agent.heard) >= 2)
    assert agent.kinds()[:2] == ["welcome", "locations"]
    assert agent.heard[0].welcome.heartbeat_s == pytest.approx(0.2)
    assert names(served) == ["a"]
    agent.link.close()
    assert names(served) == []
    assert agent.lost == []
    assert not [t.name for t in threading.enumerate() if t.name.endswith(" a")]


def test_heartbeats_come_by_themselves(served: Any, make_agent: Any) -> None:
    agent, line, beats = make_agent("a"), link(served), threading.Semaphore(0)

    def beat() -> pb.Heartbeat:
        beats.release()
        return pb.Heartbeat(running_tasks=3, stored_bytes=5)

    line.open(agent.hello, agent.on_message, agent.on_lost, beat)
    for _ in range(3):
        assert beats.acquire(timeout=20)
    (status,) = served.runtime.list_agents(pb.ListRequest()).agents
    assert (status.running_tasks, status.stored_bytes) == (3, 5)
    line.close()


def test_the_agent_learns_that_it_was_given_up(served: Any, make_agent: Any) -> None:
    first = make_agent("a").attach(link(served))
    second = make_agent("a").attach(link(served))
    first.until(lambda: bool(first.lost))
    assert isinstance(first.lost[0], PeerLostError)
    assert "attached again" in str(first.lost[0])
    first.link.send(pb.AgentMessage(heartbeat=pb.Heartbeat()))  # dropped
    assert names(served) == ["a"]
    second.link.close()
    first.link.close()


def test_loss_of_the_coordinator_and_back(served: Any, make_agent: Any) -> None:
    agent = make_agent("a").attach(link(served))
    served.server.stop()
    agent.until(lambda: bool(agent.lost))
    assert isinstance(agent.lost[0], PeerLostError)
    port = int(served.address.rpartition(":")[2])
    config = served.config.__class__(home=served.config.home, port=port)
    clock = SystemClock()
    parts = Parts(config, Signer(b"s" * 32), clock, lambda *_: None)
    again = ControlServer(parts, Front(served.runtime))
    again.start()
    agent.attach(agent.link)
    agent.until(lambda: agent.kinds().count("welcome") == 2)
    assert names(served) == ["a"]
    agent.link.close()
    again.stop()


def test_refusals(served: Any, make_agent: Any) -> None:
    agent = make_agent("a")
    with pytest.raises(AuthError, match="needs a token of scope 'agent', this one has 'submit'"):
        agent.attach(GrpcLink(served.address, served.token("submit")))
    with pytest.raises(AuthError, match="not one of this fabric"):
        agent.attach(GrpcLink(served.address, "fab1.e30.AAAA"))
    with pytest.raises(ConfigError, match="agent id"):
        make_agent("../a").attach(link(served))
    with pytest.raises(PeerLostError, match="is not open"):
        link(served).send(pb.AgentMessage())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(PeerLostError, match=f"no coordinator answers at {address}"):
        agent.attach(GrpcLink(address, "t", connect_s=0.5))
    assert names(served) == []


def test_another_agent_with_the_same_id(served: Any, make_agent: Any) -> None:
    first, second = make_agent("a").attach(link(served)), make_agent("a")
    second.hello.address = "local:elsewhere"
    with pytest.raises(ExternalError, match="another agent with the id a is attached") as caught:
        second.attach(link(served))
    assert caught.value.retryable  # the first may be about to go
    assert not isinstance(caught.value, PeerLostError)
    assert not first.lost
    first.link.close()
    assert names(served) == []
    second.attach(link(served))
    assert names(served) == ["a"]
    second.link.close()


@pytest.mark.parametrize("version", ["99.0.0", "0.99.1", "0.0"])
def test_an_agent_of_another_release(served: Any, make_agent: Any, version: str) -> None:
    agent = make_agent("a")
    agent.hello.version = version
    wanted = f"runs Fabric '{version}', this coordinator {__version__}; install the same release"
    with pytest.raises(ConfigError, match=re.escape(wanted)):
        agent.attach(link(served))
    assert names(served) == []
    for same in (__version__, f"{__version__.rpartition('.')[0]}.99", "unknown", ""):
        agent.hello.version = same
        agent.attach(link(served))
        assert names(served) == ["a"]
        agent.link.close()


def test_the_first_message_must_be_a_hello(served: Any) -> None:
    import grpc

    from tests.support.control_stub import control_stub

    with grpc.insecure_channel(served.address) as channel:
        beat = pb.AgentMessage(heartbeat=pb.Heartbeat())
        metadata = [("authorization", f"Bearer {served.token('agent')}")]
        call = control_stub(channel).Attach(iter([beat]), metadata=metadata, timeout=20)
        with pytest.raises(grpc.RpcError, match="must be its hello"):
            next(call)


def test_a_port_that_is_taken(served: Any) -> None:
    port = int(served.address.rpartition(":")[2])
    config = served.config.__class__(home=served.config.home, port=port)
    with CoordinatorRuntime(config=config) as runtime:
        clock = SystemClock()
        parts = Parts(config, Signer(b"s" * 32), clock, lambda *_: None)
        second = ControlServer(parts, Front(runtime))
        with pytest.raises(ConfigError, match=f"can't listen on 127.0.0.1:{port}"):
            second.start()
        second.stop()
