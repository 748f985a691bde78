from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from fabric.coordinator.optimizer.join_conditions import condition_below_join, keys_from_condition
from fabric.plan.expr import Column
from fabric.plan.nodes import Filter, Join


def keyless_join(p: SimpleNamespace, condition: object, how: str = "inner") -> Join:
    left = p.table("l", a=pa.int64(), x=pa.int64())
    right = p.table("r", b=pa.int64(), x=pa.int64())
    return Join(left, right, (), (), how, condition=condition)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_fires(p: SimpleNamespace, how: str) -> None:
    less = p.call("lt", "x", "x_right")
    found = keys_from_condition(keyless_join(p, p.both(less, p.call("eq", "b", "a")), how))
    assert (found.left_keys, found.right_keys) == ((Column("a"),), (Column("b"),))
    assert found.condition == less
    found = keys_from_condition(keyless_join(p, p.call("eq", "a", "x_right"), how))
    assert (found.left_keys, found.right_keys, found.condition) == (
        (Column("a"),),
        (Column("x"),),
        None,
    )


def test_keys_from_condition_leaves_others(p: SimpleNamespace) -> None:
    for plan in (
        keyless_join(p, p.call("lt", "a", "b")),
        keyless_join(p, p.call("eq", "x", "x_right")),  # would become one column
        keyless_join(p, p.call("eq", "a", "x")),
        keyless_join(p, p.call("eq", "a", 1)),
        keyless_join(p, p.call("eq", p.call("divide", 1, "a"), "b")),
        p.table(),
    ):
        assert keys_from_condition(plan) is plan


K = (Column("k"),)


def keyed_join(
    p: SimpleNamespace, how: str, condition: object, keys: tuple[Column, ...] = K
) -> Join:
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
    plan = keyed_join(p, how, p.both(of_left, of_right, of_both))
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
    found = condition_below_join(keyed_join(p, "inner", p.call("gt", "b", 1), ()))
    assert (found.how, found.condition) == ("cross", None)


def test_condition_below_join_leaves_others(p: SimpleNamespace) -> None:
    for plan in (
        keyed_join(p, "inner", p.call("gt", "a", "b")),
        keyed_join(p, "inner", p.call("gt", p.call("divide", 1, "a"), 0)),
        keyed_join(p, "left", p.call("gt", "b", 1), ()),
        keyed_join(p, "inner", None),
        p.table(),
    ):
        assert condition_below_join(plan) is plan
