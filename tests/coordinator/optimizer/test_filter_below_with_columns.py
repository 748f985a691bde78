from types import SimpleNamespace

from fabric.coordinator.optimizer.filter_below_with_columns import filter_below_with_columns
from fabric.plan.nodes import Filter, WithColumns


def test_fires(p: SimpleNamespace) -> None:
    t, moved, kept = p.table(), p.call("gt", "a", 1), p.call("gt", "c", 2)
    exprs = (p.alias(p.call("add", "a", "b"), "c"),)
    below = WithColumns(Filter(t, moved), exprs)
    assert filter_below_with_columns(Filter(WithColumns(t, exprs), moved)) == below
    plan = Filter(WithColumns(t, exprs), p.both(kept, moved))
    assert filter_below_with_columns(plan) == Filter(below, kept)


def test_leaves_others(p: SimpleNamespace) -> None:
    t = p.table()
    replaced = WithColumns(t, (p.alias(p.call("add", "a", "b"), "a"),), True)
    for plan in (
        Filter(replaced, p.call("gt", "a", 2)),
        Filter(t, p.call("gt", "a", 2)),
        replaced,
    ):
        assert filter_below_with_columns(plan) is plan
