"""The link inside one process, and the runtime at its other end."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.control import control_pb2 as pb
from fabric.control.link import LocalLink
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.errors import ConfigError, InternalError, PeerLostError


def test_attach_hear_and_close(make_agent: Any) -> None:
    with CoordinatorRuntime(embedded=True) as runtime:
        agent = make_agent("a").attach(LocalLink(runtime))
        runtime.flush()
        assert agent.kinds() == ["welcome", "locations", "locations"][:2]
        assert [a.agent_id for a in runtime.list_agents(pb.ListRequest()).agents] == ["a"]
        agent.link.close()
        agent.link.close()
        assert not runtime.list_agents(pb.ListRequest()).agents
    assert agent.lost == []


def test_a_link_that_is_not_open_refuses(make_agent: Any) -> None:
    with CoordinatorRuntime(embedded=True) as runtime:
        link = LocalLink(runtime)
        with pytest.raises(PeerLostError, match="is not open"):
            link.send(pb.AgentMessage(heartbeat=pb.Heartbeat()))


def test_names_are_checked() -> None:
    with CoordinatorRuntime(embedded=True) as runtime:
        with pytest.raises(ConfigError, match=r"agent id '../x' is not allowed"):
            runtime.attach("../x", pb.Hello(agent_id="../x"), print)
        with pytest.raises(InternalError, match="said hello as 'b'"):
            runtime.attach("a", pb.Hello(agent_id="b"), print)


def test_a_second_agent_of_the_same_id_replaces_the_first(make_agent: Any) -> None:
    with CoordinatorRuntime(embedded=True) as runtime:
        first = make_agent("a").attach(LocalLink(runtime))
        second = make_agent("a").attach(LocalLink(runtime))
        first.link.send(pb.AgentMessage(heartbeat=pb.Heartbeat()))
        first.link.close()
        assert runtime.refused == {"old session": 3}
        assert len(runtime.list_agents(pb.ListRequest()).agents) == 1
        second.link.close()
