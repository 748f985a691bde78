"""Ray Data: hash shuffle of blocks that lie in its object store beforehand."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from bench.harness import Case
from bench.shuffling.data import mapped, parts, placed, sums
from bench.shuffling.run import ShuffleRun


def run(case: Case) -> ShuffleRun:
    """As many CPUs as the case has workers."""
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.data import DataContext
    from ray.data.context import ShuffleStrategy

    n_workers = case.parameters["workers"]
    stack = ExitStack()
    ray.init("local", num_cpus=2 * n_workers, include_dashboard=False, logging_level=logging.ERROR,
             runtime_env={"env_vars": {"PYTHONPATH": os.getcwd()}})  # fmt: skip
    stack.callback(ray.shutdown)
    context = DataContext.get_current()
    context.shuffle_strategy = ShuffleStrategy.HASH_SHUFFLE
    context.enable_progress_bars = False
    rows = ray.data.from_arrow([mapped(path) for path in parts(case, "arrow")]).materialize()

    def arrived(what: Callable[[pa.Table], pa.Table]) -> list[dict[str, Any]]:
        moved = rows.repartition(n_workers, keys=["k"])
        found: list[dict[str, Any]] = moved.map_batches(
            what, batch_format="pyarrow", batch_size=None
        ).take_all()
        return found

    return ShuffleRun(lambda: arrived(_sums), lambda: arrived(_placed), stack)


def _sums(table: pa.Table) -> pa.Table:
    return pa.Table.from_pylist([sums(table)])


def _placed(table: pa.Table) -> pa.Table:
    return pa.Table.from_pylist([placed(table)])
