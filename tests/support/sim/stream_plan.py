"""The stream that is rescaled in the simulator: rows of a source, counted by key, to a sink.

One job: `planned`, its stages as the planner cuts them for a parallelism; and its keys. One task
reads, counts and writes; of more each counts the keys that an exchange gives it.
"""

from __future__ import annotations

from functools import cache

from fabric.coordinator.optimizer.optimizer import optimize
from fabric.coordinator.planner.planner import plan_stages
from fabric.coordinator.planner.stages import StageGraph
from fabric.io.readers import stream_schema
from fabric.operators.snapshots import N_KEY_GROUPS
from fabric.plan.check import check
from fabric.plan.codec import encode
from fabric.plan.expr import Agg, Alias, Column
from fabric.plan.nodes import Changes, Plan, Sink, StreamAggregate, StreamScan
from fabric.plan.sources import GeneratorStream, Split
from fabric.plan.targets import GateTarget

SCAN, COUNT, OUT = "scan", "count", "out"
"""The paths of the steps that keep something."""
N_SPLITS, N_KEYS = 4, 16
PLACES = 1 << 20
"""More than there are rows in a split: a row travels as one number."""
Row = tuple[int, int]
"""The split, and the row's place in it."""


@cache
def planned(parallelism: int) -> tuple[StageGraph, tuple[bytes, ...]]:
    """The stages, and each as it travels."""
    source = GeneratorStream(n_splits=N_SPLITS)
    scan = StreamScan(source, stream_schema(source), path=SCAN)
    count = (Alias(Agg("count", None), "n"),)
    counts = StreamAggregate(scan, (Column("key"),), count, path=COUNT)
    plan = Plan(Sink(Changes(counts, path="changes"), GateTarget("out"), path=OUT))
    splits = {SCAN: [Split(str(number)) for number in range(N_SPLITS)]}
    graph = plan_stages(optimize(check(plan)), splits, parallelism)
    return graph, tuple(encode(Plan(stage.root)) for stage in graph.stages)


def key_of(row: Row) -> int:
    """The key of a row."""
    return (row[0] * 7 + row[1] * 5 + row[1] // 3) % N_KEYS


def group_of(key: int) -> int:
    """The key group of a key: they are spread over all groups."""
    return (key * 12_577 + 331) % N_KEY_GROUPS
