"""Round-robin, the same for the same input."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fabric.coordinator.planner.placement import place
from fabric.coordinator.planner.stages import RESULT, Edge, Stage, StageGraph
from fabric.errors import PeerLostError
from fabric.plan.nodes import StageInput

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


def test_nobody_there() -> None:
    with pytest.raises(PeerLostError, match="no agent is attached"):
        place(graph(1), [], 0)
