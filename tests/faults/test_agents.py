"""An agent dies, or stops and comes back, at every named place; its job ends as if nothing was."""

from __future__ import annotations

import signal
from itertools import product
from pathlib import Path

import pytest

import fabric
from fabric import failpoints
from fabric.clients.demo.checksum import checksum
from fabric.testing import Gate
from tests.support.faults import hit_agent
from tests.support.local import LocalFabric, local_fabric
from tests.support.ordeal import Mode, Ordeal, dataset, gate, reference, wait_idle
from tests.support.sampled import sampled
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(240)
N_AGENTS, SLOTS = 3, 4
POINTS = [name for name in failpoints.POINTS if name.startswith("agent.")]
PUTS = ["agent.put-batch", "agent.put-sealed"]
WHILE_A_JOB_RUNS = [name for name in POINTS if name not in {"agent.attaching", *PUTS}]
TIMES = {"agent.publishing": 1, "agent.published": 1, "agent.sink-prepared": 2}
"""How often one agent comes by in a job, where that is less than thrice: four tasks write."""
CASES = [
    (name, nth, action, mode)
    for name, nth, action, mode in product(
        WHILE_A_JOB_RUNS, (1, 2, 3), ("exit", "stop"), ("materialised", "pipelined")
    )
    if nth <= TIMES.get(name, 3)
]
PUT_CASES = list(product(PUTS, (1, 2), ("exit", "stop")))


@pytest.mark.parametrize(("name", "nth", "action", "mode"), sampled(CASES, 3, salt="agents"))
def test_a_fault_at(
    *, name: str, nth: int, action: str, mode: Mode, short: dict[str, str], tmp_path: Path
) -> None:
    faults = {f"agent {i}": f"{name}:{nth}:{action}" for i in range(N_AGENTS)}
    with local_fabric(N_AGENTS, slots=SLOTS, environ=short, faults=faults) as running:
        ordeal = Ordeal(running, tmp_path, mode=mode)
        ordeal.submit()
        ordeal.finish()
        victim = hit_agent(running, name)
        assert victim is not None, "the failpoint was never reached: nothing was tried"
        ordeal.check({running.agent_id(victim)})
        if action == "stop":
            running.resume(victim)
        else:
            running.restart(victim)
        wait_until(lambda: len(running.attached()) == N_AGENTS, 60.0)  # it comes back by itself
        ordeal.check_rows()  # and what it does late changes nothing
        again = Ordeal(running, tmp_path, mode=mode)
        again.submit()
        again.finish()
        again.check()
        for each in (ordeal, again):
            each.release()
        wait_idle(running)


@pytest.mark.parametrize(("name", "nth", "action"), sampled(PUT_CASES, 1, salt="puts"))
def test_an_owner_of_a_dataset_at(
    name: str, nth: int, action: str, short: dict[str, str], tmp_path: Path
) -> None:
    """Rows go to their owner and to nobody else: the job waits for it, and writes them once."""
    faults = {f"agent {i}": f"{name}:{nth}:{action}" for i in range(N_AGENTS)}
    patience = {  # an agent needs a moment to start
        **short, "FABRIC_COORDINATOR_RETRY_S": "1", "FABRIC_COORDINATOR_OWNER_WAIT_S": "45"
    }  # fmt: skip
    with local_fabric(N_AGENTS, slots=SLOTS, environ=patience, faults=faults) as running:
        ordeal = Ordeal(running, tmp_path, target=dataset("d"))
        ordeal.submit()
        wait_until(lambda: hit_agent(running, name) is not None, 60.0)
        victim = hit_agent(running, name)
        assert victim is not None
        if action == "stop":
            wait_until(lambda: running.agent_id(victim) not in alive(running), 60.0)
            running.resume(victim)
        else:
            running.restart(victim)
        ordeal.finish()
        ordeal.check({running.agent_id(victim)})
        running.wait_attached()  # each has a part of the rows
        with fabric.connect(f"fabric://{running.address}", token=running.token) as session:
            assert checksum(session.read_dataset("d").collect()) == checksum(reference())


@pytest.mark.parametrize("action", ["exit", "stop"])
def test_an_agent_at_rest_with_what_others_need(
    action: str, short: dict[str, str], tmp_path: Path
) -> None:
    """Everything but the sink is done; what the lost agent held of that is made again."""
    with local_fabric(N_AGENTS, slots=SLOTS, environ=short) as running, Gate() as closed:
        ordeal = Ordeal(running, tmp_path, target=gate(closed.name))
        ordeal.submit()
        wait_until(lambda: ordeal.running() == ordeal.status().stages[-1].n_tasks, 60.0)
        victim = running.agent_id(1)
        if action == "exit":
            running.kill(1)
        else:
            running.pause(1)
        wait_until(lambda: victim not in alive(running), 60.0)
        wait_until(lambda: ordeal.running() == ordeal.status().stages[-1].n_tasks, 60.0)
        closed.open()
        ordeal.finish()
        ordeal.check({victim})


def alive(running: LocalFabric) -> set[str]:
    return {agent.agent_id for agent in running.attached() if agent.state != "failed"}


def test_it_dies_as_it_registers_again(short: dict[str, str], tmp_path: Path) -> None:
    """After the coordinator came back, one agent is lost while it says what it holds."""
    faults = {f"agent {i}": "agent.attaching:2:exit" for i in range(N_AGENTS)}
    with (
        local_fabric(N_AGENTS, slots=SLOTS, environ=short, faults=faults) as running,
        Gate() as closed,
    ):
        ordeal = Ordeal(running, tmp_path, target=gate(closed.name))
        ordeal.submit()
        wait_until(lambda: ordeal.running() == ordeal.status().stages[-1].n_tasks, 60.0)
        running.kill_coordinator()
        running.start_coordinator()
        wait_until(lambda: hit_agent(running, "agent.attaching") is not None, 60.0)
        victim = hit_agent(running, "agent.attaching")
        assert victim is not None
        wait_until(lambda: len(alive(running)) == N_AGENTS - 1, 60.0)
        closed.open()
        ordeal.finish()
        ordeal.check({running.agent_id(victim)})


def test_all_agents_at_once(short: dict[str, str], tmp_path: Path) -> None:
    """Every agent dies and comes back: the job waits for slots, then does it all again (F24)."""
    with local_fabric(N_AGENTS, slots=SLOTS, environ=short) as running, Gate() as closed:
        ordeal = Ordeal(running, tmp_path, target=gate(closed.name))
        ordeal.submit()
        wait_until(lambda: ordeal.running() == ordeal.status().stages[-1].n_tasks, 60.0)
        ids = {running.agent_id(i) for i in range(N_AGENTS)}
        for agent in running.agents:
            agent.process.send_signal(signal.SIGKILL)
        for i in range(N_AGENTS):
            running.agents[i].process.wait()
            running.agents[i] = running.start_agent(i)
        closed.open()
        ordeal.finish()
        ordeal.check(ids)


def test_every_place_is_tried() -> None:
    assert {name for name, *_ in CASES} | {"agent.attaching", *PUTS} == set(POINTS)
