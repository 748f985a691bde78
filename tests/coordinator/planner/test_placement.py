"""Round-robin or where the rows lie, the same for the same input."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from fabric.coordinator.planner.placement import place
from fabric.coordinator.planner.stages import RESULT, Edge, Stage, StageGraph
from fabric.errors import PeerLostError
from fabric.plan.nodes import StageInput
from fabric.plan.sources import Split

SCHEMA = pa.schema([("a", pa.int64())])


def graph(*tasks: int, regions: tuple[int, ...] | None = None) -> StageGraph:
    stages = tuple(
        Stage(
            stage=i, path=f"n{i}", root=StageInput(0, SCHEMA), kind="fragment", n_tasks=n,
            splits=(), region=regions[i] if regions else i,
        )
        for i, n in enumerate(tasks)
    )  # fmt: skip
    edges = [
        Edge(
            edge=i, path=f"e{i}", producer=i, consumer=i + 1 if i + 1 < len(tasks) else RESULT,
            kind="hash", mode="materialised", n_partitions=(*tasks, 1)[i + 1], schema=SCHEMA,
        )
        for i in range(len(tasks))
    ]  # fmt: skip
    return StageGraph(stages, tuple(edges))


def test_task_i_of_every_stage_is_on_the_same_agent() -> None:
    assert place(graph(4, 2), ["b", "a", "c"], 0) == (("a", "b", "c", "a"), ("a", "b"))


def test_jobs_begin_at_different_agents() -> None:
    assert [place(graph(1), ["a", "b"], turn)[0] for turn in range(3)] == [("a",), ("b",), ("a",)]


def test_a_region_is_spread_like_any_other_stage() -> None:
    placed = place(graph(2, 2, 3, regions=(0, 1, 1)), ["a", "b", "c"], 0)
    assert placed == (("a", "b"), ("a", "b"), ("a", "b", "c"))


def scanning(*uris: str) -> StageGraph:
    """A stage whose task i scans the i-th of `uris`, its rows going straight to another stage."""
    made = graph(len(uris), len(uris))
    splits = tuple(((0, (Split(uri, ticket=b"t", n_rows=9),)),) for uri in uris)
    edge = replace(made.edges[0], kind="forward")
    return StageGraph(
        (replace(made.stages[0], splits=splits), made.stages[1]), (edge, made.edges[1])
    )


def test_a_task_goes_where_its_rows_lie_and_who_gets_them_follows() -> None:
    slots = dict.fromkeys(("a", "b", "c"), 4)
    assert place(scanning("c", "c", "a"), slots, 0) == (("c", "c", "a"),) * 2


def test_rows_of_files_and_of_agents_that_are_gone_lie_nowhere() -> None:
    slots = dict.fromkeys(("a", "b"), 4)
    assert place(scanning("/tmp/x.parquet", "gone", "a"), slots, 0)[0] == ("a", "b", "a")


def test_replicas_keep_tasks_spread() -> None:
    slots = dict.fromkeys(("a", "b", "c"), 4)
    assert place(scanning("a,b", "a,b", "a,b"), slots, 0)[0] == ("a", "b", "a")


def test_most_rows_decide() -> None:
    made = scanning("a")
    splits = (Split("a", n_rows=5), Split("b", n_rows=3), Split("b", n_rows=3))
    stages = (replace(made.stages[0], splits=(((0, splits),),)), made.stages[1])
    assert place(replace(made, stages=stages), {"a": 4, "b": 4}, 0)[0] == ("b",)


def test_nobody_there() -> None:
    with pytest.raises(PeerLostError, match="no agent is attached"):
        place(graph(1), [], 0)
