from types import SimpleNamespace

from fabric.coordinator.optimizer.filter_below_sort import filter_below_sort
from fabric.plan.expr import Column, SortKey
from fabric.plan.nodes import Filter, Limit, Sort


def test_fires(p: SimpleNamespace) -> None:
    t, predicate, keys = p.table(), p.call("gt", "a", 2), (SortKey(Column("b")),)
    assert filter_below_sort(Filter(Sort(t, keys), predicate)) == Sort(Filter(t, predicate), keys)


def test_leaves_others(p: SimpleNamespace) -> None:
    sort = Sort(p.table(), (SortKey(Column("b")),))
    for plan in (Filter(Limit(sort, 3), p.call("gt", "a", 2)), sort):
        assert filter_below_sort(plan) is plan
