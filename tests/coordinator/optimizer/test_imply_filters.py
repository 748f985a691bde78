from functools import reduce
from types import SimpleNamespace

import pyarrow as pa

from fabric.coordinator.optimizer.imply_filters import imply_filters
from fabric.plan.expr import Call, Column, Expr
from fabric.plan.nodes import Filter, Join

K = (Column("k"),)


def sides(p: SimpleNamespace) -> tuple[object, object]:
    left = p.table("l", k=pa.int64(), a=pa.int64())
    return left, p.table("r", k=pa.int64(), b=pa.int64())


def either(*parts: Expr) -> Expr:
    return reduce(lambda left, right: Call("or", (left, right)), parts)


def test_fires(p: SimpleNamespace) -> None:
    left, right = sides(p)
    joined = Join(left, right, K, K)
    one, two = p.call("eq", "a", 1), p.call("eq", "b", 2)
    three, four = p.call("eq", "a", 3), p.call("eq", "b", 4)
    choice = either(p.both(one, two), p.both(three, four))
    found = imply_filters(Filter(joined, choice))
    assert found == Filter(joined, p.both(choice, p.both(either(one, three), either(two, four))))
    half = either(p.both(one, two), p.both(three, p.call("lt", "a", "b")))
    assert imply_filters(Filter(joined, half)) == Filter(joined, p.both(half, either(one, three)))


def test_leaves_others(p: SimpleNamespace) -> None:
    left, right = sides(p)
    joined = Join(left, right, K, K)
    one, two = p.call("eq", "a", 1), p.call("eq", "b", 2)
    risky = p.call("gt", p.call("divide", 1, "a"), 0)
    for plan in (
        Filter(joined, either(one, two)),
        Filter(joined, either(one, p.call("eq", "a", 3))),
        Filter(joined, p.both(one, two)),
        Filter(joined, either(p.both(one, two), p.both(risky, two))),
        Filter(Join(left, right, K, K, "full"), one),
        Filter(left, one),
        joined,
    ):
        assert imply_filters(plan) is plan
