"""What measured sizes change of a stage, and what they leave alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fabric.config import AdaptiveConfig
from fabric.coordinator.planner.adaptive.adapt import adapted
from fabric.coordinator.planner.stages import Stage, StageGraph, graph_text
from fabric.plan.expr import Column, SortKey
from fabric.plan.nodes import Aggregate, Exchange, Sort

MIB = 1 << 20
EVEN = [[60 * MIB] * 2] * 2
HOT = [[300 * MIB, 20 * MIB], [320 * MIB, 20 * MIB]]
SMALL = [[MIB, MIB], [0, 2 * MIB]]


def run(
    a: SimpleNamespace, graph: StageGraph, path: str = "join", **sizes: Any
) -> tuple[StageGraph, Stage]:
    settings = sizes.pop("settings", AdaptiveConfig())
    n_slots = sizes.pop("n_slots", 2)
    stage = a.stage(graph, path)
    after = adapted(graph, stage.stage, a.sizes(graph, stage, **sizes), settings, n_slots)
    return after, after.stages[stage.stage]


def reads(graph: StageGraph, stage: Stage, path: str) -> list[tuple[Any, Any]]:
    (edge,) = (e for e in graph.inputs[stage.stage] if e.path == path)
    found = [stage.read(edge.edge, task) for task in range(stage.n_tasks)]
    return [(read.partitions, read.producers) for read in found if read is not None]


def test_even_partitions_stay_as_they_are(a: SimpleNamespace) -> None:
    graph = a.stages(a.join(a.scan("l"), a.scan("r")))
    after, _ = run(a, graph, left=EVEN, right=EVEN)
    assert after is graph


def test_a_side_that_turned_out_small_is_broadcast(a: SimpleNamespace) -> None:
    graph = a.stages(a.join(a.scan("l"), a.scan("r")))
    after, stage = run(a, graph, left=EVEN, right=SMALL)
    assert stage.n_tasks == 2
    assert reads(after, stage, "join/left") == [((0, 2), (0, 1)), ((0, 2), (1, 2))]
    assert reads(after, stage, "join/right") == [((0, 2), None)] * 2
    assert stage.adapted == (
        "join/right turned out small (4.0 MiB): broadcast instead of hash; each of 2 tasks reads "
        "its part of join/left (240.0 MiB) where it lies",
    )
    assert "  ! join/right turned out small" in graph_text(after)


@pytest.mark.parametrize(
    ("how", "strategy", "settings"),
    [
        ("right", "auto", {}), ("full", "auto", {}), ("inner", "hash", {}),
        ("inner", "auto", {"broadcast_bytes": MIB}), ("inner", "auto", {"enabled": False}),
    ],
)  # fmt: skip
def test_a_small_side_stays_hashed_when_it_must(
    a: SimpleNamespace, how: str, strategy: str, settings: Any
) -> None:
    graph = a.stages(a.join(a.scan("l"), a.scan("r"), how, strategy=strategy))
    after, _ = run(a, graph, left=EVEN, right=SMALL, settings=AdaptiveConfig(**settings))
    assert after is graph


def test_rows_of_one_producer_are_not_left_to_one_task(a: SimpleNamespace) -> None:
    graph = a.stages(a.join(a.scan("l"), a.scan("r")))
    after, _ = run(a, graph, left=[[120 * MIB] * 2, [MIB] * 2], right=SMALL)
    assert after is graph


def test_a_hot_partition_is_split_by_its_producers(a: SimpleNamespace) -> None:
    graph = a.stages(a.join(a.scan("l"), a.scan("r"), "left"))
    after, stage = run(a, graph, left=HOT, right=EVEN)
    assert reads(after, stage, "join/left") == [
        ((0, 1), (0, 1)), ((0, 1), (1, 2)), ((1, 2), None),
    ]  # fmt: skip
    assert reads(after, stage, "join/right") == [((0, 1), None)] * 2 + [((1, 2), None)]
    assert stage.adapted == (
        "partition 0 of join/left is hot (620.0 MiB, others 40.0 MiB): split in 2; each part reads "
        "partition 0 of join/right (120.0 MiB)",
    )
    assert after.result.n_partitions == 3


@pytest.mark.parametrize(
    ("how", "settings"),
    [
        ("right", {}), ("full", {}), ("left", {"skew_factor": 20.0}),
        ("left", {"target_bytes": 1 << 30}), ("left", {"enabled": False}),
    ],
)  # fmt: skip
def test_a_hot_partition_stays_whole_when_it_must(
    a: SimpleNamespace, how: str, settings: Any
) -> None:
    graph = a.stages(a.join(a.scan("l"), a.scan("r"), how))
    after, _ = run(a, graph, left=HOT, right=EVEN, settings=AdaptiveConfig(**settings))
    assert after is graph


def test_the_hot_side_is_split_whichever_it_is(a: SimpleNamespace) -> None:
    graph = a.stages(a.join(a.scan("l"), a.scan("r"), "right"))
    after, stage = run(a, graph, left=EVEN, right=HOT)
    assert [read for _, read in reads(after, stage, "join/right")] == [(0, 1), (1, 2), None]


def test_an_aggregate_above_a_split_is_merged_in_a_stage_of_its_own(a: SimpleNamespace) -> None:
    graph = a.stages(a.summed(a.join(a.scan("l"), a.scan("r"))))
    after, stage = run(a, graph, "summed", left=HOT, right=EVEN)
    assert isinstance(stage.root, Aggregate)
    assert (stage.root.phase, stage.n_tasks) == ("partial", 3)
    added = after.stages[-1]
    assert isinstance(added.root, Aggregate)
    assert (added.root.phase, added.n_tasks, added.added) == ("final", 2, True)
    (edge,) = after.inputs[added.stage]
    assert (edge.kind, edge.keys, edge.path) == ("hash", ("k",), "summed/exchange")
    assert after.result.producer == added.stage
    assert after.result.path == graph.result.path
    assert "merges the parts of summed" in graph_text(after)


def test_tiny_partitions_are_read_by_one_task(a: SimpleNamespace) -> None:
    graph = a.stages(a.summed(a.scan("l")), 8)
    after, stage = run(a, graph, "summed", exchange=[[1000] * 8] * 8)
    assert reads(after, stage, "summed/exchange") == [((0, 8), None)]
    assert stage.adapted == (
        "8 partitions (62.5 KiB) coalesced for 1 tasks: those of up to 1.0 MiB together are read "
        "by one",
    )
    after, stage = run(a, graph, "summed", exchange=[[MIB] * 8] * 8)
    assert [read for read, _ in reads(after, stage, "summed/exchange")] == [(0, 4), (4, 8)]
    lone = [[0, 0, 9 * MIB, 0, 0, 0, 9 * MIB, 0]]
    after, stage = run(a, graph, "summed", exchange=lone * 8)
    assert [read for read, _ in reads(after, stage, "summed/exchange")] == [(0, 6), (6, 8)]


def test_ranges_of_a_sort_stay_in_order_and_whole(a: SimpleNamespace) -> None:
    graph = a.stages(Sort(a.scan("l"), (SortKey(Column("l")),), path="sorted"), 4)
    after, stage = run(a, graph, "sorted", exchange=[[900 * MIB, 10, 10, 10]] * 4)
    assert reads(after, stage, "sorted/exchange") == [((0, 1), None), ((1, 4), None)]
    assert len(stage.adapted) == 1


def test_stages_behind_follow(a: SimpleNamespace) -> None:
    """A sort samples and places the rows of each task: as many tasks as there are now."""
    joined = a.join(a.scan("l"), a.scan("r"))
    graph = a.stages(Sort(joined, (SortKey(Column("l")),), path="sorted"))
    after, stage = run(a, graph, left=HOT, right=EVEN)
    tasks = {each.path: each.n_tasks for each in after.stages}
    assert stage.n_tasks == 3
    assert (tasks["sorted/sample"], tasks["sorted/place"], tasks["sorted"]) == (3, 3, 2)


def test_what_somebody_asked_for_is_kept(a: SimpleNamespace) -> None:
    left, right = a.scan("l"), a.scan("r")
    configured = a.stages(a.join(left, right), join=2)
    written = a.stages(a.join(Exchange(left, "hash", ("k",), 2), right))
    for graph in (configured, written):
        stage = a.stage(graph, "join")
        sizes = {edge.edge: HOT for edge in graph.inputs[stage.stage]}
        assert adapted(graph, stage.stage, sizes, AdaptiveConfig(), 2) is graph


def test_without_measures_nothing_changes(a: SimpleNamespace) -> None:
    graph = a.stages(a.join(a.scan("l"), a.scan("r")))
    assert adapted(graph, a.stage(graph, "join").stage, {}, AdaptiveConfig(), 2) is graph
