from types import SimpleNamespace

import pytest

from fabric.coordinator.optimizer.drop_sort import drop_sort
from fabric.coordinator.optimizer.passes import unnoted
from fabric.plan.expr import Agg, Alias, Column, Over, SortKey
from fabric.plan.nodes import Aggregate, Distinct, Filter, Join, Limit, Sort, Union, Window

KEY = (SortKey(Column("a")),)
K = (Column("a"),)
COUNT = (Alias(Agg("count", None), "n"),)


@pytest.mark.parametrize("kind", ["aggregate", "join", "distinct", "window", "sort"])
def test_fires(p: SimpleNamespace, kind: str) -> None:
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


def test_leaves_others(p: SimpleNamespace) -> None:
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
