"""Branches of a stream in stages: one reader of its splits, watermarks beside it."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from fabric.config import CheckpointConfig
from fabric.coordinator.planner.picture import explain
from fabric.coordinator.planner.stages import StageGraph
from fabric.errors import PlanError
from fabric.plan.check import check
from fabric.plan.codec import decode, encode
from fabric.plan.expr import Alias, Call, Column, Literal, SortKey
from fabric.plan.nodes import (
    Branches,
    Changes,
    Filter,
    LookupJoin,
    Node,
    NodeConfig,
    Plan,
    Select,
    SideOutput,
    Sink,
    StreamAggregate,
    StreamScan,
    TopN,
    Union,
    Watermark,
    WithColumns,
)
from fabric.plan.schema import schema_of
from fabric.plan.sources import FollowedFiles
from fabric.plan.stream import WATERMARK
from fabric.plan.walk import walk
from tests.coordinator.planner.test_streams import (
    BY_MINUTE,
    COUNT,
    OUT,
    SCAN,
    TABLE,
    TIMED,
    WINDOW,
    K,
    V,
    kinds,
    plan,
)

FEW = Filter(SCAN, Call("gt", (V, Literal(3, pa.int64()))), path="few")
LATER = replace(TIMED, bound_us=60_000_000, path="later")
BY_LATER = StreamAggregate(LATER, (K,), COUNT, WINDOW, "ts", path="by_later")


def written(*frames: Node) -> Node:
    return Union(
        tuple(Sink(one, replace(OUT, path=f"/{number}")) for number, one in enumerate(frames))
    )


def checked(graph: StageGraph) -> Branches:
    """The branches of a plan with one source; each watermark is where that is read."""
    assert explain(graph, CheckpointConfig()).svg
    scans = [n for stage in graph.stages for n in walk(stage.root) if isinstance(n, StreamScan)]
    assert len(scans) == 1
    for stage in graph.stages:
        nodes = walk(stage.root)
        if any(isinstance(node, Watermark) for node in nodes):
            assert any(isinstance(node, StreamScan) for node in nodes)
        assert decode(encode(Plan(stage.root))).root == stage.root
    (reader,) = (stage for stage in graph.stages if isinstance(stage.root, Branches))
    assert reader.root.path.endswith("/branches")
    assert isinstance(reader.root, Branches)
    read = {edge.side.partition("/")[0] for edge in graph.outputs[reader.stage]}
    assert read == {str(number) for number in range(len(reader.root.inputs))}
    return reader.root


@pytest.mark.parametrize("n_tasks", [1, 3])
def test_rows_beside_windows(n_tasks: int) -> None:
    graph = plan(written(BY_MINUTE, Select(SCAN, (K,))), n_tasks)
    branches = checked(graph)
    tops = sorted(kinds(top)[-1] for top in branches.inputs)
    assert tops == ["StreamScan", "Watermark"]
    assert {edge.mode for edge in graph.edges if not edge.is_result} == {"pipelined"}
    (windows,) = (top for top in branches.inputs if "Watermark" in kinds(top))
    assert WATERMARK in schema_of(windows).names


def test_two_watermarks() -> None:
    branches = checked(plan(written(BY_MINUTE, BY_LATER)))
    found = [node for node in walk(branches) if isinstance(node, Watermark)]
    assert sorted(node.bound_us for node in found) == [5_000_000, 60_000_000]


def test_one_watermark_that_two_read_is_no_branch() -> None:
    again = replace(BY_MINUTE, keys=(V,), path="again")
    graph = plan(written(BY_MINUTE, again))
    assert not any(isinstance(stage.root, Branches) for stage in graph.stages)


def test_what_branches_share_is_computed_once() -> None:
    low, high = (
        replace(BY_MINUTE, input=Watermark(FEW, "ts", bound_us=bound), path=f"by_{bound}")
        for bound in (1, 2)
    )
    branches = checked(plan(written(low, high, Select(FEW, (K,)), Select(SCAN, (V,)))))
    assert kinds(branches).count("Filter") == 1
    assert any(isinstance(top, Filter) for top in branches.inputs)
    assert any(isinstance(top, StreamScan) for top in branches.inputs)


def test_what_two_stages_share_above_a_watermark_is_a_stage() -> None:
    doubled = WithColumns(TIMED, (Alias(Call("add", (V, V)), "w"),), path="doubled")
    windows = replace(BY_MINUTE, input=doubled, path="windows")
    graph = plan(written(windows, Select(doubled, (Column("w"),)), Select(SCAN, (K,))))
    checked(graph)
    assert sum(kinds(stage.root).count("WithColumns") for stage in graph.stages) == 1


def test_rows_aside_are_told_apart_from_branches() -> None:
    bad = Watermark(SCAN, "ts", on_bad="side", path="timed")
    windows = replace(BY_MINUTE, input=bad, late="side", path="windows")
    graph = plan(written(windows, SideOutput(bad, "bad"), SideOutput(windows, "late"), SCAN))
    branches = checked(graph)
    place = next(n for n, top in enumerate(branches.inputs) if isinstance(top, Watermark))
    sides = [edge.side for edge in graph.edges]
    assert {f"{place}/bad", str(place), "late"} <= set(sides)
    assert schema_of(SideOutput(branches, f"{place}/bad")).names == SCAN.schema.names


def test_a_watermark_stays_with_a_scan_that_puts_rows_aside() -> None:
    files = replace(SCAN, source=FollowedFiles("ndjson", "/in", on_bad="side"), path="files")
    windows = replace(BY_MINUTE, input=replace(TIMED, input=files), path="windows")
    graph = plan(written(windows, SideOutput(files, "unreadable")))
    place = next(n for n, t in enumerate(checked(graph).inputs) if isinstance(t, StreamScan))
    assert f"{place}/unreadable" in [edge.side for edge in graph.edges]


def test_a_table_below_a_branch_is_whole_in_all_its_tasks() -> None:
    found = LookupJoin(SCAN, TABLE, (K,), (K,), "semi", path="look")
    low = replace(BY_MINUTE, input=Watermark(found, "ts"), path="low")
    wide = replace(FEW, path="wide")
    graph = plan(written(low, wide), 2, config={"wide": NodeConfig(parallelism=4)})
    checked(graph)
    (edge,) = (edge for edge in graph.edges if edge.kind == "broadcast")
    assert edge.n_partitions == graph.stages[edge.consumer].n_tasks == 4


def test_keyed_steps_without_event_time_keep_their_tasks() -> None:
    """They are no part of a branch: the reader may have more tasks."""
    first = Changes(TopN(SCAN, (K,), (SortKey(V),), 1, path="first"), path="changes")
    graph = plan(written(BY_MINUTE, Select(first, (K,)), Select(first, (V,))))
    assert "TopN" not in kinds(checked(graph))


def test_no_plan_of_a_user_has_branches() -> None:
    with pytest.raises(PlanError, match="branches have no place"):
        check(Plan(Sink(Branches((TIMED, SCAN)), OUT)))
    with pytest.raises(PlanError, match="branches have no place"):
        check(decode(encode(Plan(Branches((SCAN,))))))
