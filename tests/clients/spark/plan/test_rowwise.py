from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from plan_frames import OTHER, ROWS, agg, call, col, lit, scan

from fabric.errors import ExpressionError
from fabric.plan.expr import Alias, Case, Cast, IsIn
from fabric.plan.nodes import Aggregate, Filter, Join, Limit, Node, Scan, Select, Union, WithColumns

NAMES = ["a.b", "a`b", "`", "A", "a", "", "x y", "select", "count(1)", "é", "*", "l.f", '"', "c_1"]


def test_names_of_every_kind(same: Callable[[Node], pa.Table]) -> None:
    table = pa.table([pa.array([i, None]) for i in range(len(NAMES))], NAMES)
    plan = WithColumns(scan(table), (Alias(call("add", col("a.b"), col("")), "a.b.c`d"),))
    found = same(Filter(plan, call("is_not_null", col("`"))))
    assert found.column_names == [*NAMES, "a.b.c`d"]
    assert found.to_pylist()[0]["a.b.c`d"] == 5


def test_columns_are_replaced_in_their_place(same: Callable[[Node], pa.Table]) -> None:
    exprs = (Alias(call("add", col("i"), 1), "k"), Alias(col("k"), "new"))
    found = same(WithColumns(scan(ROWS), exprs, replace=True))
    assert found.column_names == [*ROWS.column_names, "new"]


FILTERS = {
    "greater than NaN is nothing": call("gt", col("f"), lit(float("nan"))),
    "NaN is the largest": call("gt", col("f"), lit(1e300)),
    "NaN equals NaN": call("eq", col("f"), lit(float("nan"))),
    "zeros are equal": call("eq", col("f"), lit(0.0)),
    "null is not true": call("not", call("eq", col("k"), "a")),
    "a guard from the left": call("and", call("ne", col("i"), 0),
                                  call("gt", call("floor_divide", 9, col("i")), 1)),
    "null ends it too": call("and", call("gt", col("f"), lit(-1.0)),
                             call("ne", call("floor_divide", 9, call("abs", col("i"))), 0)),
    "in with null": IsIn(col("k"), (lit("a"), lit(None, pa.string()))),
}  # fmt: skip


@pytest.mark.parametrize("case", [name for name in FILTERS if name != "null ends it too"])
def test_filters(case: str, same: Callable[[Node], pa.Table]) -> None:
    same(Filter(scan(ROWS), FILTERS[case]))


def test_a_condition_is_not_looked_at_where_the_one_before_is_null(
    same: Callable[[Node], pa.Table],
) -> None:
    table = pa.table({"a": pa.array([None, True, False]), "v": pa.array([0, 3, 0], pa.int32())})
    plan = Filter(
        scan(table), call("and", col("a"), call("gt", call("floor_divide", 9, col("v")), 1))
    )
    assert same(plan).to_pylist() == [{"a": True, "v": 3}]


def _ninth() -> Alias:
    return Alias(call("floor_divide", 9, col("v")), "n")


def test_what_a_filter_keeps_away_is_not_divided_by(same: Callable[[Node], pa.Table]) -> None:
    table = pa.table({"v": pa.array([0, 1, 2, 3, None], pa.int64())})
    nonzero = Filter(scan(table), call("ne", col("v"), 0))
    ninths = WithColumns(nonzero, (_ninth(),))
    assert same(Filter(ninths, call("gt", col("n"), 3))).num_rows == 2
    assert same(Union((ninths, ninths))).num_rows == 6
    same(Aggregate(nonzero, (_ninth(),), ()))


def test_what_a_join_keeps_away_is_not_divided_by(same: Callable[[Node], pa.Table]) -> None:
    """Spark by itself pushes the second filter below the join and divides by zero."""
    left = scan(pa.table({"v": pa.array([0, 1, 2, 3], pa.int64())}))
    right = scan(pa.table({"w": pa.array([1, 3], pa.int64())}))
    for how in ("inner", "semi"):
        joined = Join(left, right, (col("v"),), (col("w"),), how)
        found = same(Filter(joined, call("gt", call("floor_divide", 9, col("v")), 1)))
        assert found.num_rows == 2


def test_a_limit_keeps_away_too(same: Callable[[Node], pa.Table]) -> None:
    table = pa.table({"v": pa.array([1, 0], pa.int64())})
    first = Limit(scan(table.slice(0, 1)), 1)
    same(Filter(WithColumns(first, (_ninth(),)), call("gt", col("n"), 1)))


def test_an_equality_is_not_carried_over_to_the_other_side(
    same: Callable[[Node], pa.Table],
) -> None:
    """Spark infers ``9 // w > 1`` from ``v = w``; the right side has a zero."""
    left = scan(pa.table({"v": pa.array([0, 1, 2, 3], pa.int64())}))
    right = scan(pa.table({"w": pa.array([0, 1, 3], pa.int64())}))
    kept = Filter(
        Filter(left, call("ne", col("v"), 0)), call("gt", call("floor_divide", 9, col("v")), 1)
    )
    assert same(Join(kept, right, (col("v"),), (col("w"),))).num_rows == 2


def test_a_branch_is_taken_only_where_it_counts(same: Callable[[Node], pa.Table]) -> None:
    table = pa.table({"v": pa.array([0, 1, None], pa.int64()), "s": ["x", "1", "y"]})
    branch = Case(((call("eq", col("v"), 1), Cast(col("s"), pa.int32())),), lit(0))
    same(Select(scan(table), (Alias(branch, "n"),)))


def test_a_constant_that_raises_raises_for_rows_only(
    same: Callable[[Node], pa.Table], on_spark: Callable[[Node], pa.Table]
) -> None:
    table = pa.table({"v": pa.array([1], pa.int64())})
    raising = (Alias(call("floor_divide", 1, 0), "n"),)
    assert same(WithColumns(scan(table.slice(0, 0)), raising)).num_rows == 0
    with pytest.raises(ExpressionError, match=r"division by zero \(node with_columns_1\)"):
        on_spark(WithColumns(scan(table), raising))


def test_scans_of_some_columns_with_a_filter(same: Callable[[Node], pa.Table]) -> None:
    read = scan(ROWS)
    wanted = Scan(read.source, read.schema, ("f", "id"), call("gt", col("i"), 0))
    assert same(wanted).column_names == ["f", "id"]
    assert same(Scan(read.source, read.schema, ("k",))).num_rows == ROWS.num_rows


def test_tables_without_rows_or_columns(
    same: Callable[[Node], pa.Table], on_spark: Callable[[Node], pa.Table]
) -> None:
    assert same(scan(OTHER.slice(0, 0))).num_rows == 0
    count = Aggregate(scan(ROWS.select([])), (), (agg("count"),))
    assert on_spark(count).to_pylist() == [{"count": ROWS.num_rows}]
