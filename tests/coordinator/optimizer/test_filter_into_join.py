from types import SimpleNamespace

import pyarrow as pa

from fabric.coordinator.optimizer.filter_into_join import filter_into_join
from fabric.plan.expr import Column
from fabric.plan.nodes import Filter, Join


def sides(p: SimpleNamespace) -> tuple[object, object]:
    return p.table("l", a=pa.int64(), x=pa.int64()), p.table("r", b=pa.int64(), x=pa.int64())


def test_fires(p: SimpleNamespace) -> None:
    left, right = sides(p)
    rest = p.call("lt", "x", "x_right")
    plan = Filter(Join(left, right, (), (), "cross"), p.both(p.call("eq", "b", "a"), rest))
    keyed = Join(left, right, (Column("a"),), (Column("b"),), "inner")
    assert filter_into_join(plan) == Filter(keyed, rest)
    assert (
        filter_into_join(Filter(Join(left, right, (), (), "cross"), p.call("eq", "a", "b")))
        == keyed
    )


def test_leaves_others(p: SimpleNamespace) -> None:
    left, right = sides(p)
    cross = Join(left, right, (), (), "cross")
    outer = Join(left, right, (Column("a"),), (Column("b"),), "left")
    for plan in (
        Filter(cross, p.call("lt", "a", "b")),
        Filter(cross, p.call("eq", "x", "x_right")),
        Filter(cross, p.call("eq", p.call("divide", 1, "a"), "b")),
        Filter(outer, p.call("eq", "a", "x_right")),
        cross,
    ):
        assert filter_into_join(plan) is plan
