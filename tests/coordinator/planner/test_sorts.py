"""Sorts over several tasks: stages, edges, and when one task is enough."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fabric.coordinator.planner.planner import plan_stages
from fabric.coordinator.planner.sorts import RANGE_BYTES, SMALL_BYTES
from fabric.coordinator.planner.stages import StageGraph
from fabric.plan.check import check
from fabric.plan.expr import Column, SortKey
from fabric.plan.nodes import (
    Exchange,
    Filter,
    Limit,
    Node,
    NodeConfig,
    Plan,
    Scan,
    Select,
    Sink,
    Sort,
)
from fabric.plan.schema import schema_of
from fabric.plan.sources import FileSource, Split
from fabric.plan.targets import FileTarget
from fabric.plan.walk import walk

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.bool_())])
SCAN = Scan(FileSource("parquet", ("x",)), SCHEMA)
SORT = Sort(SCAN, (SortKey(Column("a")),))


def plan(root: Node, n_rows: int = SMALL_BYTES, config: dict[str, int] | None = None) -> StageGraph:
    """Stages of `root` at parallelism 4; the scan has 8 splits."""
    settings = {path: NodeConfig(parallelism=n) for path, n in (config or {}).items()}
    checked = check(Plan(root, tuple(settings.items())))
    splits = [Split(f"{i}", n_rows=n_rows // 8, n_bytes=n_rows) for i in range(8)]
    return plan_stages(checked, {"scan_1": splits}, 4)


def test_rows_are_computed_once_sampled_placed_and_sorted() -> None:
    graph = plan(SORT)
    assert [stage.path for stage in graph.stages] == [
        "scan_1", "sort_1/sample", "sort_1/place", "sort_1",
    ]  # fmt: skip
    assert [stage.n_tasks for stage in graph.stages] == [4] * 4
    shape = [(e.path, e.producer, e.consumer, e.kind) for e in graph.edges]
    assert shape == [
        ("sort_1/shown", 0, 1, "forward"),
        ("sort_1/rows", 0, 2, "forward"),
        ("sort_1/samples", 1, 2, "broadcast"),
        ("sort_1/exchange", 2, 3, "range"),
        ("sort_1", 3, -1, "forward"),
    ]
    assert [e.ordered for e in graph.edges] == [False] * 4 + [True]
    assert graph.edges[3].keys == ("__range",)
    assert schema_of(graph.stages[3].root) == SCHEMA


def test_what_follows_stays_with_the_sorted_rows() -> None:
    graph = plan(Select(Filter(SORT, Column("b")), (Column("a"),)))
    assert len(graph.stages) == 4
    assert isinstance(graph.stages[3].root, Select)


def test_a_configured_number_of_ranges() -> None:
    graph = plan(SORT, config={"sort_1": 7})
    assert [stage.n_tasks for stage in graph.stages] == [4, 4, 4, 7]
    assert len(plan(SORT, config={"sort_1": 1}).stages) == 2


def test_many_rows_have_more_ranges_than_tasks_run_at_once() -> None:
    n_rows = 9 * RANGE_BYTES // 9  # of 9 bytes
    assert [stage.n_tasks for stage in plan(SORT, n_rows).stages] == [4, 4, 4, 12]
    assert plan(SORT, 10**12).stages[-1].n_tasks == 128
    assert plan(SORT, n_rows, {"sort_1": 7}).stages[-1].n_tasks == 7


FILTERED = Filter(SORT, Column("b"))


@pytest.mark.parametrize(
    "root",
    [Limit(FILTERED, 5), Exchange(FILTERED, "gather"),
     Sink(FILTERED, FileTarget("parquet", "x.parquet", single=True))],
    ids=["limit", "gather", "file"],
)  # fmt: skip
def test_rows_that_one_task_wants_in_order_are_sorted_in_one(root: Node) -> None:
    graph = plan(root)
    sort = next(stage for stage in graph.stages if Sort in map(type, walk(stage.root)))
    assert sort.n_tasks == 1
    assert {edge.kind for edge in graph.edges if not edge.is_result} == {"gather"}


@pytest.mark.parametrize("root", [SORT, Limit(SORT, 5)], ids=["sort", "limit"])
def test_small_ones_and_the_first_rows_go_to_one_task(root: Node) -> None:
    graph = plan(root, n_rows=SMALL_BYTES if isinstance(root, Limit) else 1000)
    assert [stage.n_tasks for stage in graph.stages] == [4, 1]
    assert graph.edges[0].kind == "gather"
