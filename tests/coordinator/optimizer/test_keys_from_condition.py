from types import SimpleNamespace

import pyarrow as pa
import pytest

from fabric.coordinator.optimizer.keys_from_condition import keys_from_condition
from fabric.plan.expr import Column
from fabric.plan.nodes import Join


def join(p: SimpleNamespace, condition: object, how: str = "inner") -> Join:
    left = p.table("l", a=pa.int64(), x=pa.int64())
    right = p.table("r", b=pa.int64(), x=pa.int64())
    return Join(left, right, (), (), how, condition=condition)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_fires(p: SimpleNamespace, how: str) -> None:
    less = p.call("lt", "x", "x_right")
    found = keys_from_condition(join(p, p.both(less, p.call("eq", "b", "a")), how))
    assert (found.left_keys, found.right_keys) == ((Column("a"),), (Column("b"),))
    assert found.condition == less
    found = keys_from_condition(join(p, p.call("eq", "a", "x_right"), how))
    assert (found.left_keys, found.right_keys, found.condition) == (
        (Column("a"),),
        (Column("x"),),
        None,
    )


def test_leaves_others(p: SimpleNamespace) -> None:
    for plan in (
        join(p, p.call("lt", "a", "b")),
        join(p, p.call("eq", "x", "x_right")),  # would become one column
        join(p, p.call("eq", "a", "x")),
        join(p, p.call("eq", "a", 1)),
        join(p, p.call("eq", p.call("divide", 1, "a"), "b")),
        p.table(),
    ):
        assert keys_from_condition(plan) is plan
