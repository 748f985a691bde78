"""The coordinator of a stream dies, or stops for longer than a lease, amid a checkpoint (F1, F3).

Its number written down and nobody triggered, the manifest there and not known, complete and nobody
told, published and nobody told, older ones half removed: rows are seen once in every case.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from fabric import failpoints
from tests.support.faults import hit_coordinator, overcome
from tests.support.local import local_fabric
from tests.support.stream_ordeal import LONG, PARALLELISM, StreamOrdeal
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(300)
PATIENCE_S = 120.0
RESTORING = "checkpoint.verified"
POINTS = [name for name in failpoints.POINTS if name.startswith("checkpoint.")]
WHILE_ROWS_FLOW = [name for name in POINTS if name != RESTORING]
STOPS = ["checkpoint.begun", "checkpoint.stored", "checkpoint.complete", "checkpoint.publishing"]
CASES = [
    *product(WHILE_ROWS_FLOW, (1, 2), ["exit"]),
    ("checkpoint.publishing", 3, "exit"),
    ("checkpoint.published", 4, "exit"),
    *product(STOPS, [1], ["stop"]),
]


@pytest.mark.soak  # its restart takes as long as all the rows where two tests share the machine
@pytest.mark.parametrize(("name", "nth", "action"), CASES)
def test_a_coordinator_at(
    *,
    name: str,
    nth: int,
    action: str,
    short: dict[str, str],
    patient: dict[str, str],
    tmp_path: Path,
) -> None:
    environ = patient if action == "exit" else short
    faults = {"coordinator": f"{name}:{nth}:{action}"}
    with local_fabric(PARALLELISM, slots=1, environ=environ, faults=faults) as running:
        ordeal = StreamOrdeal(running, tmp_path, made=LONG)
        ordeal.submit()
        wait_until(lambda: hit_coordinator(running, name), PATIENCE_S)
        overcome(running, action)
        ordeal.end(ordeal.complete())


@pytest.mark.soak
def test_it_dies_as_it_brings_a_stream_back(short: dict[str, str], tmp_path: Path) -> None:
    """An agent is lost, the checkpoint to go on from is found whole, and nobody hears of it."""
    faults = {"coordinator": f"{RESTORING}:1:exit"}
    with local_fabric(PARALLELISM, slots=1, environ=short, faults=faults) as running:
        ordeal = StreamOrdeal(running, tmp_path, made=LONG)
        ordeal.submit()
        ordeal.go_on(1, PATIENCE_S)
        running.kill(0)
        wait_until(lambda: hit_coordinator(running, RESTORING), PATIENCE_S)
        overcome(running, "exit")
        running.restart(0)
        ordeal.end(ordeal.complete())


@pytest.mark.soak
def test_an_agent_dies_while_nobody_coordinates(short: dict[str, str], tmp_path: Path) -> None:
    """Amid a checkpoint, which nobody will complete."""
    faults = {"coordinator": "checkpoint.acknowledged:2:exit"}
    with local_fabric(PARALLELISM, slots=1, environ=short, faults=faults) as running:
        ordeal = StreamOrdeal(running, tmp_path, made=LONG)
        ordeal.submit()
        wait_until(lambda: hit_coordinator(running, "checkpoint.acknowledged"), PATIENCE_S)
        running.kill(1)
        running.kill_coordinator()
        running.start_coordinator()
        running.restart(1)
        ordeal.end(ordeal.complete())


def test_everybody_dies(short: dict[str, str], tmp_path: Path) -> None:
    """Nothing is left but what was written (F24)."""
    with local_fabric(PARALLELISM, slots=1, environ=short) as running:
        with running.held():
            ordeal = StreamOrdeal(running, tmp_path)
            ordeal.submit()
            ordeal.go_on(1, PATIENCE_S)
            for i in range(PARALLELISM):
                running.kill(i)
            running.kill_coordinator()
            running.agents = []
            running.start_coordinator()
            running.agents = [running.start_agent(i) for i in range(PARALLELISM)]
            running.wait_attached()
            at_fault = ordeal.complete()
            ordeal.go_on(2, PATIENCE_S)
        ordeal.end(at_fault)


def test_every_place_is_tried() -> None:
    assert {name for name, *_ in CASES} | {RESTORING} == set(POINTS)
