"""An agent of a stream stops for longer than its lease, and comes back when others have its tasks.

What it does then, prepares, acknowledges or publishes late, changes nothing (F16). And agents that
take long, or own the dataset that a stream is written to.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

import fabric
from fabric.plan.targets import DatasetTarget
from tests.support.faults import wait_hit
from tests.support.local import local_fabric
from tests.support.stream_ordeal import (
    PARALLELISM,
    StreamOrdeal,
    check_numbered,
    reference,
    source,
)
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(300)
PATIENCE_S = 120.0
ZOMBIES = [
    ("stream.rows-came", 400), ("stream.barrier-came", 9), ("stream.sink-prepared", 4),
    ("stream.snapshot-storing", 9), ("stream.snapshot-stored", 9), ("stream.told-complete", 2),
    ("agent.publishing", 2), ("agent.published", 2),
]  # fmt: skip
HOLDING = "stream.publishing"
PUTS = list(product(("agent.put-batch", "agent.put-sealed"), (1, 3)))


@pytest.mark.soak
@pytest.mark.parametrize(("name", "nth"), ZOMBIES)
def test_a_zombie(name: str, nth: int, short: dict[str, str], tmp_path: Path) -> None:
    faults = {f"agent {i}": f"{name}:{nth}:stop" for i in range(PARALLELISM)}
    with local_fabric(PARALLELISM, slots=2, environ=short, faults=faults) as running:
        ordeal = StreamOrdeal(running, tmp_path)
        ordeal.submit()
        zombie = wait_hit(running, name, PATIENCE_S)
        wait_until(lambda: len(running.attached()) < PARALLELISM, PATIENCE_S)
        first = ordeal.complete()
        wait_until(lambda: ordeal.complete() > first or held_up(ordeal), PATIENCE_S)  # without it
        at_fault = ordeal.complete()
        running.resume(zombie)
        running.wait_attached()
        ordeal.end(at_fault)
        assert "lease over" in running.agents[zombie].log.read_text()


@pytest.mark.soak
def test_a_zombie_that_keeps_others_from_publishing(short: dict[str, str], tmp_path: Path) -> None:
    """It stopped amid publishing: nobody may go on with that before it does; the job waits."""
    faults = {f"agent {i}": f"{HOLDING}:2:stop" for i in range(PARALLELISM)}
    with local_fabric(PARALLELISM, slots=2, environ=short, faults=faults) as running:
        ordeal = StreamOrdeal(running, tmp_path)
        ordeal.submit()
        zombie = wait_hit(running, HOLDING, PATIENCE_S)
        wait_until(lambda: held_up(ordeal), PATIENCE_S)
        at_fault = ordeal.complete()
        running.resume(zombie)
        ordeal.end(at_fault)


@pytest.mark.soak
def test_a_checkpoint_that_takes_too_long_is_given_up(
    short: dict[str, str], tmp_path: Path
) -> None:
    """A task's storage is slow once: the checkpoint ends with that reason, the next one comes."""
    faults = {"agent 1": "stream.snapshot-storing:9:sleep=6"}
    with local_fabric(PARALLELISM, slots=1, environ=short, faults=faults) as running:
        ordeal = StreamOrdeal(running, tmp_path, timeout_s=4.0)
        ordeal.submit()
        late = "no answer in 4 s from"
        wait_until(lambda: any(late in reason for reason in aborted(ordeal)), PATIENCE_S)
        ordeal.end(ordeal.complete())
        kinds = [event.kind for event in ordeal.events()]
        assert kinds.count("job restored") == 1, "the job went on all the while"


@pytest.mark.soak
@pytest.mark.parametrize(("name", "nth"), PUTS)
def test_an_owner_of_a_dataset(name: str, nth: int, short: dict[str, str], tmp_path: Path) -> None:
    """An agent dies with rows of a put in its hands; it owns them again when it is back."""
    faults = {f"agent {i}": f"{name}:{nth}:exit" for i in range(PARALLELISM)}
    patience = {**short, "FABRIC_COORDINATOR_RETRY_S": "1"}  # an agent needs a moment to start
    with local_fabric(PARALLELISM, slots=1, environ=patience, faults=faults) as running:
        target = DatasetTarget("numbered", ("key",), PARALLELISM, "append")
        ordeal = StreamOrdeal(running, tmp_path, numbered=target)
        ordeal.submit()
        running.restart(wait_hit(running, name, PATIENCE_S))
        ordeal.end()
        with fabric.connect(f"fabric://{running.address}", token=running.token) as session:
            check_numbered(
                session.read_dataset("numbered").collect(), reference(source())["numbered"]
            )


def held_up(ordeal: StreamOrdeal) -> bool:
    """It stopped while another thread of it published."""
    return any(event.kind == "not published" for event in ordeal.events())


def aborted(ordeal: StreamOrdeal) -> list[str]:
    return [one.reason for one in ordeal.checkpoints() if one.state == "aborted"]
