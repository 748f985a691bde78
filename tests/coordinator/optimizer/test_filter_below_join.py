from types import SimpleNamespace

import pyarrow as pa
import pytest

from fabric.coordinator.optimizer.filter_below_join import filter_below_join
from fabric.plan.expr import Column
from fabric.plan.nodes import Filter, Join

K = (Column("k"),)


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


def test_leaves_others(p: SimpleNamespace) -> None:
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
