from types import SimpleNamespace

import pyarrow as pa

from fabric.coordinator.optimizer.filter_below_union import filter_below_union
from fabric.plan.nodes import Filter, Union


def test_fires_with_names_by_position(p: SimpleNamespace) -> None:
    x, y = p.table("x", a=pa.int64(), b=pa.int64()), p.table("y", b=pa.int64(), c=pa.int64())
    predicate = p.call("gt", "a", "b")
    expected = Union((Filter(x, predicate), Filter(y, p.call("gt", "b", "c"))))
    assert filter_below_union(Filter(Union((x, y)), predicate)) == expected


def test_leaves_others(p: SimpleNamespace) -> None:
    x, y = p.table("x", a=pa.int64()), p.table("y", a=pa.int32())
    for plan in (Filter(Union((x, y)), p.call("gt", "a", 1)), Union((x, x))):
        assert filter_below_union(plan) is plan
