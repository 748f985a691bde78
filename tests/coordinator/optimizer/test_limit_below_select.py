from types import SimpleNamespace

from fabric.coordinator.optimizer.limit_below_select import limit_below_select
from fabric.plan.expr import Column
from fabric.plan.nodes import Filter, Limit, Select, WithColumns


def test_fires(p: SimpleNamespace) -> None:
    t, exprs = p.table(), (p.alias(p.call("add", "a", "b"), "c"),)
    for kind in (Select, WithColumns):
        assert limit_below_select(Limit(kind(t, exprs), 3, 1)) == kind(Limit(t, 3, 1), exprs)


def test_leaves_others(p: SimpleNamespace) -> None:
    t = p.table()
    for plan in (Limit(Filter(t, p.call("gt", "a", 1)), 3), Limit(t, 3), Select(t, (Column("a"),))):
        assert limit_below_select(plan) is plan
