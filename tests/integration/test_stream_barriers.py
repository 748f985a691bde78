"""Barriers between the tasks of a running stream are doubled, repeated late, or lost (F15).

Agents leave meanwhile, so that what the checkpoints hold is used. Windows are those of no fault.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Lock

import pytest

from fabric.agent import outputs
from fabric.agent.pipes import Item, Mark, Port
from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.flight.header import Event
from fabric.plan.sources import GeneratorStream
from tests.support import running
from tests.support.compare import unlike
from tests.support.embedded import EmbeddedFabric, embedded_pair
from tests.support.held import held
from tests.support.sampled import SEED
from tests.support.stream_windows import half_seconds, half_seconds_model
from tests.support.wait import wait_until

N_ROWS, RATE = 60_000, 6_000
SOURCE = GeneratorStream(
    n_rows=N_ROWS, n_splits=3, rows_per_s=RATE, start_us=1_767_225_600_000_000, disorder_us=50_000
)
CONFIG = CheckpointConfig(interval_s=0.1, timeout_s=2.0, retained=2)


class Disturbed:
    """What `marks` of an edge gave, with barriers too many or too few."""

    def __init__(self) -> None:
        self._rng, self._lock = Random(SEED), Lock()
        self.did: Counter[str] = Counter()

    def __call__(self, sends: list[tuple[Port, Item]]) -> list[tuple[Port, Item]]:
        with self._lock:  # tasks are threads here
            return [send for each in sends for send in self._one(*each)]

    def _one(self, port: Port, mark: Item) -> list[tuple[Port, Item]]:
        if not isinstance(mark, Mark) or mark.event != Event.BARRIER:
            return [(port, mark)]
        what = self._rng.choice(["", "", "doubled", "late", "lost" if mark.value % 3 == 0 else ""])
        self.did[what] += 1
        late = Mark(mark.producer, Event.BARRIER, max(1, mark.value - self._rng.randint(1, 5)))
        return {
            "": [(port, mark)],
            "doubled": [(port, mark), (port, mark)],
            "late": [(port, late), (port, mark), (port, late)],
            "lost": [],
        }[what]


@pytest.fixture
def disturbed(monkeypatch: pytest.MonkeyPatch) -> Disturbed:
    made, marks = Disturbed(), outputs.EdgeOutput.marks
    monkeypatch.setattr(
        outputs.EdgeOutput, "marks", lambda self, event, value: made(marks(self, event, value))
    )
    return made


def told(fabric: EmbeddedFabric, job: str) -> list[pb.CheckpointStatus]:
    return list(fabric.control.list_checkpoints(pb.CheckpointsRequest(job_id=job)).checkpoints)


def newest(fabric: EmbeddedFabric, job: str) -> int:
    over = {"under way", "aborted"}
    return max((c.checkpoint for c in told(fabric, job) if c.state not in over), default=0)


def test_windows_are_the_same(tmp_path: Path, disturbed: Disturbed) -> None:
    config = CoordinatorConfig(checkpoint=replace(CONFIG, folder=str(tmp_path)))
    with embedded_pair(3, slots=4, config=config) as fabric:
        late = set[str]()

        def goes_on(seen: int) -> bool:
            late.update(one.reason for one in told(fabric, job) if one.state == "aborted")
            return newest(fabric, job) >= seen + 2

        with held(tmp_path.with_suffix(".held")):
            job = fabric.submit(half_seconds(SOURCE, 100_000), parallelism=3)
            for agent in (*fabric.agents[1:], None):
                seen = newest(fabric, job)
                wait_until(lambda seen=seen: goes_on(seen), 120)
                if agent is not None:
                    agent.close()
        fabric.wait(job)
        found = running.result(fabric.control, fabric.transport, job)
    assert unlike(found.drop_columns("window_end"), half_seconds_model(SOURCE)) == ""
    assert {"doubled", "late", "lost"} <= disturbed.did.keys(), disturbed.did
    assert any("no answer in" in reason or "before all its barriers" in reason for reason in late)
