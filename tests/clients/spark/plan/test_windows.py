from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from plan_frames import NAN, ROWS, agg, call, col, lit, over, scan

from fabric.clients.spark.plan.refusals import refused
from fabric.plan.check import check
from fabric.plan.expr import Expr, Frame, SortKey
from fabric.plan.functions import WINDOW_FUNCTIONS
from fabric.plan.nodes import Filter, Node, Plan, Window

Same = Callable[[Node], pa.Table]
BY_ID = (SortKey(col("id")),)
BY_K = (col("k"),)
CASES = {
    "row_number": [agg("row_number")],
    "rank": [agg("rank")],
    "dense_rank": [agg("dense_rank")],
    "percent_rank": [agg("percent_rank")],
    "cume_dist": [agg("cume_dist")],
    "ntile": [agg("ntile", name="tile")],
    "lag": [agg("lag", col("k"), name="one"), agg("lag", col("u"), lit(2), name="two"),
            agg("lag", col("u"), lit(1), lit(9, pa.uint8()), name="nine"),
            agg("lag", col("t"), lit(-1), name="ahead")],
    "lead": [agg("lead", col("l"), name="list"), agg("lead", col("d"), lit(3), name="three")],
    "first_value": [agg("first_value", col("i")), agg("first_value", col("i"), lit(True), name="known")],
    "last_value": [agg("last_value", col("i")), agg("last_value", col("i"), lit(True), name="known")],
    "nth_value": [agg("nth_value", col("i"), lit(2)),
                  agg("nth_value", col("i"), lit(2), lit(True), name="known")],
}  # fmt: skip


def ranks(function: str) -> tuple[SortKey, ...]:
    """Ties matter to the rank family, and must not decide elsewhere."""
    tied = function in ("rank", "dense_rank", "percent_rank", "cume_dist")
    return (SortKey(col("f"), True), *(() if tied else BY_ID))


def test_no_function_is_left_out() -> None:
    assert set(CASES) == set(WINDOW_FUNCTIONS)


@pytest.mark.parametrize("name", CASES)
def test_functions(name: str, same: Same) -> None:
    functions = CASES[name]
    if name == "ntile":
        from fabric.plan.expr import Agg, Alias

        functions = [Alias(Agg("ntile", None, (lit(3),)), "tile")]
    for by in ((), BY_K):
        overs = tuple(over(each, by=by, order=ranks(name)) for each in functions)
        same(Window(scan(ROWS), overs))


FRAMES = [
    Frame("rows", None, 0), Frame("rows", -1, 1), Frame("rows", -3, -1), Frame("rows", 1, None),
    Frame("rows", None, None), Frame("rows", 0, 0), Frame("range", None, 0), Frame("range", -2, 2),
    Frame("range", 1, 3), Frame("range", None, -1), Frame("range", 0, None), None,
]  # fmt: skip


@pytest.mark.parametrize("frame", FRAMES, ids=str)
def test_frames(frame: Frame | None, same: Same) -> None:
    functions = [agg("sum", col("i")), agg("count", col("i")), agg("min", col("f")),
                 agg("count_distinct", col("f")), agg("max", col("k"))]  # fmt: skip
    key = "i" if frame is not None and frame.unit == "range" else "id"
    overs = tuple(
        over(each, by=BY_K, order=(SortKey(col(key)),), frame=frame) for each in functions
    )
    same(Window(scan(ROWS), overs))


KEYS = {
    "floats with NaN": pa.array([1.0, 1.5, NAN, None, -0.0, 0.0, NAN, 2.0], pa.float64()),
    "small": pa.array([-128, 127, 126, 0, None, 1, 2, 3], pa.int8()),
    "large": pa.array([2**63 - 1, -(2**63), 0, 1, None, 2**63 - 2, 5, 6], pa.int64()),
    "unsigned": pa.array([0, 1, 2**32 - 1, 7, None, 3, 4, 5], pa.uint32()),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("descending", [False, True])
def test_ranges_at_the_ends_of_their_type(kind: str, descending: bool, same: Same) -> None:
    table = pa.table({"key": KEYS[kind], "n": pa.array(range(8), pa.int64())})
    order = (SortKey(col("key"), descending),)
    frames = (Frame("range", -2, 0), Frame("range", 0, 1), Frame("range", None, 1))
    overs = tuple(
        over(agg("sum", col("n"), name=f"s{i}"), order=order, frame=frame)
        for i, frame in enumerate(frames)
    )
    same(Window(scan(table), overs))


@pytest.mark.parametrize(
    "name",
    ["count_if", "mean", "var", "std", "median", "quantile", "corr", "bool_and", "bool_or", "min_by",
     "skewness", "covar_pop"],
)  # fmt: skip
def test_aggregates_over_whole_partitions(name: str, same: Same) -> None:
    args: tuple[Expr, ...] = (col("i"),)
    if name in ("corr", "covar_pop", "min_by"):
        args = (col("i"), col("id"))
    if name == "quantile":
        args = (col("i"), lit(0.3))
    if name in ("bool_and", "bool_or", "count_if"):
        args = (col("b"),)
    same(Window(scan(ROWS), (over(agg(name, *args), by=BY_K),)))


def test_keys_that_are_computed_and_floats(same: Same) -> None:
    by = (call("modulo", col("id"), 2), col("f"))
    order = (SortKey(call("negate", col("id"))),)
    same(Window(scan(ROWS), (over(agg("row_number"), by=by, order=order),)))


def test_what_a_filter_keeps_away(same: Same) -> None:
    nonzero = Filter(scan(ROWS), call("ne", col("i"), 0))
    ninth = agg("sum", call("floor_divide", 9, col("i")), name="n")
    window = Window(nonzero, (over(ninth, by=BY_K),))
    same(Filter(window, call("gt", col("n"), 0)))


def test_sets_of_lists_of_floats_are_refused() -> None:
    table = pa.table({"l": pa.array([[0.0], [-0.0]])})
    window = Window(scan(table), (over(agg("count_distinct", col("l"))),))
    (error,) = refused(check(Plan(window)).root)
    assert "count_distinct of list<item: double> over a window" in str(error)
    assert error.where.node == "window_1"
