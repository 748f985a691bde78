"""Barriers doubled, late and lost between tasks, in a job whose coordinator crashes meanwhile."""

from __future__ import annotations

from collections import Counter

from .barrier_world import BarrierWorld


def test_every_row_is_published_once(seeds: range) -> None:
    happened: Counter[str] = Counter()
    for seed in seeds:
        try:
            (world := BarrierWorld(seed)).run()
            world.check()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        happened += world.happened
        happened["ended"] += world.ended
    if len(seeds) > 1:
        for what in ("lost", "doubled", "late"):
            assert happened[f"barrier {what}"], f"{what} never happened: {happened}"
        for what in ("unaligned", "restored in flight"):
            assert happened[what], f"{what} never happened: {happened}"
        for what in ("declined", "crash", "lost", "restore", "ended"):
            assert happened[what], f"{what} never happened: {happened}"
