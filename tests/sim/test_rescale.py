"""However often a stream is rescaled, and whatever dies meanwhile: every row is seen once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from fabric.coordinator.core.events import JobReplanned
from fabric.coordinator.core.jobs import streams
from fabric.coordinator.core.jobs.job_registry import JobRegistry
from fabric.coordinator.core.jobs.jobs import Job
from fabric.coordinator.core.scheduling.rescale import may_switch, switch
from fabric.coordinator.planner.placement import Placement
from fabric.coordinator.planner.stages import Key
from fabric.operators.snapshots import key_groups
from tests.support.sim import stream_worker

from .rescale_world import RescaleWorld

SEEDS = 2_000 if os.environ.get("FABRIC_SOAK") else 40
BLOCK = 20
SEEDS_MAX = 60
"""In which a planted bug is to show."""
DIGESTS = """
from tests.sim.rescale_world import RescaleWorld
for seed in range(2):
    (world := RescaleWorld(seed)).run()
    print(world.trace.digest())
"""


def run(seed: int) -> RescaleWorld:
    """The world of a seed, once all that must hold was checked."""
    world = RescaleWorld(seed)
    try:
        world.run()
    except Exception as error:
        told = f"seed {seed}: {error!r}; replay it with: pytest {__file__} --seed={seed}"
        raise AssertionError(f"{told}\n{world.trace.tail()}") from error
    return world


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`block` is some of the seeds, or the one that is to be seen again."""
    if "block" not in metafunc.fixturenames:
        return
    chosen = metafunc.config.getoption("--seed", None) or os.environ.get("FABRIC_SEED")
    blocks = [range(first, first + BLOCK) for first in range(0, SEEDS, BLOCK)]
    if chosen is not None:
        blocks = [range(int(chosen), int(chosen) + 1)]
    metafunc.parametrize("block", blocks, ids=[f"{b[0]}-{b[-1]}" for b in blocks])


def test_every_row_is_seen_once(block: range) -> None:
    happened: Counter[str] = Counter()
    for seed in block:
        happened += run(seed).happened
    if len(block) > 1:
        for what in (
            "all rescaled", "refused", "restarted", "slots are short", "killed", "cut", "crashed",
            "crashed while it rescales", "crashed while it switches", "task failed",
            "checkpoint failed", "asked while a checkpoint is under way", "asked when quiet",
            "asked while an agent is away", "asked while tasks leave", "asked when restoring",
            "asked when running", "asked twice", "asked for the same",
        ):  # fmt: skip
            assert happened[what], f"{what} never happened: {happened}"


def test_a_seed_says_all() -> None:
    """Sets and dictionaries of texts have another order in every process."""
    env = {**os.environ, "PYTHONHASHSEED": "1"}
    there = subprocess.run(
        [sys.executable, "-c", DIGESTS], env=env, check=True, capture_output=True, text=True
    )
    assert there.stdout.split() == [run(seed).trace.digest() for seed in range(2)]


def first_attempts_again(job: Job, new: JobReplanned, placement: Placement) -> list[Key]:
    """The new tasks begin with attempts that others have had."""
    gone = switch(job, new, placement)
    for key, task in job.tasks.items():
        job.tasks[key] = task._replace(attempt=0)
    return gone


def does_not_wait(job: Job) -> bool:
    """The new tasks begin beside those that leave."""
    leaving, job.leaving = job.leaving, {}
    try:
        may = may_switch(job)
    finally:
        job.leaving = {} if may else leaving
    return may


def forgets_stages(self: JobRegistry, job: Job, gone: Iterable[Key]) -> None:
    """The new stages are not written down."""


def keeps_records(self: JobRegistry, job: Job, gone: Iterable[Key]) -> None:
    """What is written down of tasks that are no more stays."""
    self.planned(job)
    for key in job.tasks:
        self.task_changed(job, key)


def forgets_tasks(self: JobRegistry, job: Job, gone: Iterable[Key]) -> None:
    """The new stages are written down, their tasks are not."""
    self.planned(job)


def as_of_two(task: int, n_tasks: int) -> range:
    """A task takes the key groups that it had among other ones."""
    return key_groups(task, max(n_tasks, 2))


PLANTS: dict[str, tuple[object, str, Callable[..., object]]] = {
    "attempts again": (streams, "switch", first_attempts_again),
    "does not wait for those that leave": (streams, "may_switch", does_not_wait),
    "stages not written down": (JobRegistry, "replanned", forgets_stages),
    "tasks not written down": (JobRegistry, "replanned", forgets_tasks),
    "records of tasks that are no more": (JobRegistry, "replanned", keeps_records),
    "other key groups restored": (stream_worker, "key_groups", as_of_two),
}


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*PLANTS[name])
    for seed in range(SEEDS_MAX):
        try:
            run(seed)
        except AssertionError:
            return
    pytest.fail(f"{SEEDS_MAX} seeds did not find: {name}")
