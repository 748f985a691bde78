"""Barriers doubled, late and lost between tasks, in a job whose coordinator crashes meanwhile."""

from __future__ import annotations

from collections import Counter

from .barrier_world import N_SOURCES, BarrierWorld
from .test_checkpoints import HEALED_STEPS, STEPS


def run(seed: int) -> BarrierWorld:
    """A job with faults, then without, until it has ended."""
    world = BarrierWorld(seed)
    for step in range(STEPS + HEALED_STEPS):
        if world.ended or world.failed:
            return world
        if step == STEPS:
            world.faults = 0.0
        world.step()
    raise AssertionError(f"seed {seed}: nothing fails any more, and the job does not end")


def test_every_row_is_published_once(seeds: range) -> None:
    happened: Counter[str] = Counter()
    for seed in seeds:
        try:
            world = run(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        happened += world.happened
        assert world.completed == sorted(set(world.completed)), f"seed {seed}"
        assert set(world.out().values()) <= {1}, f"seed {seed}: rows came twice"
        if world.ended:
            happened["ended"] += 1
            wanted = {(n, row) for n in range(N_SOURCES) for row in range(world.last)}
            assert set(world.out()) == wanted, f"seed {seed}: rows are lost"
        else:
            assert world.damaged, f"seed {seed}: the job failed for nothing"
    if len(seeds) > 1:
        for what in ("lost", "doubled", "late"):
            assert happened[f"barrier {what}"], f"{what} never happened: {happened}"
        for what in ("declined", "crash", "lost", "restore", "ended"):
            assert happened[what], f"{what} never happened: {happened}"
