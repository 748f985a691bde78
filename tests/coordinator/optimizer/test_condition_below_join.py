from types import SimpleNamespace

import pyarrow as pa
import pytest

from fabric.coordinator.optimizer.condition_below_join import condition_below_join
from fabric.plan.expr import Column
from fabric.plan.nodes import Filter, Join

K = (Column("k"),)


def join(p: SimpleNamespace, how: str, condition: object, keys: tuple[Column, ...] = K) -> Join:
    left = p.table("l", k=pa.int64(), a=pa.int64())
    right = p.table("r", k=pa.int64(), a=pa.int64(), b=pa.int64())
    return Join(left, right, keys, keys, how, condition=condition, path="j")


@pytest.mark.parametrize(
    ("how", "moves_left", "moves_right"),
    [
        ("inner", True, True),
        ("semi", True, True),
        ("left", False, True),
        ("anti", False, True),
        ("right", True, False),
        ("full", False, False),
    ],
)
def test_fires_by_kind(p: SimpleNamespace, how: str, moves_left: bool, moves_right: bool) -> None:
    of_left, of_right, of_both = (
        p.call("gt", "a", 1),
        p.call("gt", "a_right", 2),
        p.call("gt", "a", "b"),
    )
    plan = join(p, how, p.both(of_left, of_right, of_both))
    found = condition_below_join(plan)
    assert isinstance(found.left, Filter) is moves_left
    assert isinstance(found.right, Filter) is moves_right
    if moves_left:
        assert found.left.predicate == of_left
    if moves_right:
        assert found.right.predicate == p.call("gt", "a", 2)
    kept = [of_left] * (not moves_left) + [of_right] * (not moves_right) + [of_both]
    assert found.condition == p.both(*kept)


def test_nothing_left_of_an_inner_join_without_keys_is_a_cross_join(p: SimpleNamespace) -> None:
    found = condition_below_join(join(p, "inner", p.call("gt", "b", 1), ()))
    assert (found.how, found.condition) == ("cross", None)


def test_leaves_others(p: SimpleNamespace) -> None:
    for plan in (
        join(p, "inner", p.call("gt", "a", "b")),
        join(p, "inner", p.call("gt", p.call("divide", 1, "a"), 0)),
        join(p, "left", p.call("gt", "b", 1), ()),
        join(p, "inner", None),
        p.table(),
    ):
        assert condition_below_join(plan) is plan
