"""Daft on its Ray runner: repartition by key, the rows held beforehand."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from bench.harness import Case
from bench.shuffling.data import parts, placed
from bench.shuffling.run import ShuffleRun


def run(case: Case) -> ShuffleRun:
    """Its runner is chosen once a process."""
    os.environ.setdefault("DAFT_PROGRESS_BAR", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import daft
    import ray

    n_workers = case.parameters["workers"]
    stack = ExitStack()
    ray.init(num_cpus=n_workers, include_dashboard=False, logging_level=logging.ERROR)
    stack.callback(ray.shutdown)
    daft.set_runner_ray()
    rows = daft.read_parquet(parts(case, "parquet")).collect()

    def moved() -> Any:
        return rows.repartition(n_workers, "k").collect()

    def partitions() -> Iterator[dict[str, float]]:
        for part in moved().iter_partitions():
            held = ray.get(part) if isinstance(part, ray.ObjectRef) else part
            yield placed(held.to_arrow())

    return ShuffleRun(moved, partitions, stack)
