from types import SimpleNamespace

from fabric.coordinator.optimizer.filter_below_select import filter_below_select
from fabric.plan.nodes import Filter, Select


def test_fires(p: SimpleNamespace) -> None:
    t, moved, kept = p.table(), p.call("gt", "x", 1), p.call("gt", "c", 2)
    exprs = (p.alias("a", "x"), p.alias(p.call("add", "a", "b"), "c"))
    plan = Filter(Select(t, exprs), p.both(moved, kept))
    below = Select(Filter(t, p.call("gt", "a", 1)), exprs)
    assert filter_below_select(plan) == Filter(below, kept)
    assert filter_below_select(Filter(Select(t, exprs), moved)) == below


def test_paths_stay(p: SimpleNamespace) -> None:
    plan = Filter(Select(p.table(), (p.alias("a", "x"),), path="s"), p.call("gt", "x", 1), path="f")
    found = filter_below_select(plan)
    assert (found.path, found.children[0].path) == ("s", "f")


def test_leaves_others(p: SimpleNamespace) -> None:
    t = p.table()
    computed = (p.alias(p.call("add", "a", "b"), "c"), p.alias(1, "one"))
    for plan in (
        Filter(Select(t, computed), p.call("gt", "c", 2)),
        Filter(Select(t, computed), p.call("gt", "one", 2)),
        Filter(t, p.call("gt", "a", 2)),
        Select(t, computed),
    ):
        assert filter_below_select(plan) is plan


def test_what_can_fail_stays_behind_what_protects_it(p: SimpleNamespace) -> None:
    exprs = (p.alias("a", "x"), p.alias(p.call("is_not_null", "b"), "ok"))
    risky = p.call("gt", p.call("divide", 1, "x"), 2)
    plan = Filter(Select(p.table(), exprs), p.both(p.call("eq", "ok", "ok"), risky))
    assert filter_below_select(plan) is plan
