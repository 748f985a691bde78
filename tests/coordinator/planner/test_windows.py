"""Windows and explode in stages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from fabric.coordinator.planner.planner import plan_stages
from fabric.coordinator.planner.stages import StageGraph
from fabric.errors import PlanError
from fabric.io.sources import enumerate_splits, memory
from fabric.plan.check import check
from fabric.plan.expr import Agg, Alias, Cast, Column, Expr, Over, SortKey
from fabric.plan.nodes import (
    Aggregate,
    Exchange,
    Explode,
    Filter,
    Join,
    NodeConfig,
    Plan,
    Scan,
    Select,
    Window,
)
from fabric.plan.sources import Split
from fabric.plan.walk import walk

A, B, K = (Column(name) for name in "abk")
I64 = pa.int64()


def plan(root: Any, parallelism: int = 4, **config: NodeConfig) -> StageGraph:
    checked = check(Plan(root, tuple(config.items())))
    given = {path: [Split("x", n_rows=1 << 24, n_bytes=1 << 30)] * 8 for path in ("t", "u")}
    return plan_stages(checked, given, parallelism)


def kinds(graph: StageGraph) -> list[tuple[str, str, tuple[str, ...], int]]:
    edges = [edge for edge in graph.edges if not edge.is_result]
    return [(edge.path, edge.kind, edge.keys, edge.n_partitions) for edge in edges]


def window(source: Any, *keys: Expr, path: str = "w") -> Window:
    over = Over(Agg("row_number", None), keys, (SortKey(B),))
    return Window(source, (Alias(over, f"n_{path}"),), path=path)


def test_partitions_are_exchanged_by_their_keys(p: SimpleNamespace) -> None:
    graph = plan(window(p.table(), A))
    assert kinds(graph) == [("w/exchange", "hash", ("a",), 4)]
    assert [stage.n_tasks for stage in graph.stages] == [4, 4]


def test_computed_keys_travel(p: SimpleNamespace) -> None:
    graph = plan(window(p.table(), Cast(A, pa.string())))
    assert kinds(graph) == [("w/exchange", "hash", ("__key_0",), 4)]
    assert graph.result.schema.names == ["a", "b", "s", "n_w"]


def test_without_partitions_all_rows_are_gathered(p: SimpleNamespace) -> None:
    assert kinds(plan(window(p.table()))) == [("w/exchange", "gather", (), 1)]


@pytest.mark.parametrize("keys", [(), (A,)])
def test_one_task_needs_no_exchange(p: SimpleNamespace, keys: tuple[Expr, ...]) -> None:
    assert kinds(plan(window(p.table(), *keys), parallelism=1)) == []


def test_rows_that_are_together_stay(p: SimpleNamespace) -> None:
    first = window(p.table(), A, path="v")
    assert len(kinds(plan(window(first, A, B)))) == 1
    assert len(kinds(plan(window(first, B)))) == 2
    counted = Aggregate(window(first, A), (A,), (Alias(Agg("count", None), "n"),))
    assert len(kinds(plan(counted))) == 1
    sent = Exchange(p.table(), "hash", ("a",), 3, path="e")
    assert kinds(plan(window(sent, A))) == [("e", "hash", ("a",), 3)]


def test_nulls_of_an_outer_join_are_brought_together(p: SimpleNamespace) -> None:
    other = p.table("u", k=I64)
    for how, key, again in [("left", A, 0), ("left", K, 1), ("right", A, 1), ("right", K, 0)]:
        join = Join(p.table(), other, (A,), (K,), how, strategy="hash")
        edges = kinds(plan(window(join, key)))
        assert sum(path.startswith("w/") for path, *_ in edges) == again


def test_parallelism_is_as_configured(p: SimpleNamespace) -> None:
    graph = plan(window(p.table(), A), w=NodeConfig(parallelism=2))
    assert kinds(graph) == [("w/exchange", "hash", ("a",), 2)]


def test_a_broadcast_is_refused(p: SimpleNamespace) -> None:
    with pytest.raises(PlanError, match="only be a side of a join"):
        plan(window(Exchange(p.table(), "broadcast"), A))


def test_explode_is_narrow_and_forgets_its_column(p: SimpleNamespace) -> None:
    source = p.table("t", a=I64, b=I64, xs=pa.list_(I64))
    assert kinds(plan(Explode(source, "xs", position="i"))) == []
    by_a = Exchange(source, "hash", ("a",), path="e")
    assert len(kinds(plan(window(Explode(by_a, "xs"), A)))) == 1
    by_list = Exchange(source, "hash", ("xs",), path="e")
    assert len(kinds(plan(window(Explode(by_list, "xs"), Column("xs"))))) == 2


def test_a_pipelined_edge_passes_through_explode(p: SimpleNamespace) -> None:
    source = p.table("t", a=I64, xs=pa.list_(I64))
    graph = plan(Explode(Exchange(source, "round_robin", mode="pipelined"), "xs"))
    assert [stage.kind for stage in graph.stages] == ["fragment", "chain"]
    assert graph.edges[0].mode == "pipelined"


@pytest.mark.parametrize("keys", [(), (A,)])
def test_tasks_send_only_what_a_filter_may_keep(p: SimpleNamespace, keys: tuple[Expr, ...]) -> None:
    source = p.table("t", a=I64, b=I64, __rank=I64)
    first = Filter(window(source, *keys), p.call("le", "n_w", 2))
    graph = plan(first)
    names = [type(node).__name__ for node in walk(graph.stages[0].root)]
    assert names == ["Scan", "Window", "Filter", "Select"]
    assert graph.edges[0].schema.names == ["a", "b", "__rank"]
    assert len(plan(first, parallelism=1).stages) == 1
    shared = window(source, *keys)
    both = Join(Filter(shared, p.call("le", "n_w", 2)), shared, (B,), (B,))
    assert [type(node).__name__ for node in walk(plan(both).stages[0].root)] == ["Scan"]


def test_first_rows_of_several_tasks_are_those_of_one(p: SimpleNamespace, runner: Any) -> None:
    table = pa.table({"a": [1, 2, 2, None] * 9, "b": [i * 7 % 11 for i in range(36)]})
    source = Scan(memory.register(table), table.schema, path="t")
    for function in ("rank", "row_number"):
        for keys in ((), (A,)):
            over = Over(Agg(function, None), keys, (SortKey(B, descending=True),))
            root = Select(Filter(Window(source, (Alias(over, "n"),)), p.call("le", "n", 2)), (A, B))
            checked = check(Plan(root))
            splits = {"t": enumerate_splits(source.source, 3)}
            wide, narrow = (plan_stages(checked, splits, n) for n in (3, 1))
            assert runner.rows(runner.run(wide)) == runner.rows(runner.run(narrow))
