from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from plan_frames import OTHER, ROWS, call, col, lit, scan

from fabric.plan.expr import Expr
from fabric.plan.nodes import Join, Node, Select

Same = Callable[[Node], pa.Table]
HOWS = ("inner", "left", "right", "full", "semi", "anti")
LEFT = ROWS.select(["id", "k", "f", "i"])


def join(how: str, *keys: str, condition: Expr | None = None, strategy: str = "auto") -> Join:
    columns = tuple(map(col, keys))
    return Join(scan(LEFT), scan(OTHER), columns, columns, how, strategy=strategy,
                condition=condition)  # fmt: skip


@pytest.mark.parametrize("how", HOWS)
def test_on_one_column(how: str, same: Same) -> None:
    """Null keys match nothing; the merged key is the side's there is a row of."""
    same(join(how, "k"))


@pytest.mark.parametrize("how", HOWS)
def test_on_floats_of_two_widths(how: str, same: Same) -> None:
    """NaN equals NaN, -0.0 equals 0.0."""
    same(join(how, "f"))


@pytest.mark.parametrize("how", HOWS)
def test_with_a_condition(how: str, same: Same) -> None:
    same(join(how, "k", condition=call("gt", col("x"), col("i"))))


@pytest.mark.parametrize("how", HOWS)
def test_with_a_condition_that_can_raise(how: str, same: Same) -> None:
    """Only pairs with equal keys are looked at: no other has an i of 0 on the left."""
    condition = call("gt", call("floor_divide", col("x"), col("i")), 0)
    left = scan(pa.table({"k": ["a", "b", "z"], "i": pa.array([1, 2, 0], pa.int32())}))
    same(Join(left, scan(OTHER), (col("k"),), (col("k"),), how, condition=condition))


@pytest.mark.parametrize("how", HOWS)
def test_without_keys(how: str, same: Same) -> None:
    same(join(how, condition=call("lt", col("i"), col("x"))))
    same(join(how, condition=call("lt", call("add", col("i"), col("x")), 5)))


def test_cross(same: Same) -> None:
    assert same(join("cross")).num_rows == LEFT.num_rows * OTHER.num_rows


@pytest.mark.parametrize("how", HOWS)
def test_with_itself(how: str, same: Same) -> None:
    one = scan(LEFT)
    same(Join(one, one, (col("k"),), (col("k"),), how))
    same(Join(one, one, (col("i"),), (col("id"),), how))


@pytest.mark.parametrize("how", HOWS)
def test_keys_that_are_computed(how: str, same: Same) -> None:
    left = (call("modulo", col("id"), 4), call("upper", col("k")))
    right = (col("x"), call("upper", col("k")))
    same(Join(scan(LEFT), scan(OTHER), left, right, how))


@pytest.mark.parametrize("strategy", ["broadcast", "hash"])
def test_strategies(strategy: str, same: Same) -> None:
    for how in ("inner", "full") if strategy == "hash" else ("inner", "anti"):
        same(join(how, "k", strategy=strategy))


def test_sides_without_rows(same: Same) -> None:
    for how in ("left", "full", "anti"):
        same(Join(scan(LEFT.slice(0, 0)), scan(OTHER), (col("k"),), (col("k"),), how))
        same(Join(scan(LEFT), scan(OTHER.slice(0, 0)), (col("k"),), (col("k"),), how))


def test_suffixes(same: Same) -> None:
    found = same(Join(scan(LEFT), scan(OTHER), (col("k"),), (col("k"),), "inner", suffix=".r`"))
    assert found.column_names == ["id", "k", "f", "i", "f.r`", "x"]
    same(Select(join("full", "k"), (col("f_right"), col("k"))))


def test_a_key_of_a_dictionary_and_a_string(same: Same) -> None:
    left = LEFT.set_column(1, "k", LEFT["k"].dictionary_encode())
    for how in ("inner", "full", "right"):
        same(Join(scan(left), scan(OTHER), (col("k"),), (col("k"),), how))
    same(Join(scan(left), scan(OTHER), (lit("a"),), (col("k"),), "inner"))
