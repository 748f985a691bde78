from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.coordinator.optimizer.limit_pushdown import (
    limit_below_select,
    limit_into_scan,
    merge_limits,
)
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
    Sink,
    Sort,
    Union,
    WithColumns,
)
from fabric.plan.targets import GateTarget

SMALL = st.integers(0, 12)


@given(m=SMALL, skipped=SMALL, n=SMALL, offset=SMALL)
def test_equals_two_slices(m: int, skipped: int, n: int, offset: int) -> None:
    rows = list(range(20))
    expected = rows[skipped:][:m][offset:][:n]
    found = merge_limits(Limit(Limit(Sink(None, GateTarget("g")), m, skipped), n, offset))
    assert isinstance(found, Limit)
    assert rows[found.offset :][: found.n] == expected
    assert isinstance(found.input, Sink)


@pytest.mark.parametrize("n", [0, 3])
def test_merge_limits_leaves_others(p: SimpleNamespace, n: int) -> None:
    plan = Limit(p.table(), n)
    assert merge_limits(plan) is plan


def test_limit_below_select_fires(p: SimpleNamespace) -> None:
    t, exprs = p.table(), (p.alias(p.call("add", "a", "b"), "c"),)
    for kind in (Select, WithColumns):
        assert limit_below_select(Limit(kind(t, exprs), 3, 1)) == kind(Limit(t, 3, 1), exprs)


def test_limit_below_select_leaves_others(p: SimpleNamespace) -> None:
    t = p.table()
    for plan in (Limit(Filter(t, p.call("gt", "a", 1)), 3), Limit(t, 3), Select(t, (Column("a"),))):
        assert limit_below_select(plan) is plan


K = (Column("a"),)


def test_limit_into_scan_fires(p: SimpleNamespace) -> None:
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


def test_limit_into_scan_leaves_others(p: SimpleNamespace) -> None:
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
