"""The oracle itself, beside answers worked out by hand from Spark's rules."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from fabric.plan.expr import Agg, Alias, Call, Case, Cast, Column, Expr, IsIn, Literal, SortKey
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Exchange,
    Filter,
    Join,
    Limit,
    Node,
    Scan,
    Select,
    Sink,
    Sort,
    StageInput,
    Union,
    WithColumns,
)
from fabric.plan.schema import schema_of
from fabric.plan.sources import FileSource, MemorySource
from fabric.plan.targets import FileTarget
from tests.support.duckdb import run, to_sql, translated
from tests.support.plans import random_plan, random_tables

NAN, INF = float("nan"), float("inf")
A, B = Column("a"), Column("b")
DAY = datetime.date(2013, 5, 15)
TIME = datetime.datetime(2013, 5, 15, 13, 45, 59, 999_999)


def lit(value: Any, dtype: pa.DataType | None = None) -> Literal:
    usual = {int: pa.int32(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
    return Literal(value, dtype or usual[type(value)])


def call(function: str, *args: Expr) -> Call:
    return Call(function, args)


def scan(table: pa.Table, token: str = "t") -> Scan:
    return Scan(MemorySource(token, table.num_rows), table.schema)


def values(expr: Expr, **columns: pa.Array) -> list[Any]:
    table = pa.table(columns)
    node = Select(scan(table), (Alias(expr, "x"),))
    return list(run(node, {"t": table})["x"].to_pylist())


def same(got: list[Any], expected: list[Any]) -> bool:
    def alike(x: Any, y: Any) -> bool:
        both_nan = isinstance(x, float) and isinstance(y, float) and math.isnan(x) and math.isnan(y)
        return both_nan or x == y

    return len(got) == len(expected) and all(map(alike, got, expected))


I8, I32, I64, F64 = pa.int8(), pa.int32(), pa.int64(), pa.float64()
UTC = pa.timestamp("us", "UTC")
D52 = pa.decimal128(5, 2)


def decimals(*texts: str | None, dtype: pa.DataType = D52) -> pa.Array:
    return pa.array([None if text is None else Decimal(text) for text in texts], dtype)


CASES: list[tuple[Expr, dict[str, pa.Array], list[Any]]] = [
    (call("divide", A, lit(2)), {"a": pa.array([7, -7, None], I32)}, [3.5, -3.5, None]),
    (call("floor_divide", A, lit(2)), {"a": pa.array([7, -7], I32)}, [3, -3]),
    (call("modulo", A, lit(3)), {"a": pa.array([7, -7], I32)}, [1, -1]),
    (call("modulo", A, lit(2.0)), {"a": pa.array([7.5, -7.5, NAN], F64)}, [1.5, -1.5, NAN]),
    (call("add", A, B), {"a": pa.array([100], I8), "b": pa.array([100], pa.int16())}, [200]),
    (call("add", A, B), {"a": pa.array([255], pa.uint8()), "b": pa.array([127], I8)}, [382]),
    (call("add", A, B), {"a": decimals("1.25"), "b": decimals("-0.5")}, [Decimal("0.75")]),
    (call("multiply", A, B), {"a": decimals("1.25", None), "b": decimals("-0.5", "1")},
     [Decimal("-0.6250"), None]),
    (call("divide", A, B), {"a": decimals("1", "-2"), "b": decimals("3", "3")},
     [Decimal("0.33333333"), Decimal("-0.66666667")]),
    (call("floor_divide", A, B), {"a": decimals("-7.5"), "b": decimals("2")}, [-3]),
    (call("modulo", A, B), {"a": decimals("-7.5"), "b": decimals("2")}, [Decimal("-1.50")]),
    (call("negate", A), {"a": pa.array([1, None], I32)}, [-1, None]),
    (call("abs", A), {"a": pa.array([-1.5, NAN], F64)}, [1.5, NAN]),
    (call("round", A, lit(2)), {"a": pa.array([2.675, -2.675, 0.125, NAN, INF], F64)},
     [2.68, -2.68, 0.13, NAN, INF]),
    (call("round", A, lit(-1)), {"a": pa.array([15, -15, 14], I32)}, [20, -20, 10]),
    (call("round", A), {"a": decimals("2.5", "-2.5", "2.49")},
     [Decimal(3), Decimal(-3), Decimal(2)]),
    (call("round", A, lit(-1)), {"a": decimals("15.00", "-14.99")}, [Decimal(20), Decimal(-10)]),
    (call("floor", A), {"a": pa.array([-1.5, 2.0], F64)}, [-2, 2]),
    (call("ceil", A), {"a": decimals("-1.5", "1.01")}, [Decimal(-1), Decimal(2)]),
    # comparison
    (call("eq", A, B), {"a": pa.array([NAN, -0.0, None, 1.0]), "b": pa.array([NAN, 0.0, 1.0, 2.0])},
     [True, True, None, False]),
    (call("gt", A, B), {"a": pa.array([NAN, INF]), "b": pa.array([INF, NAN])}, [True, False]),
    (call("eq_null_safe", A, B), {"a": pa.array([None, None, 1]), "b": pa.array([None, 1, 1])},
     [True, False, True]),
    (call("lt", A, B), {"a": pa.array([DAY]), "b": pa.array([TIME])}, [True]),
    (call("and", A, B), {"a": pa.array([None, None]), "b": pa.array([False, True])},
     [False, None]),
    (call("or", A, call("not", B)), {"a": pa.array([None, False]), "b": pa.array([False, None])},
     [True, None]),
    (call("is_nan", A), {"a": pa.array([NAN, 1.0, None])}, [True, False, False]),
    (call("coalesce", A, B, lit(0)), {"a": pa.array([None, 1], I8), "b": pa.array([None, 2], I64)},
     [0, 1]),
    (IsIn(A, (lit(1), Literal(None, pa.null()))), {"a": pa.array([1, 2, None])},
     [True, None, None]),
    (IsIn(A, ()), {"a": pa.array([1, None])}, [False, False]),
    (Case(((call("gt", A, lit(1)), lit("many")),), Literal(None, pa.null())),
     {"a": pa.array([1, 2, None])}, [None, "many", None]),
    # strings
    (call("length", A), {"a": pa.array(["", "é日", None])}, [0, 2, None]),
    (call("length", A), {"a": pa.array([b"", b"\x00\x01"])}, [0, 2]),
    (call("trim", A), {"a": pa.array([" \ta "])}, ["\ta"]),
    (call("substring", A, lit(2), lit(2)), {"a": pa.array(["abcd", "a", None])}, ["bc", "", None]),
    (call("substring", A, lit(0), lit(2)), {"a": pa.array(["abc"])}, ["ab"]),
    (call("substring", A, lit(-2), lit(1)), {"a": pa.array(["abc"])}, ["b"]),
    (call("substring", A, lit(-5), lit(3)), {"a": pa.array(["abc"])}, ["a"]),
    (call("substring", A, lit(-2)), {"a": pa.array(["abc", "a"])}, ["bc", "a"]),
    (call("substring", A, lit(1), lit(-1)), {"a": pa.array(["abc"])}, [""]),
    (call("replace", A, lit("b"), lit("")), {"a": pa.array(["abcb"])}, ["ac"]),
    (call("replace", A, lit(""), lit("x")), {"a": pa.array(["ab"])}, ["ab"]),
    (call("concat", A, lit("'\0")), {"a": pa.array(["x", None])}, ["x'\0", None]),
    (call("contains", A, lit("%")), {"a": pa.array(["a%b", "ab"])}, [True, False]),
    (call("ends_with", A, lit("_")), {"a": pa.array(["a_", "ab"])}, [True, False]),
    (call("upper", A), {"a": pa.array(["é", "b"]).dictionary_encode()}, ["É", "B"]),
    # dates
    (call("day_of_week", A), {"a": pa.array([datetime.date(2024, 9, 1), DAY])}, [1, 4]),
    (call("hour", A), {"a": pa.array([DAY])}, [0]),
    (call("second", A), {"a": pa.array([TIME])}, [59]),
    (call("year", A), {"a": pa.array([TIME], pa.timestamp("us", "America/New_York"))}, [2013]),
    (call("date_trunc", lit("week"), A), {"a": pa.array([TIME])}, [datetime.datetime(2013, 5, 13)]),
    (call("date_trunc", lit("quarter"), A), {"a": pa.array([TIME])},
     [datetime.datetime(2013, 4, 1)]),
    (call("to_date", A), {"a": pa.array([datetime.datetime(1969, 12, 31, 23)])},
     [datetime.date(1969, 12, 31)]),
    (call("add_interval", A, lit(1), lit("month")),
     {"a": pa.array([datetime.datetime(2013, 1, 31)])}, [datetime.datetime(2013, 2, 28)]),
    (call("add_interval", A, lit(-1), lit("microsecond")), {"a": pa.array([TIME])},
     [TIME.replace(microsecond=999_998)]),
    (call("to_timestamp", A), {"a": pa.array(["2013-01-02 03:04:05.5"])},
     [datetime.datetime(2013, 1, 2, 3, 4, 5, 500_000)]),
    (call("to_timestamp", A, lit("yyyy/MM/dd HHmm")), {"a": pa.array(["2013/01/02 0304"])},
     [datetime.datetime(2013, 1, 2, 3, 4)]),
    # casts
    (Cast(A, I32), {"a": pa.array([2.9, -2.9])}, [2, -2]),
    (Cast(A, I32), {"a": decimals("2.99", "-2.99")}, [2, -2]),
    (Cast(A, I32, try_=True), {"a": pa.array([" 12 ", "1.5", "x", None])}, [12, None, None, None]),
    (Cast(A, I8, try_=True), {"a": pa.array([300, 1])}, [None, 1]),
    (Cast(A, pa.decimal128(4, 1)), {"a": pa.array([2.25, -2.25, 1e-9])},
     [Decimal("2.3"), Decimal("-2.3"), Decimal("0.0")]),
    (Cast(A, pa.string()), {"a": pa.array([True, None])}, ["true", None]),
    (Cast(A, pa.string()), {"a": pa.array([DAY])}, ["2013-05-15"]),
    (Cast(A, I64), {"a": pa.array([datetime.datetime(1969, 12, 31, 23, 59, 58, 500_000)], UTC)},
     [-2]),
    (Cast(A, pa.timestamp("us")), {"a": pa.array([DAY])}, [datetime.datetime(2013, 5, 15)]),
    (Cast(A, pa.timestamp("us", "UTC")), {"a": pa.array([60], I32)},
     [datetime.datetime(1970, 1, 1, 0, 1)]),
    # constants
    (lit(-0.0), {"a": pa.array([1])}, [0.0]),
    (lit(NAN), {"a": pa.array([1])}, [NAN]),
    (lit(b"\x00'", pa.binary()), {"a": pa.array([1])}, [b"\x00'"]),
    (lit(TIME, pa.timestamp("ns")), {"a": pa.array([1])}, [TIME]),
    (lit(Decimal("-1.50"), pa.decimal128(10, 2)), {"a": pa.array([1])}, [Decimal("-1.50")]),
]  # fmt: skip


@pytest.mark.parametrize(("expr", "columns", "expected"), CASES)
def test_value_is_sparks(expr: Expr, columns: dict[str, pa.Array], expected: list[Any]) -> None:
    got = values(expr, **columns)
    assert same(got, expected), got


@pytest.mark.parametrize("function", ["divide", "floor_divide", "modulo"])
@pytest.mark.parametrize("dtype", [I32, D52])
def test_division_by_zero_fails_unless_the_dividend_is_null(
    function: str, dtype: pa.DataType
) -> None:
    zero = pa.array([0], dtype)
    with pytest.raises(duckdb.Error, match="division by zero"):
        values(call(function, A, B), a=pa.array([1], dtype), b=zero)
    assert values(call(function, A, B), a=pa.array([None], dtype), b=zero) == [None]


@pytest.mark.parametrize(
    ("expr", "column"),
    [
        (call("add", A, A), pa.array([100], I8)),
        (Cast(A, I8), pa.array([300], I32)),
        (Cast(A, I32), pa.array(["1.5"])),
        (Cast(A, I64), pa.array([NAN])),
    ],
)
def test_what_does_not_fit_fails(expr: Expr, column: pa.Array) -> None:
    with pytest.raises(duckdb.Error):
        values(expr, a=column)


def test_what_has_no_translation_is_refused() -> None:
    with pytest.raises(ValueError, match="no SQL for a float as a string"):
        values(Cast(A, pa.string()), a=pa.array([1.5]))
    table = pa.table({"a": [1]})
    with pytest.raises(ValueError, match="DuckDB reads memory sources only, got FileSource"):
        to_sql(Scan(FileSource("csv", ("/x",)), table.schema), {})
    with pytest.raises(ValueError, match="a stage has no SQL"):
        to_sql(StageInput(0, table.schema), {})
    with pytest.raises(ValueError, match="no SQL for a cast from list"):
        values(Cast(A, pa.list_(pa.int8())), a=pa.array([[1]], pa.list_(pa.int16())))


# ---- nodes
LEFT = pa.table({"k": pa.array([1, 2, None, 2], I32), "v": ["a", "b", "c", "d"]})
RIGHT = pa.table({"k": pa.array([2, 3, None], I64), "v": ["x", "y", "z"]})
TABLES = {"l": LEFT, "r": RIGHT}
K = (Column("k"),)


def rows(node: Node) -> list[tuple[Any, ...]]:
    result = run(node, TABLES)
    assert result.schema.names == schema_of(node).names
    return sorted(zip(*result.to_pydict().values(), strict=True), key=repr)


def left() -> Scan:
    return scan(LEFT, "l")


def right() -> Scan:
    return scan(RIGHT, "r")


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", [(2, "b", "x"), (2, "d", "x")]),
        ("left", [(1, "a", None), (2, "b", "x"), (2, "d", "x"), (None, "c", None)]),
        ("semi", [(2, "b"), (2, "d")]),
        ("anti", [(1, "a"), (None, "c")]),
    ],
)
def test_joins(how: str, expected: list[tuple[Any, ...]]) -> None:
    assert rows(Join(left(), right(), K, K, how)) == expected  # type: ignore[arg-type]


def test_groups_and_their_aggregates() -> None:
    aggs = [Agg("count", None), Alias(Agg("count", Column("k")), "c"),
            Alias(Agg("sum", Column("k")), "s"), Alias(Agg("mean", Column("k")), "m"),
            Alias(Agg("count_distinct", Column("k")), "d"),
            Alias(Agg("max", Column("v")), "x")]  # fmt: skip
    key = Alias(call("coalesce", Column("k"), lit(0)), "g")
    grouped = Aggregate(left(), (key,), tuple(aggs))
    assert rows(grouped) == [
        (0, 1, 0, None, None, 0, "c"),
        (1, 1, 1, 1, 1.0, 1, "a"),
        (2, 2, 2, 4, 2.0, 1, "d"),
    ]
    assert rows(Aggregate(Filter(left(), lit(False)), (), tuple(aggs))) == [
        (0, 0, None, None, 0, None)]  # fmt: skip


def test_a_decimal_mean_is_rounded_half_up() -> None:
    table = pa.table({"d": decimals("0.01", *["0"] * 31, None)})
    mean = Aggregate(scan(table), (), (Agg("mean", Column("d")),))
    assert run(mean, {"t": table})["d"].to_pylist() == [Decimal("0.000313")]  # 0.0003125


def test_groups_and_distinct_take_nan_and_zeros_as_equal() -> None:
    table = pa.table({"f": [NAN, NAN, 0.0, -0.0, None, None]})
    assert run(Distinct(scan(table)), {"t": table}).num_rows == 3
    grouped = Aggregate(scan(table), (Column("f"),), (Agg("count", None),))
    assert sorted(run(grouped, {"t": table})["count"].to_pylist()) == [2, 2, 2]
    counted = Aggregate(scan(table), (), (Agg("count_distinct", Column("f")),))
    assert run(counted, {"t": table})["f"].to_pylist() == [2]


def test_order_and_limit() -> None:
    table = pa.table({"f": [1.0, None, NAN, 2.0]})

    def first(n: int, *keys: SortKey, offset: int = 0) -> list[Any]:
        node = Limit(Sort(scan(table), keys), n, offset)
        return list(run(node, {"t": table})["f"].to_pylist())

    f = Column("f")
    assert first(2, SortKey(f)) == [None, 1.0]
    assert first(2, SortKey(f, nulls_last=True)) == [1.0, 2.0]
    assert first(1, SortKey(f, descending=True, nulls_last=True), offset=1) == [2.0]
    assert math.isnan(first(1, SortKey(f, descending=True, nulls_last=True))[0])
    assert first(1, SortKey(f, descending=True)) == [None]


def test_union_widens_and_goes_by_position() -> None:
    node = Union((left(), right(), Select(right(), (Column("k"), Column("v")))))
    assert len(rows(node)) == 10


def test_with_columns_replaces_in_place() -> None:
    new = (Alias(Column("v"), "k"), Alias(Column("k"), "w"))
    assert rows(WithColumns(left(), new, replace=True))[0] == ("a", "a", 1)


def test_scans_choose_and_filter() -> None:
    table = LEFT
    node = Scan(MemorySource("l", 4), table.schema, ("v",), call("eq", Column("k"), lit(2)))
    assert rows(node) == [("b",), ("d",)]


def test_exchanges_and_sinks_pass_rows_on() -> None:
    moved = Exchange(left(), "hash", ("k",), 4)
    assert rows(moved) == rows(left())
    assert "FROM n1" in to_sql(Sink(moved, FileTarget("csv", "/x", True)), {"l": "t"})


def test_names_that_differ_in_case_only_or_are_empty() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["a", "A", ""])
    node = Select(scan(table), (Column("A"), Column(""), Column("a")))
    assert run(node, {"t": table}).to_pylist() == [{"A": 2, "": 3, "a": 1}]


def test_a_shared_node_is_one_expression() -> None:
    shared = Filter(left(), lit(True))
    assert to_sql(Union((shared, shared)), {"l": "t"}).count("WHERE") == 1


def test_most_random_plans_have_a_translation() -> None:
    n_translated = 0
    for seed in range(60):
        tables = random_tables(Random(seed))
        node = random_plan(Random(seed), tables)
        if translated(node):
            n_translated += 1
            assert run(node, tables).schema.names == schema_of(node).names
    assert n_translated >= 40
