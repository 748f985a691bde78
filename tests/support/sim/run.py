"""One run from a seed to its verdict.

One job: `simulate`: chaos, healing, the end of all jobs, their release, the verdict.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.sim.invariants import Violation
from tests.support.sim.judge import judge, judge_leftovers
from tests.support.sim.parts import Parts
from tests.support.sim.scenario import Scenario, draw
from tests.support.sim.world import World

GRACE_S = 120.0
"""In simulated seconds after healing every job has ended."""
RELEASE_S = 30.0
QUIET_S = 8.0
"""What was released is gone after so long."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run went; `violation` is "" when everything held."""

    scenario: Scenario
    violation: str
    digest: str
    tail: str
    n_steps: int
    n_attempts: int
    simulated_s: float

    def __str__(self) -> str:
        verdict = self.violation or "everything held"
        return f"{self.scenario}\n...\n{self.tail}\n{verdict}"


def simulate(seed: int, parts: Parts | None = None, scenario: Scenario | None = None) -> Outcome:
    """Run a seed's scenario (or another one with its order of events)."""
    world = World(scenario or draw(seed), parts or Parts())
    violation = ""
    try:
        live(world)
    except Violation as error:
        violation = str(error)
    world.trace.add(world.scheduler.now, "", violation or "the end")
    return Outcome(
        scenario=world.scenario,
        violation=violation,
        digest=world.trace.digest(),
        tail=world.trace.tail(),
        n_steps=world.scheduler.n_steps,
        n_attempts=len(world.invariants.deployed),
        simulated_s=world.scheduler.now,
    )


def live(world: World) -> None:
    """Let a run happen, and judge it: raises `Violation`."""
    scheduler, scenario = world.scheduler, world.scenario
    scheduler.run_until(scenario.chaos_s, world.over)
    world.faults.heal()
    scheduler.run_until(scheduler.now + GRACE_S, world.settled)
    judge(world)
    for client in world.clients:
        client.release()
    scheduler.run_until(scheduler.now + RELEASE_S, world.released)
    scheduler.run_until(scheduler.now + QUIET_S)
    judge_leftovers(world)
