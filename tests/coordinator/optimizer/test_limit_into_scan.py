from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa

from fabric.coordinator.optimizer.limit_into_scan import limit_into_scan
from fabric.coordinator.optimizer.passes import unnoted
from fabric.plan.expr import Column, SortKey
from fabric.plan.nodes import (
    Distinct,
    Exchange,
    Explode,
    Filter,
    Join,
    Limit,
    Select,
    Sort,
    Union,
)

K = (Column("a"),)


def test_fires(p: SimpleNamespace) -> None:
    one, two = p.table("one"), p.file("two")
    limited = replace(one, limit=5), replace(two, limit=5)

    def over(left: object, right: object) -> Limit:
        union = Union((Select(left, K), Select(Join(right, p.table("r"), K, K, "left"), K)))
        return Limit(Exchange(union, "round_robin"), 3, 2)

    assert limit_into_scan(over(one, two), unnoted) == over(*limited)
    lists = p.table("t", a=pa.int64(), e=pa.list_(pa.int64()))
    assert limit_into_scan(Limit(Explode(lists, "e", True), 3), unnoted) == Limit(
        Explode(replace(lists, limit=3), "e", True), 3
    )
    assert limit_into_scan(Limit(replace(one, limit=9), 3), unnoted) == Limit(
        replace(one, limit=3), 3
    )


def test_leaves_others(p: SimpleNamespace) -> None:
    t = p.table()
    lists = p.table("t", a=pa.int64(), e=pa.list_(pa.int64()))
    for plan in (
        Limit(Sort(t, (SortKey(Column("a")),)), 3),
        Limit(Filter(t, p.call("gt", "a", 1)), 3),
        Limit(Join(t, p.table("r"), K, K), 3),
        Limit(Join(Distinct(t), p.table("r"), K, K, "left"), 3),
        Limit(Explode(lists, "e"), 3),
        Limit(replace(t, limit=2), 3),
        Union((Limit(t, 3), t)),
        t,
    ):
        assert limit_into_scan(plan, unnoted) is plan
