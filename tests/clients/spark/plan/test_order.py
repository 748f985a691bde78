from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pyarrow as pa
import pytest
from plan_frames import ROWS, call, col, scan

from fabric.plan.expr import SortKey
from fabric.plan.nodes import Distinct, Exchange, Limit, Node, Select, Sort, Union

Same = Callable[..., pa.Table]


@pytest.mark.parametrize(("descending", "nulls_last"), [*product((False, True), repeat=2)])
def test_orders(descending: bool, nulls_last: bool, same: Same) -> None:
    """-0.0 and 0.0 are equal: the second key decides among them."""
    keys = (SortKey(col("f"), descending, nulls_last), SortKey(col("id")))
    node = Select(Sort(scan(ROWS), keys), (col("id"),))
    same(node, ordered=True)


def test_orders_by_something_computed(same: Same) -> None:
    keys = (SortKey(call("modulo", col("id"), 3), True), SortKey(col("k")), SortKey(col("id")))
    same(Select(Sort(scan(ROWS), keys), (col("id"), col("k"))), ordered=True)


@pytest.mark.parametrize(
    ("n", "offset"), [(3, 0), (0, 0), (4, 5), (100, 10), (5, 100), (1 << 40, 2)]
)
def test_limits(n: int, offset: int, same: Same) -> None:
    same(
        Select(Limit(Sort(scan(ROWS), (SortKey(col("id")),)), n, offset), (col("id"),)),
        ordered=True,
    )


def test_a_limit_without_order(on_spark: Callable[[Node], pa.Table]) -> None:
    found = on_spark(Limit(scan(ROWS), 5))
    assert found.num_rows == 5
    assert set(found["id"].to_pylist()) <= set(range(12))


def test_a_limit_that_two_read_is_one(on_spark: Callable[[Node], pa.Table]) -> None:
    some = Limit(Exchange(scan(ROWS), "round_robin"), 5)
    found = on_spark(Union((some, some)))["id"].to_pylist()
    assert sorted(found[:5]) == sorted(found[5:])


def test_different_rows(same: Same) -> None:
    same(Distinct(Select(scan(ROWS), (col("f"), col("b")))))
    same(Distinct(Select(scan(ROWS), (col("l"),))))
    same(Distinct(Select(scan(ROWS), (col("k"), col("u"), col("t")))))


def test_unions_by_position_in_one_type(same: Same) -> None:
    left = Select(scan(ROWS), (col("u"), col("k")))
    right = Select(scan(ROWS), (col("i"), col("k")))
    found = same(Union((left, right, left)))
    assert found.schema.types == [pa.int32(), pa.string()]
    assert found.column_names == ["u", "k"]


@pytest.mark.parametrize("kind", ["hash", "round_robin", "gather"])
def test_exchanges_change_no_row(kind: str, same: Same) -> None:
    keys = ("k",) if kind == "hash" else ()
    same(Exchange(scan(ROWS), kind, keys))
