"""Stages about to start, and what was measured of their inputs."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from fabric.coordinator.planner.planner import plan_stages
from fabric.coordinator.planner.stages import Stage, StageGraph
from fabric.plan.check import check
from fabric.plan.expr import Agg, Alias, Column
from fabric.plan.nodes import Aggregate, Join, Node, NodeConfig, Plan, Scan
from fabric.plan.sources import FileSource, Split

MIB = 1 << 20


def scan(name: str) -> Scan:
    """`k` and a value called like the scan, from files whose size nobody knows."""
    schema = pa.schema([("k", pa.int64()), (name, pa.int64())])
    return Scan(FileSource("parquet", (f"/{name}.parquet",)), schema, path=name)


def join(left: Node, right: Node, how: str = "inner", **settings: object) -> Join:
    return Join(left, right, (Column("k"),), (Column("k"),), how, path="join", **settings)


def summed(node: Node, column: str = "l", function: str = "sum") -> Aggregate:
    found = Alias(Agg(function, Column(column)), "found")
    return Aggregate(node, (Column("k"),), (found,), path="summed")


def stages_of(root: Node, n: int = 2, **parallelism: int) -> StageGraph:
    """The stages of a plan over `n` tasks."""
    config = tuple((path, NodeConfig(parallelism=each)) for path, each in parallelism.items())
    plan = check(Plan(root, config))
    splits = {name: [Split(f"{name}{i}") for i in range(n)] for name in ("l", "r", "o")}
    return plan_stages(plan, splits, n)


def stage_of(graph: StageGraph, path: str) -> Stage:
    """The stage whose root is at `path`, the last one."""
    return [stage for stage in graph.stages if stage.path == path][-1]


def sizes_of(graph: StageGraph, stage: Stage, **sizes: list[list[int]]) -> dict[int, object]:
    """Sizes by producer and partition, given by the last part of an edge's path."""
    return {
        edge.edge: sizes[edge.path.rpartition("/")[2]]
        for edge in graph.inputs[stage.stage]
        if edge.adaptive
    }


@pytest.fixture
def a() -> SimpleNamespace:
    return SimpleNamespace(
        scan=scan, join=join, summed=summed, stages=stages_of, stage=stage_of, sizes=sizes_of,
        mib=MIB,
    )  # fmt: skip
