"""An agent of a stream dies at every named place, and its successor as it comes back (F1).

A million rows flow meanwhile. What was written is what would have been without faults:
nothing lost, nothing doubled, the rows of each key in order, nothing left beside.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from fabric import failpoints
from fabric.config import StateBackend
from tests.support.faults import wait_hit
from tests.support.local import LocalFabric, local_fabric
from tests.support.sampled import sampled
from tests.support.stream_ordeal import LONG, PARALLELISM, StreamOrdeal

pytestmark = pytest.mark.timeout(300)
PATIENCE_S = 120.0
POINTS = {
    "stream.barrier-came": (1, 9, 13),
    "stream.barrier-sent": (1, 9),
    "stream.rows-came": (1, 400, 1500),
    "stream.sink-prepared": (1, 4, 6),
    "stream.snapshot-storing": (1, 9, 30),
    "stream.snapshot-stored": (1, 9, 13),
    "stream.told-complete": (1, 2, 7),
    "stream.publishing": (1, 2, 3),
    "stream.merging": (1, 2),
    "agent.publishing": (1, 2, 4),
    "agent.published": (1, 2, 4),
    "agent.task-ran": (1,),
}
"""Where an agent comes by while rows flow, and the time at which it dies there."""
SOON = 4
"""More often a place is passed only after some checkpoints, each of which takes a while."""
RESTORING = ["stream.restoring", "stream.state-restored", "stream.restored"]
RETURNS = [*RESTORING, "agent.attaching", "stream.barrier-came"]
"""Where the next one dies, the first time it comes by: as it takes its tasks over."""
FIRST = [(name, nth) for name, times in POINTS.items() for nth in times]
CASES = [(*each, RETURNS[n % len(RETURNS)]) for n, each in enumerate(FIRST)]


@pytest.mark.parametrize(
    ("case", "state"),
    [
        *((case, "arrow") for case in sampled(CASES, 2, salt="streams")),
        (("stream.snapshot-storing", 9, "stream.state-restored"), "tonbo"),
    ],
)
def test_an_agent_dies_twice(
    case: tuple[str, int, str], state: StateBackend, short: dict[str, str], tmp_path: Path
) -> None:
    name, nth, again = case
    faults = {f"agent {i}": f"{name}:{nth}:exit" for i in range(PARALLELISM)}
    with local_fabric(PARALLELISM, slots=1, environ=short, faults=faults) as running:
        ends = name == "agent.task-ran"  # there is no time for further checkpoints then
        long = LONG if name == "stream.rows-came" and nth > SOON else None
        with nullcontext() if ends or long else running.held():
            ordeal = StreamOrdeal(running, tmp_path, made=long, state=state)
            ordeal.submit()
            victim = wait_hit(running, name, PATIENCE_S)
            assert running.agents[victim].process.wait(60) == 137
            if again in RESTORING and not ordeal.complete():
                again = "agent.task-started"  # there is nothing to restore yet
            followed_by(running, victim, again, tmp_path)
            at_fault = ordeal.complete()
            running.restart(victim)
            ordeal.go_on(2, PATIENCE_S)
        ordeal.end(at_fault if not ends else None)


def followed_by(running: LocalFabric, victim: int, again: str, tmp_path: Path) -> None:
    """Its successor dies too; without it there are not slots enough, so it has tasks to restore."""
    running.faults[f"agent {victim}"] = f"{again}:1:exit"
    running.environ[failpoints.ONCE] = str(tmp_path / "hit-again")
    successor = running.agents[victim] = running.start_agent(victim)
    assert successor.process.wait(PATIENCE_S) == 137
    assert successor.said(f"failpoint {again}:") is not None


def test_every_place_is_tried() -> None:
    tried = {*POINTS, *RETURNS}
    assert tried >= {name for name in failpoints.POINTS if name.startswith("stream.")}
