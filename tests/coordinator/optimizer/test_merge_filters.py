from types import SimpleNamespace

from fabric.coordinator.optimizer.merge_filters import merge_filters
from fabric.plan.nodes import Filter


def test_fires(p: SimpleNamespace) -> None:
    t, inner, outer = p.table(), p.call("gt", p.call("divide", 1, "a"), 0), p.call("gt", "b", 1)
    plan = Filter(Filter(t, inner, path="i"), outer, path="o")
    assert merge_filters(plan) == Filter(t, p.both(inner, outer), path="o")


def test_leaves_others(p: SimpleNamespace) -> None:
    t = p.table()
    risky = p.call("gt", p.call("divide", 1, "a"), 0)
    for plan in (Filter(Filter(t, p.call("ne", "a", 0)), risky), Filter(t, risky)):
        assert merge_filters(plan) is plan
