from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from plan_frames import NAN, ROWS, agg, agg_of, call, col, lit, over, scan

from fabric.clients.spark.plan.explain import refused
from fabric.plan.check import check
from fabric.plan.expr import Alias, Expr, Frame, SortKey
from fabric.plan.functions import WINDOW_FUNCTIONS
from fabric.plan.nodes import Filter, Node, Plan, Window

Same = Callable[[Node], pa.Table]
BY_ID = (SortKey(col("id")),)
BY_K = (col("k"),)
RANKS = ("rank", "dense_rank", "percent_rank", "cume_dist")
OTHERS = [
    agg("row_number"),
    agg("ntile", None, lit(3)),
    agg("lag", col("k"), name="one before"),
    agg("lag", col("u"), lit(2), name="two before"),
    agg("lag", col("u"), lit(1), lit(9, pa.uint8()), name="nine where none is"),
    agg("lag", col("t"), lit(-1), name="ahead"),
    agg("lead", col("l"), name="list"),
    agg("lead", col("d"), lit(3), name="three on"),
    *(agg(f"{end}_value", col("i"), *rest, name=f"{end}{rest}")
      for end in ("first", "last") for rest in ((), (lit(True),), (lit(False),))),
    agg("nth_value", col("i"), lit(2)),
    agg("nth_value", col("i"), lit(2), lit(True), name="known"),
]  # fmt: skip


def test_no_function_is_left_out() -> None:
    named = {agg_of(each).function for each in OTHERS}
    assert {*RANKS, *named} == set(WINDOW_FUNCTIONS)


@pytest.mark.parametrize("by", [(), BY_K], ids=["whole", "by k"])
def test_functions(by: tuple[Expr, ...], same: Same) -> None:
    """Ties matter to the rank family, and must not decide elsewhere."""
    order = (SortKey(col("f"), True),)
    ranks = [over(agg(name), by=by, order=order) for name in RANKS]
    others = [over(each, by=by, order=(*order, *BY_ID)) for each in OTHERS]
    same(Window(scan(ROWS), (*ranks, *others)))


FRAMES = [
    Frame("rows", None, 0), Frame("rows", -1, 1), Frame("rows", -3, -1), Frame("rows", 1, None),
    Frame("rows", None, None), Frame("rows", 0, 0), Frame("range", None, 0), Frame("range", -2, 2),
    Frame("range", 1, 3), Frame("range", None, -1), Frame("range", 0, None), None,
]  # fmt: skip


def test_frames(same: Same) -> None:
    functions = [agg("sum", col("i")), agg("count", col("i")), agg("min", col("f")),
                 agg("count_distinct", col("f")), agg("max", col("k"))]  # fmt: skip
    overs = [
        over(Alias(each.input, f"{each.name} {frame}"), by=BY_K, order=_order(frame), frame=frame)
        for each in functions
        for frame in FRAMES
    ]
    same(Window(scan(ROWS), tuple(overs)))


def _order(frame: Frame | None) -> tuple[SortKey, ...]:
    is_range = frame is not None and frame.unit == "range"
    return (SortKey(col("i" if is_range else "id")),)


KEYS = {
    "floats with NaN": pa.array([1.0, 1.5, NAN, None, -0.0, 0.0, NAN, 2.0], pa.float64()),
    "small": pa.array([-128, 127, 126, 0, None, 1, 2, 3], pa.int8()),
    "large": pa.array([2**63 - 1, -(2**63), 0, 1, None, 2**63 - 2, 5, 6], pa.int64()),
    "unsigned": pa.array([0, 1, 2**32 - 1, 7, None, 3, 4, 5], pa.uint32()),
}


@pytest.mark.parametrize("kind", KEYS)
def test_ranges_at_the_ends_of_their_type(kind: str, same: Same) -> None:
    table = pa.table({"key": KEYS[kind], "n": pa.array(range(8), pa.int64())})
    frames = (Frame("range", -2, 0), Frame("range", 0, 1), Frame("range", None, 1))
    overs = tuple(
        over(
            agg("sum", col("n"), name=f"{frame} {descending}"),
            order=(SortKey(col("key"), descending),),
            frame=frame,
        )
        for frame in frames
        for descending in (False, True)
    )
    same(Window(scan(table), overs))


def test_aggregates_over_whole_partitions(same: Same) -> None:
    i, b = col("i"), col("b")
    one = ("mean", "var", "std", "median", "skewness", "count_distinct")
    aggs = [agg(name, i) for name in one]
    aggs += [agg(name, i, col("id")) for name in ("corr", "covar_pop", "min_by")]
    aggs += [agg(name, b) for name in ("bool_and", "bool_or", "count_if")]
    aggs.append(agg("quantile", i, lit(0.3)))
    aggs.append(agg("quantile", i, lit(0.3), lit("nearest"), name="nearest"))
    same(Window(scan(ROWS), tuple(over(each, by=BY_K) for each in aggs)))


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


@pytest.mark.parametrize("frame", [None, Frame("rows", -1, 1), Frame("range", None, 0)])
def test_every_aggregate_takes_an_order_and_a_frame(frame: Frame | None, same: Same) -> None:
    plain = ("count_distinct", "median", "var", "std_pop", "skewness", "kurtosis", "mean")
    pairs = ("corr", "covar_samp", "covar_pop", "min_by", "max_by")
    aggs = [
        *(agg(name, col("i")) for name in plain),
        *(agg(name, col("i"), col("id"), name=name) for name in pairs),
        agg("quantile", col("i"), lit(0.3), name="quantile"),
        agg("bool_and", call("gt", col("i"), lit(1)), name="all"),
        agg("count_if", call("gt", col("i"), lit(1)), name="few"),
    ]
    named = [over(each, by=BY_K, order=BY_ID, frame=frame) for each in aggs]
    same(Window(scan(ROWS), tuple(named)))
