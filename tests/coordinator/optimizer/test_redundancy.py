from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from fabric.coordinator.optimizer.passes import unnoted
from fabric.coordinator.optimizer.redundancy import drop_distinct, drop_sort, share_subplans
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
    WithColumns,
)


def test_drop_distinct_fires(p: SimpleNamespace) -> None:
    source = p.table()
    grouped = Aggregate(source, (Column("a"),), (Alias(Agg("sum", Column("b")), "x"),))
    for different in (
        Distinct(source),
        grouped,
        Filter(grouped, p.call("gt", "x", 1)),
        Limit(Sort(Distinct(source), (SortKey(Column("a")),)), 3),
    ):
        assert drop_distinct(Distinct(different)) is different


def test_drop_distinct_leaves_others(p: SimpleNamespace) -> None:
    source = p.table("t", a=pa.float64(), b=pa.int64())
    floats = Aggregate(source, (Column("a"),), ())
    for plan in (
        Distinct(source),
        Distinct(floats),
        Distinct(Select(Distinct(source), (Column("a"),))),
        floats,
    ):
        assert drop_distinct(plan) is plan


KEY = (SortKey(Column("a")),)
K = (Column("a"),)
COUNT = (Alias(Agg("count", None), "n"),)


@pytest.mark.parametrize("kind", ["aggregate", "join", "distinct", "window", "sort"])
def test_drop_sort_fires(p: SimpleNamespace, kind: str) -> None:
    def over(node: object) -> object:
        match kind:
            case "aggregate":
                return Aggregate(node, K, COUNT)
            case "join":
                return Join(p.table("l"), node, K, K, "semi")
            case "distinct":
                return Distinct(node)
            case "window":
                return Window(node, (Alias(Over(Agg("count", None), K), "n"),))
            case _:
                return Sort(node, (SortKey(Column("b")),))

    keep = p.call("gt", "a", 1)
    plan = over(Filter(Sort(p.table(), KEY), keep))
    assert drop_sort(plan, unnoted) == over(Filter(p.table(), keep))


def test_drop_sort_leaves_others(p: SimpleNamespace) -> None:
    ordered = Sort(p.table(), KEY)
    for plan in (
        ordered,
        Filter(ordered, p.call("gt", "a", 1)),
        Aggregate(Limit(ordered, 3), K, COUNT),
        Union((ordered, p.table("u"))),
        Join(p.table("l"), Limit(ordered, 3), K, K, "semi"),
        p.table(),
    ):
        assert drop_sort(plan, unnoted) is plan


def test_a_shared_sort_stays_if_one_needs_it(p: SimpleNamespace) -> None:
    ordered = Sort(p.table(), KEY, path="s")
    plan = Join(Limit(ordered, 3), Aggregate(ordered, K, COUNT), K, K, "semi")
    assert drop_sort(plan, unnoted) is plan


ONE = Literal(1, pa.int64())


def grouped(source: Node, path: str, least: Literal = ONE) -> Node:
    kept = Filter(source, Call("gt", (Column("a"), least)), path=f"{path}/filter")
    return Aggregate(kept, K, (Alias(Agg("count", None), "n"),), path=path)


def test_share_subplans_fires(p: SimpleNamespace) -> None:
    plan = Join(grouped(p.table(), "one"), grouped(p.table(), "two"), K, K)
    found = share_subplans(plan, unnoted)
    assert found.left is found.right is plan.left
    both = Union((Join(plan.left, plan.right, K, K, "semi"), plan.right))
    found = share_subplans(both, unnoted)
    assert found.inputs[0].left is found.inputs[0].right is found.inputs[1]


def test_share_subplans_leaves_others(p: SimpleNamespace) -> None:
    t = p.table()
    user = Udf("f", K, pa.int64(), "arrow", b"")

    def by_user() -> Node:
        return Aggregate(WithColumns(p.table(), (Alias(user, "u"),)), K, ())

    once = grouped(t, "x")
    for plan in (
        Join(once, once, K, K),
        Join(grouped(t, "x"), grouped(t, "y", Literal(1, pa.int32())), K, K),
        Join(
            grouped(t, "x", Literal(0.0, pa.float64())),
            grouped(t, "y", Literal(-0.0, pa.float64())),
            K,
            K,
        ),
        Join(by_user(), by_user(), K, K),
        Union((p.table(), p.table())),
        t,
    ):
        assert share_subplans(plan, unnoted) is plan
