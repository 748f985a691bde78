from types import SimpleNamespace

import pyarrow as pa

from fabric.coordinator.optimizer.filter_below_aggregate import filter_below_aggregate
from fabric.plan.expr import Agg, Column
from fabric.plan.nodes import Aggregate, Filter

COUNT = (Agg("count", None),)


def test_fires(p: SimpleNamespace) -> None:
    t, keys = p.table(), (p.alias("a", "k"), Column("s"))
    moved, kept = p.call("gt", "k", 1), p.call("gt", "count", 2)
    below = Aggregate(Filter(t, p.call("gt", "a", 1)), keys, COUNT)
    assert filter_below_aggregate(Filter(Aggregate(t, keys, COUNT), moved)) == below
    plan = Filter(Aggregate(t, keys, COUNT), p.both(moved, kept))
    assert filter_below_aggregate(plan) == Filter(below, kept)


def test_leaves_others(p: SimpleNamespace) -> None:
    t = p.table()
    computed = (p.alias(p.call("add", "a", "b"), "k"),)
    floats = p.table(f=pa.float64())
    for plan in (
        Filter(Aggregate(t, computed, COUNT), p.call("gt", "k", 1)),
        Filter(Aggregate(t, (Column("a"),), COUNT), p.call("gt", "count", 1)),
        Filter(Aggregate(t, (), COUNT), p.call("lt", 2, 1)),
        Filter(Aggregate(floats, (Column("f"),), COUNT), p.call("is_null", "f")),
        Filter(t, p.call("gt", "a", 2)),
    ):
        assert filter_below_aggregate(plan) is plan
