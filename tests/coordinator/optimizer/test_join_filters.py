from __future__ import annotations

from functools import reduce
from types import SimpleNamespace

import pyarrow as pa
import pytest

from fabric.coordinator.optimizer.join_filters import (
    filter_below_join,
    filter_into_join,
    imply_filters,
    outer_to_inner,
    rejects_nulls,
)
from fabric.plan.expr import Call, Cast, Column, Expr, IsIn, Literal
from fabric.plan.nodes import Filter, Join

K = (Column("k"),)


INT = pa.int64()


def join(p: SimpleNamespace, how: str, key: pa.DataType = INT) -> Join:
    left = p.table("l", k=key, a=pa.int64())
    return Join(left, p.table("r", k=key, b=pa.int64()), K, K, how)


@pytest.mark.parametrize(
    ("how", "names", "expected"),
    [
        ("left", "b", "inner"),
        ("right", "a", "inner"),
        ("full", "a", "left"),
        ("full", "b", "right"),
        ("full", "ab", "inner"),
    ],
)
def test_outer_to_inner_fires(p: SimpleNamespace, how: str, names: str, expected: str) -> None:
    predicate = p.both(*(p.call("gt", name, 1) for name in names))
    assert outer_to_inner(Filter(join(p, how), predicate)) == Filter(join(p, expected), predicate)


def test_outer_to_inner_leaves_others(p: SimpleNamespace) -> None:
    for plan in (
        Filter(join(p, "left"), p.call("gt", "a", 1)),
        Filter(join(p, "left"), p.call("is_null", "b")),
        Filter(join(p, "left"), p.call("gt", p.call("coalesce", "b", 5), 1)),
        Filter(join(p, "full"), p.call("gt", "k", 1)),
        Filter(join(p, "right", pa.float64()), p.call("gt", "a", 1)),  # keys may be -0.0 and 0.0
        Filter(join(p, "inner"), p.call("gt", "b", 1)),
        join(p, "left"),
    ):
        assert outer_to_inner(plan) is plan


A, B = Column("a"), Column("b")
ONE = Literal(1, pa.int64())


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (Call("is_not_null", (B,)), True),
        (Call("not", (Call("is_not_null", (B,)),)), False),
        (Call("or", (Call("gt", (B, ONE)), Call("lt", (B, ONE)))), True),
        (Call("or", (Call("gt", (B, ONE)), Call("lt", (A, ONE)))), False),
        (Call("and", (Call("gt", (B, ONE)), Call("lt", (A, ONE)))), True),
        (IsIn(Cast(B, pa.int32()), (ONE,)), True),
        (Call("not", (Call("eq", (B, ONE)),)), True),
        (Call("eq_null_safe", (B, ONE)), False),
        (B, True),
        (A, False),
    ],
)
def test_rejects_nulls(predicate: object, expected: bool) -> None:
    assert rejects_nulls(predicate, frozenset("b")) is expected


def keyless_sides(p: SimpleNamespace) -> tuple[object, object]:
    return p.table("l", a=pa.int64(), x=pa.int64()), p.table("r", b=pa.int64(), x=pa.int64())


def test_filter_into_join_fires(p: SimpleNamespace) -> None:
    left, right = keyless_sides(p)
    rest = p.call("lt", "x", "x_right")
    plan = Filter(Join(left, right, (), (), "cross"), p.both(p.call("eq", "b", "a"), rest))
    keyed = Join(left, right, (Column("a"),), (Column("b"),), "inner")
    assert filter_into_join(plan) == Filter(keyed, rest)
    assert (
        filter_into_join(Filter(Join(left, right, (), (), "cross"), p.call("eq", "a", "b")))
        == keyed
    )


def test_filter_into_join_leaves_others(p: SimpleNamespace) -> None:
    left, right = keyless_sides(p)
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


def sides(p: SimpleNamespace) -> tuple[object, object]:
    left = p.table("l", k=pa.int64(), a=pa.int64())
    return left, p.table("r", k=pa.int64(), a=pa.int64(), b=pa.int64())


def test_fires_on_both_sides_of_an_inner_join(p: SimpleNamespace) -> None:
    left, right = sides(p)
    to_left, to_right = p.call("gt", "a", 1), p.call("gt", "a_right", 2)
    rest = p.call("gt", "a", "b")
    plan = Filter(Join(left, right, K, K), p.both(rest, to_right, to_left))
    below = Join(Filter(left, to_left), Filter(right, p.call("gt", "a", 2)), K, K)
    assert filter_below_join(plan) == Filter(below, rest)
    plan = Filter(Join(left, right, K, K), p.both(to_right, to_left))
    assert filter_below_join(plan) == below


@pytest.mark.parametrize("how", ["left", "semi", "anti"])
def test_only_the_left_side_of_other_joins(p: SimpleNamespace, how: str) -> None:
    left, right = sides(p)
    to_left = p.call("gt", "a", 1)
    plan = Filter(Join(left, right, K, K, how), to_left)
    assert filter_below_join(plan) == Join(Filter(left, to_left), right, K, K, how)


def test_filter_below_join_leaves_others(p: SimpleNamespace) -> None:
    left, right = sides(p)
    risky = p.call("gt", p.call("divide", 1, "a"), 0)
    for plan in (
        Filter(Join(left, right, K, K), p.call("gt", "a", "b")),
        Filter(Join(left, right, K, K, "left"), p.call("is_null", "b")),
        Filter(Join(left, right, K, K), risky),
        Filter(left, p.call("gt", "a", 1)),
        Join(left, right, K, K),
    ):
        assert filter_below_join(plan) is plan


def test_a_condition_on_keys_holds_for_both_sides(p: SimpleNamespace) -> None:
    left, right = sides(p)
    of_key = p.call("gt", "k", 1)
    for how in ("inner", "left", "semi", "anti"):
        plan = Filter(Join(left, right, K, K, how), of_key)
        assert filter_below_join(plan) == Join(
            Filter(left, of_key), Filter(right, of_key), K, K, how
        )
    plan = Filter(Join(left, right, K, (Column("b"),)), of_key)
    below = Join(Filter(left, of_key), Filter(right, p.call("gt", "b", 1)), K, (Column("b"),))
    assert filter_below_join(plan) == below


def test_the_right_side_of_right_and_cross_joins(p: SimpleNamespace) -> None:
    left, right = sides(p)
    of_right, of_left = p.call("gt", "b", 1), p.call("gt", "a", 1)
    for how, keys in (("right", K), ("cross", ())):
        plan = Filter(Join(left, right, keys, keys, how), of_right)
        assert filter_below_join(plan) == Join(left, Filter(right, of_right), keys, keys, how)
    for how in ("right", "full"):
        plan = Filter(Join(left, right, K, K, how), of_left)
        assert filter_below_join(plan) is plan
    plan = Filter(Join(left, right, K, K, "full"), p.call("gt", "k", 1))
    assert filter_below_join(plan) is plan


def keyed_sides(p: SimpleNamespace) -> tuple[object, object]:
    left = p.table("l", k=pa.int64(), a=pa.int64())
    return left, p.table("r", k=pa.int64(), b=pa.int64())


def either(*parts: Expr) -> Expr:
    return reduce(lambda left, right: Call("or", (left, right)), parts)


def test_imply_filters_fires(p: SimpleNamespace) -> None:
    left, right = keyed_sides(p)
    joined = Join(left, right, K, K)
    one, two = p.call("eq", "a", 1), p.call("eq", "b", 2)
    three, four = p.call("eq", "a", 3), p.call("eq", "b", 4)
    choice = either(p.both(one, two), p.both(three, four))
    found = imply_filters(Filter(joined, choice))
    assert found == Filter(joined, p.both(choice, p.both(either(one, three), either(two, four))))
    half = either(p.both(one, two), p.both(three, p.call("lt", "a", "b")))
    assert imply_filters(Filter(joined, half)) == Filter(joined, p.both(half, either(one, three)))


def test_imply_filters_leaves_others(p: SimpleNamespace) -> None:
    left, right = keyed_sides(p)
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
