"""Which inputs may go to any task: the shape of the stage decides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from fabric.coordinator.planner.adaptive.distribution import Dealing, dealing
from fabric.coordinator.planner.stages import StageGraph
from fabric.plan.expr import Agg, Alias, Call, Column, Literal, Over, SortKey, Udf
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Limit,
    Node,
    Select,
    Sort,
    Union,
    Window,
)

K, L = Column("k"), Column("l")


def found(a: SimpleNamespace, graph: StageGraph, path: str, side: str) -> Dealing | None:
    stage = a.stage(graph, path)
    (edge,) = (e for e in graph.inputs[stage.stage] if e.path == f"join/{side}")
    return dealing(graph, stage, edge.edge)


@pytest.mark.parametrize(
    ("how", "left", "right"),
    [
        ("inner", True, True), ("left", True, False), ("right", False, True),
        ("semi", True, False), ("anti", True, False), ("full", False, False),
    ],
)  # fmt: skip
def test_a_side_of_a_join_when_the_other_may_be_broadcast(
    a: SimpleNamespace, how: str, left: bool, right: bool
) -> None:
    graph = a.stages(a.join(a.scan("l"), a.scan("r"), how))
    for side, allowed in (("left", left), ("right", right)):
        assert found(a, graph, "join", side) == (Dealing() if allowed else None)


def rank(node: Node) -> Node:
    over = Over(Agg("rank", None), (K,), (SortKey(L),))
    return Window(node, (Alias(over, "rank"),), path="above")


ABOVE: dict[str, tuple[Any, bool]] = {
    "filter": (lambda n: Filter(n, Call("gt", (L, Literal(1, pa.int64()))), path="above"), True),
    "select": (lambda n: Select(n, (K,), path="above"), True),
    "partial": (lambda n: Aggregate(n, (L,), (Alias(Agg("count", None), "n"),), path="above"),
                True),
    "window": (rank, False),
    "local distinct": (lambda n: Distinct(Select(n, (L,)), path="above"), True),
    "first rows": (lambda n: Limit(Sort(n, (SortKey(L),)), 3, path="above"), True),
    "some rows": (lambda n: Limit(n, 3, path="above"), True),
    "union": (lambda n: Union((n, n), path="above"), False),
    "python": (lambda n: Select(n, (Alias(Udf((L,), "f", pa.int64(), "scalar", b""), "f"),),
                                path="above"), False),
}  # fmt: skip


@pytest.mark.parametrize("name", ABOVE)
def test_what_follows_must_not_need_rows_together(a: SimpleNamespace, name: str) -> None:
    above, allowed = ABOVE[name]
    graph = a.stages(above(a.join(a.scan("l"), a.scan("r"))))
    stage = next(s for s in graph.stages if any(
        e.path == "join/left" for e in graph.inputs[s.stage]))  # fmt: skip
    (edge,) = (e for e in graph.inputs[stage.stage] if e.path == "join/left")
    assert dealing(graph, stage, edge.edge) == (Dealing() if allowed else None)


def test_an_aggregate_of_rows_that_are_together_is_cut_once(a: SimpleNamespace) -> None:
    joined = a.join(a.scan("l"), a.scan("r"))
    cut = found(a, a.stages(a.summed(joined)), "summed", "left")
    assert cut is not None
    assert cut.cut is not None
    assert cut.cut.path == "summed"
    narrow = Select(a.summed(joined), (Column("found"),), path="top")
    assert found(a, a.stages(narrow), "top", "left") is not None
    assert found(a, a.stages(Distinct(joined, path="top")), "top", "left") is not None
    # medians have no parts, and what is above a cut must be row by row
    assert found(a, a.stages(a.summed(joined, function="median")), "summed", "left") is None
    twice = Distinct(a.summed(joined), path="top")
    assert found(a, a.stages(twice), "top", "left") is None


def test_a_merge_is_not_cut_again(a: SimpleNamespace) -> None:
    """Else its parts would be merged in a stage that is as hot, and so on for ever."""
    graph = a.stages(Distinct(a.scan("l"), path="top"))
    stage = a.stage(graph, "top")
    (edge,) = graph.inputs[stage.stage]
    assert dealing(graph, stage, edge.edge) is None
    graph = a.stages(a.summed(a.scan("l")))
    stage = a.stage(graph, "summed")
    assert dealing(graph, stage, graph.inputs[stage.stage][0].edge) is None


def test_stages_that_rows_go_straight_on_to_must_agree(a: SimpleNamespace) -> None:
    joined = a.join(a.scan("l"), a.scan("r"))
    graph = a.stages(Sort(joined, (SortKey(L),), path="sorted"))
    assert found(a, graph, "join", "left") == Dealing()
    other = Aggregate(joined, (L,), (Alias(Agg("sum", K), "other"),), path="other")
    both = a.stages(Join(a.summed(joined), other, (K,), (L,), path="top"))
    assert [edge.kind for edge in both.outputs[a.stage(both, "join").stage]] == ["forward"] * 2
    assert found(a, both, "join", "left") is None
    either = Union((a.summed(joined), Select(other, (L, Column("other")))), path="top")
    assert found(a, a.stages(either), "join", "left") is None
