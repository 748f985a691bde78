from dataclasses import replace
from types import SimpleNamespace

from fabric.coordinator.optimizer.filter_into_scan import filter_into_scan
from fabric.plan.nodes import Filter


def test_fires(p: SimpleNamespace) -> None:
    scan, first, second = p.file(), p.call("gt", "a", 1), p.call("gt", "b", 1)
    once = replace(scan, predicate=first)
    assert filter_into_scan(Filter(scan, first)) == once
    assert filter_into_scan(Filter(once, second)) == replace(scan, predicate=p.both(first, second))


def test_reads_columns_that_are_not_put_out(p: SimpleNamespace) -> None:
    scan = replace(p.file(), columns=("a", "b"), predicate=p.call("is_null", "s"))
    expected = p.both(p.call("is_null", "s"), p.call("gt", "a", 1))
    assert filter_into_scan(Filter(scan, p.call("gt", "a", 1))).predicate == expected


def test_leaves_others(p: SimpleNamespace) -> None:
    risky = p.call("gt", p.call("divide", 1, "a"), 0)
    protected = replace(p.file(), predicate=p.call("ne", "a", 0))
    for plan in (Filter(p.table(), p.call("gt", "a", 1)), Filter(protected, risky), p.file()):
        assert filter_into_scan(plan) is plan
