"""Whether a run ended as it must.

One job: `judge`, after everything has healed and every client is done: results equal the fault-free
ones, nothing failed without need, nothing was done twice without need; and `judge_leftovers`, after
all jobs were released: nothing is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from fabric.control import control_pb2 as pb
from fabric.errors import NotFoundError
from tests.support.sim.client import Client
from tests.support.sim.invariants import Violation
from tests.support.sim.rows import reference

if TYPE_CHECKING:
    from tests.support.sim.world import World

ATTEMPTS_MAX = 4
"""As coordinators are set by default."""


def judge(world: World) -> None:
    """Raises `Violation`."""
    for client in world.clients:
        if not client.settled:
            what = "no answer" if client.status is None else pb.JobState.Name(client.status.state)
            raise Violation(f"job {client.job_id} of {client.name} has not ended: {what}")
        _job(world, client)
    _attempts(world)


def _job(world: World, client: Client) -> None:
    status, plan = client.status, client.plan
    assert status is not None
    committed = world.outside.committed(status.job_id)
    name = pb.JobState.Name(status.state)[4:].lower()
    if status.state == pb.JOB_FINISHED:
        found, wanted = committed if plan.sink else client.rows or Counter(), reference(plan.graph)
        if found != wanted:
            raise Violation(
                f"job {status.job_id} finished with {found.total()} rows instead of "
                f"{wanted.total()}: lost {dict(wanted - found)}, too many {dict(found - wanted)}"
            )
        if any(kind == "user" for kind, _ in plan.errors.values()):
            raise Violation(f"job {status.job_id} finished in spite of a user error")
        return
    if committed:
        raise Violation(f"job {status.job_id} is {name}, and its output is visible")
    if status.state == pb.JOB_CANCELLED and client.cancelled:
        return
    if status.state == pb.JOB_FAILED and _may_fail(world, client):
        return
    raise Violation(f"job {status.job_id} is {name} without need: {status.error.message}")


def _may_fail(world: World, client: Client) -> bool:
    """Whether a failed job had a reason to fail."""
    assert client.status is not None
    said = client.status.error.message
    if "planted user" in said or "planted internal" in said:
        return True
    exhausted = f"attempt {ATTEMPTS_MAX} of {ATTEMPTS_MAX}" in said
    planted = any(n >= ATTEMPTS_MAX for kind, n in client.plan.errors.values())
    return exhausted and (planted or not world.scenario.calm)


def _attempts(world: World) -> None:
    """Without a fault there is one attempt of each task; with faults their number is bounded."""
    planted = any(plan.errors for plan in world.scenario.jobs)
    n_restarts = max(client.n_restarts for client in world.clients)
    most = ATTEMPTS_MAX * (1 + n_restarts + len(world.scenario.faults))
    bound = 0 if world.scenario.calm and not planted else most
    if many := [str(task) for task in world.invariants.deployed if task.attempt > bound]:
        raise Violation(f"there are more attempts than {bound + 1}: {', '.join(many)}")
    for client in world.clients:
        n_met = world.trouble.n_met(client.job_id)
        if n_met > most:
            raise Violation(f"a task of job {client.job_id} failed {n_met} times, and went on")


def judge_leftovers(world: World) -> None:
    """After every job was released: raises `Violation` when something is kept."""
    for agent in world.agents:
        if agent.workers:
            raise Violation(f"agent {agent.name} runs {sorted(map(str, agent.workers))} for ever")
        if agent.shelf.jobs():
            raise Violation(f"agent {agent.name} holds partitions of {agent.shelf.jobs()}")
        if kept := agent.core.inventory():
            raise Violation(f"agent {agent.name} still knows of {kept[0].key}")
    for coordinator in world.coordinators:
        if coordinator.core is not None:
            for client in world.clients:
                _forgotten(coordinator.name, client.job_id, coordinator.core.locate)
    lives = {f"{agent.name}.{agent.life}" for agent in world.agents}
    for handle in world.outside.prepared:
        _, _, made_by = handle.decode().partition("@")
        if made_by.rpartition(".")[0] in lives:
            raise Violation(f"nobody removed what {handle.decode()} prepared")


def _forgotten(name: str, job_id: str, locate: Callable[[pb.LocateRequest], object]) -> None:
    try:
        locate(pb.LocateRequest(job_id=job_id))
    except NotFoundError:
        return
    raise Violation(f"{name} still knows the stages of job {job_id}")
