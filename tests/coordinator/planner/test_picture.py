"""Stages joined to one plan again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.planner.picture import explain, joined
from fabric.coordinator.submit.preparation import prepare
from fabric.coordinator.submit.splits import Surroundings
from fabric.plan.codec import encode
from fabric.plan.expr import Agg, Alias, Column, SortKey
from fabric.plan.nodes import Aggregate, Exchange, Plan, Scan, Sort, StageInput
from fabric.plan.sources import FileSource
from fabric.plan.walk import walk


def graph_of(root: Any) -> Any:
    around = Surroundings(
        parallelism=2, n_cpus=2, embedded=True, datasets={}, agents=frozenset(("a", "b"))
    )
    request = pb.SubmitRequest(plan=encode(Plan(root)), parallelism=2)
    return prepare(request, around, 1 << 20, None).graph


def test_every_stage_and_edge_is_in_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"k": list(range(80)), "v": [1] * 80}), path, row_group_size=10)
    scan = Scan(FileSource("parquet", (str(path),)), pq.read_schema(path), path="t")
    by = Aggregate(scan, (Column("k"),), (Alias(Agg("sum", Column("v")), "n"),), path="by")
    graph = graph_of(Sort(by, (SortKey(Column("n")),), path="sorted"))
    nodes = walk(joined(graph))
    assert not any(isinstance(node, StageInput) for node in nodes)
    paths = {edge.path for edge in graph.edges if not edge.is_result}
    assert {node.path for node in nodes if isinstance(node, Exchange)} == paths
    assert sum(isinstance(node, Scan) for node in nodes) == 1
    told = explain(graph, CheckpointConfig())
    assert all(path in told.optimised and path in told.svg for path in paths)


def test_names_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"<script>": [1]}), path)
    scan = Scan(FileSource("parquet", (str(path),)), pq.read_schema(path), path="<b>&")
    assert "<script>" not in explain(graph_of(scan), CheckpointConfig()).svg
