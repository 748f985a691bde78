from types import SimpleNamespace

import pyarrow as pa

from fabric.coordinator.optimizer.filter_below_distinct import filter_below_distinct
from fabric.plan.nodes import Distinct, Filter


def test_fires(p: SimpleNamespace) -> None:
    t, predicate = p.table(), p.call("gt", "a", 2)
    assert filter_below_distinct(Filter(Distinct(t), predicate)) == Distinct(Filter(t, predicate))


def test_floats_stay_above(p: SimpleNamespace) -> None:
    t = p.table(a=pa.int64(), f=pa.float64(), l=pa.list_(pa.float32()))
    exact, other = p.call("gt", "a", 2), p.call("gt", "f", "f")
    plan = Filter(Distinct(t), p.both(exact, other))
    assert filter_below_distinct(plan) == Filter(Distinct(Filter(t, exact)), other)
    for name in ("f", "l"):
        plan = Filter(Distinct(t), p.call("is_null", name))
        assert filter_below_distinct(plan) is plan


def test_leaves_others(p: SimpleNamespace) -> None:
    for plan in (Filter(p.table(), p.call("gt", "a", 2)), Distinct(p.table())):
        assert filter_below_distinct(plan) is plan
