"""The network between agents and coordinator is cut, both ways or one, in real namespaces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fabric.testing import Gate
from tests.support.netns import why_not
from tests.support.netns_fabric import NetnsFabric, netns_fabric
from tests.support.ordeal import Ordeal, gate, wait_idle
from tests.support.sampled import sampled
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(240)
N_AGENTS, SLOTS = 3, 4
CUTS = ["both", "to-coordinator", "from-coordinator", "control"]


@pytest.fixture(autouse=True, scope="module")
def allowed() -> None:
    if reason := why_not():
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)


@pytest.fixture
def idle_s() -> float:
    """How long a message between agents may take."""
    return 30.0


@pytest.fixture
def running(short: dict[str, str], idle_s: float) -> Iterator[NetnsFabric]:
    environ = {**short, "FABRIC_AGENT_IDLE_S": str(idle_s)}
    with netns_fabric(N_AGENTS, slots=SLOTS, environ=environ) as made:
        yield made


def cut(running: NetnsFabric, agent: str, how: str) -> None:
    network = running.network
    match how:
        case "both":
            network.partition(agent, "coordinator")
        case "to-coordinator":
            network.cut(agent, "coordinator")
        case "from-coordinator":
            network.cut("coordinator", agent)
        case "control":
            network.partition(agent, "coordinator", int(running.address.rpartition(":")[2]))


@pytest.mark.parametrize("how", sampled(CUTS, 2, salt="cuts"))
def test_an_agent_is_cut_from_the_coordinator(
    how: str, running: NetnsFabric, tmp_path: Path
) -> None:
    """It stops what it does within its lease, others take over, and it comes back by itself."""
    with Gate() as closed:
        ordeal = Ordeal(running, tmp_path, target=gate(closed.name))
        ordeal.submit()
        wait_until(lambda: ordeal.running() == ordeal.status().stages[-1].n_tasks, 60.0)
        victim = running.agent_id(0)
        cut(running, "agent 0", how)
        wait_until(lambda: "lease over" in running.agents[0].log.read_text(), 60.0)
        wait_until(lambda: victim not in alive(running), 60.0)
        wait_until(lambda: ordeal.running() == ordeal.status().stages[-1].n_tasks, 60.0)
        closed.open()
        ordeal.finish()
        ordeal.check({victim})
        running.network.heal()
        wait_until(lambda: victim in alive(running), 60.0)
        ordeal.release()
        wait_idle(running)


@pytest.mark.parametrize("idle_s", [6.0])
def test_two_agents_are_cut_from_each_other(running: NetnsFabric, tmp_path: Path) -> None:
    """The coordinator hears both; what one needs of the other is made where it can be had."""
    ordeal = Ordeal(running, tmp_path)
    running.network.partition("agent 0", "agent 1")
    ordeal.submit()
    wait_until(lambda: ordeal.status().n_attempts > 0 or ordeal.ended(), 60.0)
    running.network.heal()
    ordeal.finish()
    ordeal.check_rows()
    assert {running.agent_id(i) for i in range(N_AGENTS)} <= alive(running)
    ordeal.release()
    wait_idle(running)


def alive(running: NetnsFabric) -> set[str]:
    return {agent.agent_id for agent in running.attached() if agent.state != "failed"}
