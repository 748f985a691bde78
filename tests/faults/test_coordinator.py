"""The coordinator dies, or stops for longer than a lease, at every named place; its jobs go on."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

import fabric
from fabric import failpoints
from fabric.clients.demo.checksum import checksum
from fabric.testing import Gate
from tests.support.faults import hit_coordinator, overcome
from tests.support.local import LocalFabric, local_fabric
from tests.support.ordeal import Mode, Ordeal, dataset, gate, patiently, reference, wait_idle
from tests.support.sampled import sampled
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(240)
N_AGENTS, SLOTS = 3, 4
POINTS = [name for name in failpoints.POINTS if name.startswith("coordinator.")]
COMMITS = ["coordinator.committing", "coordinator.committed"]
ONCE_A_JOB = {"coordinator.job-persisted"}
WHILE_A_JOB_RUNS = [name for name in POINTS if name not in {"coordinator.restoring", *COMMITS}]
CASES = [
    (name, nth, action, mode)
    for name, nth, action, mode in product(
        WHILE_A_JOB_RUNS, (1, 2, 3, 8), ("exit", "stop"), ("materialised", "pipelined")
    )
    if nth == 1 or name not in ONCE_A_JOB
]
COMMIT_CASES = list(product(COMMITS, ("exit", "stop")))


def ended(running: LocalFabric) -> bool:
    """By its log: a coordinator that is stopped leaves whoever asks it waiting."""
    assert running.coordinator is not None
    return "job finished" in running.coordinator.log.read_text()


@pytest.mark.parametrize(("name", "nth", "action", "mode"), sampled(CASES, 4, salt="coordinator"))
def test_a_fault_at(
    *,
    name: str,
    nth: int,
    action: str,
    mode: Mode,
    short: dict[str, str],
    patient: dict[str, str],
    tmp_path: Path,
) -> None:
    environ = patient if action == "exit" else short
    faults = {"coordinator": f"{name}:{nth}:{action}"}
    with local_fabric(N_AGENTS, slots=SLOTS, environ=environ, faults=faults) as running:
        ordeal = Ordeal(running, tmp_path, mode=mode)
        submitting = ordeal.submit_beside()
        wait_until(lambda: hit_coordinator(running, name) or ended(running), 60.0)
        reached = hit_coordinator(running, name)
        assert reached or nth > 1, "the failpoint was never reached: nothing was tried"
        if reached:  # a small job writes its tasks down in few turns
            overcome(running, action)
        submitting.join(60.0)
        ordeal.finish()
        ordeal.check(orders_lost=True)
        running.wait_attached()
        again = Ordeal(running, tmp_path, mode=mode)
        again.submit()
        again.finish()
        again.check(orders_lost=not reached)
        for each in (ordeal, again):
            each.release()
        wait_idle(running)


@pytest.mark.parametrize(("name", "action"), sampled(COMMIT_CASES, 1, salt="commits"))
def test_a_commit_at(
    name: str, action: str, short: dict[str, str], patient: dict[str, str], tmp_path: Path
) -> None:
    """The rows are in the dataset once, whatever its coordinator got to say of it."""
    environ = patient if action == "exit" else short
    faults = {"coordinator": f"{name}:1:{action}"}
    with local_fabric(N_AGENTS, slots=SLOTS, environ=environ, faults=faults) as running:
        ordeal = Ordeal(running, tmp_path, target=dataset("d"))
        submitting = ordeal.submit_beside()
        wait_until(lambda: hit_coordinator(running, name), 60.0)
        overcome(running, action)
        submitting.join(60.0)
        ordeal.finish()
        ordeal.check(orders_lost=True)
        running.wait_attached()
        with fabric.connect(f"fabric://{running.address}", token=running.token) as session:
            assert checksum(session.read_dataset("d").collect()) == checksum(reference())


def test_it_dies_as_it_reads_what_it_had_written(patient: dict[str, str], tmp_path: Path) -> None:
    with (
        local_fabric(N_AGENTS, slots=SLOTS, environ=patient) as running,
        Gate() as closed,
    ):
        ordeal = Ordeal(running, tmp_path, target=gate(closed.name))
        ordeal.submit()
        wait_until(lambda: ordeal.running() == ordeal.status().stages[-1].n_tasks, 60.0)
        running.kill_coordinator()
        running.faults["coordinator"] = "coordinator.restoring:1:exit"
        assert running.spawn_coordinator().process.wait(60) == 137
        running.start_coordinator()
        running.wait_attached()
        closed.open()
        ordeal.finish()
        ordeal.check()
        assert ordeal.status().n_attempts == 0, "tasks that ran all the while were run again"


def test_an_agent_dies_while_there_is_no_coordinator(short: dict[str, str], tmp_path: Path) -> None:
    """Nobody saw it go: the next coordinator misses it, and only its work is done again."""
    with (
        local_fabric(N_AGENTS, slots=SLOTS, environ=short) as running,
        Gate() as closed,
    ):
        ordeal = Ordeal(running, tmp_path, target=gate(closed.name))
        ordeal.submit()
        wait_until(lambda: ordeal.running() == ordeal.status().stages[-1].n_tasks, 60.0)
        victim = running.agent_id(0)
        running.kill_coordinator()
        running.kill(0)
        running.agents.pop(0)
        running.start_coordinator()
        wait_until(lambda: victim not in alive(running), 60.0)
        closed.open()
        ordeal.finish()
        ordeal.check({victim}, orders_lost=True)


def alive(running: LocalFabric) -> set[str]:
    return {agent.agent_id for agent in patiently(running.attached) if agent.state != "failed"}


def test_every_place_is_tried() -> None:
    tried = {name for name, *_ in CASES} | {name for name, _ in COMMIT_CASES}
    assert tried | {"coordinator.restoring"} == set(POINTS)
