"""Tasks that keep their splits together: whatever the interleaving, none runs away, none stalls."""

from __future__ import annotations

from random import Random

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from fabric.coordinator.core.jobs.watermark_alignment import WatermarkAlignment
from fabric.event_time import END_OF_TIME
from fabric.event_time.source import SourceWatermarks
from fabric.event_time.watermarks import Bounded

DRIFT, STEP_MAX, N_ROWS = 20, 15, 12


class Task:
    """One task's splits; each split has rows `step` apart."""

    def __init__(self, number: int, steps: list[int], alignment: WatermarkAlignment) -> None:
        self.number, self.alignment = number, alignment
        self.steps = {f"{number}.{i}": step for i, step in enumerate(steps)}
        self.at = dict.fromkeys(self.steps, 0)
        self.source = SourceWatermarks(self.steps, Bounded(0), drift_us=DRIFT)
        for split in self.steps:
            self.read(split)

    def read(self, split: str) -> None:
        time = self.at[split] * self.steps[split]
        self.source.row_watermarks(split, np.array([time]), None, 0)
        self.at[split] += 1
        if self.at[split] == N_ROWS:
            self.source.on_end(split)

    def readable(self) -> list[str]:
        held = self.source.held_back()
        return [s for s in self.steps if self.at[s] < N_ROWS and s not in held]

    def exchange(self) -> None:
        slowest = self.source.slowest()
        assert slowest is not None
        self.source.slowest_elsewhere_us = self.alignment.report("w", (0, self.number), slowest)

    @property
    def moving(self) -> list[int]:
        return [(n - 1) * self.steps[s] for s, n in self.at.items() if n < N_ROWS]


@given(
    steps=st.lists(
        st.lists(st.integers(0, STEP_MAX), min_size=1, max_size=2), min_size=2, max_size=3
    ),
    seed=st.integers(0, 1 << 32),
)
def test_no_split_runs_away_and_all_are_read(steps: list[list[int]], seed: int) -> None:
    alignment, rng = WatermarkAlignment(), Random(seed)
    tasks = [Task(number, each, alignment) for number, each in enumerate(steps)]
    for task in [*tasks, *tasks]:
        task.exchange()
    while any(task.moving for task in tasks):
        task = rng.choice(tasks)
        if rng.random() < 0.3 or not (readable := task.readable()):
            for each in [*tasks, *tasks]:
                each.exchange()
            assert any(each.readable() for each in tasks), "all of them wait"
            continue
        split = rng.choice(readable)
        slowest = min(time for each in tasks for time in each.moving)
        assert (task.at[split] - 1) * task.steps[split] <= slowest + DRIFT
        task.read(split)


def test_a_task_that_ended_or_is_idle_holds_nobody_back() -> None:
    alignment = WatermarkAlignment()
    assert alignment.report("w", (0, 0), 5) == END_OF_TIME
    assert alignment.report("w", (0, 1), 90) == 5
    assert alignment.report("other", (0, 1), 7) == END_OF_TIME
    assert alignment.report("w", (0, 0), END_OF_TIME) == 90
    assert alignment.report("w", (0, 1), 95) == END_OF_TIME
    assert alignment.report("w", (0, 0), 6) == 95
    alignment.remove((0, 0))
    assert alignment.report("w", (0, 1), 99) == END_OF_TIME
