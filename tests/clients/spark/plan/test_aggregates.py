from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pytest
from plan_frames import ROWS, agg, call, col, lit, scan

from fabric.clients.demo.checksum import rows
from fabric.errors import ExpressionError
from fabric.plan.expr import Alias
from fabric.plan.functions import AGGREGATES
from fabric.plan.functions.aggregates import INTERPOLATIONS
from fabric.plan.nodes import Aggregate, Filter, Node

Same = Callable[[Node], pa.Table]
QUARTER = lit(0.25)
CASES = {
    "count": [agg("count"), agg("count", col("k"), name="n")],
    "count_if": [agg("count_if", col("b")), agg("count_if", call("gt", col("i"), 0), name="n")],
    "count_distinct": [agg("count_distinct", col(name), name=name) for name in "kuftl"],
    "sum": [agg("sum", col(name), name=name) for name in ("i", "u", "f", "d")],
    "mean": [agg("mean", col(name), name=name) for name in ("i", "u", "d")],
    "min": [agg("min", col(name), name=name) for name in ("k", "u", "f", "d", "b", "t", "day")],
    "max": [agg("max", col(name), name=name) for name in ("k", "u", "f", "d", "b", "t", "day")],
    "min_by": [agg("min_by", col("k"), col("id"))],
    "max_by": [
        agg("max_by", col("id"), call("coalesce", col("t"), lit(None, pa.timestamp("us", "UTC"))))
    ],
    "var": [agg("var", col("i")), agg("var", col("d"), name="n")],
    "std": [agg("std", col("i"))],
    "var_pop": [agg("var_pop", col("i"))],
    "std_pop": [agg("std_pop", col("u"))],
    "skewness": [agg("skewness", col("i"))],
    "kurtosis": [agg("kurtosis", col("i"))],
    "covar_samp": [agg("covar_samp", col("i"), col("id"))],
    "covar_pop": [agg("covar_pop", col("i"), col("id"))],
    "corr": [agg("corr", col("i"), col("id"))],
    "median": [agg("median", col("i")), agg("median", col("d"), name="n")],
    "quantile": [
        agg("quantile", col("i"), QUARTER),
        agg("quantile", col("u"), lit(1), name="n"),
        *(agg("quantile", col("i"), QUARTER, lit(how), name=how) for how in INTERPOLATIONS),
    ],
    "bool_and": [agg("bool_and", col("b"))],
    "bool_or": [agg("bool_or", col("b"))],
}
"""Aggregates whose answer does not depend on the order of rows."""
OPEN = {"first", "last", "any_value", "collect", "approx_distinct", "approx_quantile"}


def test_no_aggregate_is_left_out() -> None:
    assert {*CASES, *OPEN} == set(AGGREGATES)


def _all() -> tuple[Alias, ...]:
    """Every case under a name of its own."""
    return tuple(
        Alias(one.input, f"{name}.{one.name}") for name, several in CASES.items() for one in several
    )


def test_of_all_rows(same: Same) -> None:
    same(Aggregate(scan(ROWS), (), _all()))


def test_of_no_rows(same: Same) -> None:
    same(Aggregate(scan(ROWS.slice(0, 0)), (), _all()))


def test_of_groups(same: Same) -> None:
    same(Aggregate(scan(ROWS), (Alias(col("k"), "key"),), _all()))


@pytest.mark.parametrize("key", ["f", "t", "l", "b", "d", "day", "u"])
def test_keys_of_every_kind(key: str, same: Same) -> None:
    """Nulls are a group, NaNs are one, -0.0 and 0.0 are one."""
    same(Aggregate(scan(ROWS), (col(key),), (agg("sum", col("id")),)))


def test_keys_alone_and_computed(same: Same) -> None:
    same(Aggregate(scan(ROWS), (col("k"), col("b")), ()))
    computed = Alias(call("modulo", col("id"), 3), "r")
    same(Aggregate(scan(ROWS), (computed, col("b")), (agg("count"), agg("min", computed.input))))


def test_any_row_of_the_group(on_spark: Callable[[Node], pa.Table]) -> None:
    """Which one is open; that it is one of the group's is not."""
    names = ("first", "last", "any_value")
    aggs = [agg(name, col("id")) for name in names]
    aggs += [agg("collect", col("i")), agg("approx_quantile", col("id"), lit(0.5)),
             agg("approx_distinct", col("id"))]  # fmt: skip
    found = on_spark(Aggregate(scan(ROWS), (col("k"),), tuple(aggs)))
    groups: dict[str | None, list[int]] = {}
    for key, number in zip(ROWS["k"].to_pylist(), ROWS["id"].to_pylist(), strict=True):
        groups.setdefault(key, []).append(number)
    assert found.num_rows == len(groups)
    values = dict(zip(ROWS["id"].to_pylist(), ROWS["i"].to_pylist(), strict=True))
    for row in found.to_pylist():
        group = groups[row["k"]]
        assert {row[name] for name in (*names, "approx_quantile")} <= set(group)
        assert row["approx_distinct"] == len(group)
        assert sorted(row["collect"]) == sorted(values[n] for n in group if values[n] is not None)


def test_empty_groups_of_the_open_ones(on_spark: Callable[[Node], pa.Table]) -> None:
    aggs = (agg("first", col("i")), agg("collect", col("i")), agg("approx_distinct", col("i")))
    found = on_spark(Aggregate(scan(ROWS.slice(0, 0)), (), aggs))
    assert rows(found) == [(None, (), 0)]


def test_overflow(on_spark: Callable[[Node], pa.Table]) -> None:
    table = pa.table({"a": pa.array([2**63 - 1, 1], pa.int64()),
                      "d": pa.array([Decimal("9" * 38)] * 2, pa.decimal128(38, 0))})  # fmt: skip
    for name in ("a", "d"):
        with pytest.raises(ExpressionError, match=r"overflow \(node aggregate_1\)"):
            on_spark(Aggregate(scan(table), (), (agg("sum", col(name)),)))


def test_what_is_aggregated_is_computed_above_the_filter(same: Same) -> None:
    nonzero = Filter(scan(ROWS), call("ne", col("i"), 0))
    same(Aggregate(nonzero, (col("k"),), (agg("sum", call("floor_divide", 100, col("i"))),)))
