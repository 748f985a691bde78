"""Daft on its Ray runner: repartition by key and sums of what arrived, the rows held beforehand.

Daft runs one worker process a Ray node, so there are as many nodes of one CPU as there are workers:
on a single node nothing would leave the process.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.compute as pc

from bench.harness import Case
from bench.shuffling.data import parts, placed
from bench.shuffling.run import ShuffleRun

STORE_BYTES = 3 << 30
"""Of each node's object store."""


def run(case: Case) -> ShuffleRun:
    """Its runner is chosen once a process: each case needs a fresh one."""
    os.environ.setdefault("DAFT_PROGRESS_BAR", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import daft
    import ray
    from ray.cluster_utils import Cluster

    n_workers = case.parameters["workers"]
    stack = ExitStack()
    head = {"num_cpus": 1, "object_store_memory": STORE_BYTES, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    stack.callback(cluster.shutdown)
    for _ in range(n_workers - 1):
        cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
    ray.init(address=cluster.address, logging_level=logging.ERROR)
    stack.callback(ray.shutdown)
    daft.set_runner_ray()
    rows = daft.read_parquet(parts(case, "parquet")).collect()
    moved = rows.repartition(n_workers, "k")
    sums = [daft.col("k").count().alias("n")]
    sums += [daft.col(name).sum() for name in ("v", "w")] + [daft.col("k").sum()]
    if case.parameters["strings"]:
        sums.append(daft.col("s").length().sum())

    def partitions() -> Iterator[dict[str, float]]:
        pieces = []
        for part in moved.collect().iter_partitions():
            held = ray.get(part) if isinstance(part, ray.ObjectRef) else part
            pieces.append(held.to_arrow())
        whole = _joined(pieces)
        if len(whole) != n_workers:
            raise RuntimeError(f"Daft made {len(whole)} partitions without common keys")
        yield from map(placed, whole)

    return ShuffleRun(lambda: moved.agg(*sums).to_pydict(), partitions, stack)


def _joined(pieces: list[pa.Table]) -> list[pa.Table]:
    """A partition comes in pieces, which it does not name: those with common keys are one."""
    found: list[pa.Table] = []
    for piece in pieces:
        mine = [t for t in found if pc.any(pc.is_in(t["k"], pc.unique(piece["k"]))).as_py()]
        found = [t for t in found if not any(t is other for other in mine)]
        found.append(pa.concat_tables([*mine, piece]))
    return found
