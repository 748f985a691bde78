"""Where rows in flight over the edges of a stream belong, in whatever number of tasks."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.coordinator.planner.stages import StageGraph, steps_after
from fabric.errors import PlanError
from fabric.plan.expr import Call, Column
from fabric.plan.nodes import (
    Deduplicate,
    Filter,
    Keyed,
    KeyedProcess,
    Node,
    Scan,
    Select,
    SideOutput,
    Sink,
    StageInput,
    Union,
)
from fabric.plan.walk import walk
from tests.coordinator.planner.test_streams import OUT, TIMED, K, V, plan
from tests.support.plans.streams import FUNCTION, SCHEMA, random_branches

SHOWN = Column("ts")


def process(node: Node, key: Column, on_error: str = "fail") -> KeyedProcess:
    return KeyedProcess(node, (key,), FUNCTION, SCHEMA, on_error=on_error)


def has(node: Node, column: Column) -> Filter:
    return Filter(node, Call("is_not_null", (column,)))


def steps(graph: StageGraph) -> Counter[str]:
    """In how many stages of the stream each step is; tables may be read in several."""
    return Counter(
        node.path
        for stage in graph.stages
        for node in walk(stage.root)
        if not isinstance(node, StageInput | Scan)
    )


@given(seed=st.integers(0, 1 << 32))
def test_each_step_that_reads_an_edge_is_in_one_stage(seed: int) -> None:
    """So rows in flight to it are restored once, in another number of tasks as well."""
    root = random_branches(Random(seed))
    try:
        graphs = [plan(root, parallelism) for parallelism in (1, 2, 3)]
    except PlanError:  # such as two columns of one name
        return
    for graph in graphs:
        assert set(steps(graph).values()) == {1}
        for edge in graph.edges:
            if edge.mode == "pipelined":
                readers = steps_after(graph, edge)
                assert readers
                assert all(steps(other)[step] == 1 for other in graphs for step in readers)
        for stage in graph.stages:
            _check_keys(graph, stage.root, stage.n_tasks)


def _check_keys(graph: StageGraph, root: Node, n_tasks: int) -> None:
    """Rows to keyed steps can be dealt out by keys."""
    for step in walk(root):
        if isinstance(step, Keyed) and step.keys and n_tasks > 1:
            edges = [graph.edge(leaf.edge) for leaf in walk(step) if isinstance(leaf, StageInput)]
            for edge in edges:
                if edge.mode == "pipelined" and edge.kind != "broadcast":  # has none in flight
                    assert edge.kind in ("hash", "forward")
                    assert len(edge.keys) == len(step.keys)


def test_a_forward_edge_has_the_keys_of_its_rows() -> None:
    once = Deduplicate(TIMED, (K,), path="once")
    both = (process(once, V), has(once, V), Select(has(once, SHOWN), (V,)))
    graph = plan(Union(tuple(Sink(node, OUT) for node in both)))
    kinds = [(e.kind, e.keys) for e in graph.edges if e.path.startswith("once")]
    assert kinds == [("hash", ("k",)), ("forward", ("k",)), ("forward", ("k",))]


def test_what_a_function_or_a_side_puts_out_has_no_keys() -> None:
    made = process(TIMED, K, on_error="side")
    sinks = (Sink(node, OUT) for node in (made, process(made, V), SideOutput(made, "errors")))
    graph = plan(Union(tuple(sinks)))
    assert {e.keys for e in graph.edges if e.kind == "forward" and e.mode == "pipelined"} == {()}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_rows_through_a_stage_without_a_step_are_on_their_way_to_the_next(parallelism: int) -> None:
    made = process(TIMED, K, on_error="side")
    errors = SideOutput(made, "errors", path="errors")
    graph = plan(Sink(Deduplicate(errors, (V,), path="once"), OUT), parallelism)
    (side,) = (edge for edge in graph.edges if edge.side)
    assert isinstance(graph.stages[side.consumer].root, StageInput) == (parallelism == 2)
    assert steps_after(graph, side) == ("once",)


def test_the_edge_stands_for_the_step_where_its_rows_are_the_result() -> None:
    errors = SideOutput(process(TIMED, K, on_error="side"), "errors", path="errors")
    graph = plan(errors)
    (side,) = (edge for edge in graph.edges if edge.side)
    assert isinstance(graph.stages[side.consumer].root, StageInput)
    assert steps_after(graph, side) == ("errors",)


def test_a_step_over_a_shared_one_is_in_one_stage_though_shared_as_well() -> None:
    """It had its state in two stages, under one name."""
    once = Deduplicate(TIMED, (K,))
    again = Deduplicate(has(once, V), (K,), path="again")
    sinks = (process(once, V), process(has(again, V), V), process(has(again, SHOWN), SHOWN))
    graph = plan(Union(tuple(Sink(node, OUT) for node in sinks)))
    assert steps(graph)["again"] == 1
