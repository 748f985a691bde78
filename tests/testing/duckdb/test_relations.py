"""Joins, windows, explode and aggregates of the oracle, beside answers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from fabric.clients.demo.checksum import rows
from fabric.plan.expr import Agg, Alias, Call, Column, Expr, Frame, Literal, Over, SortKey
from fabric.plan.nodes import Aggregate, Explode, Join, Scan, Window
from fabric.plan.sources import MemorySource
from tests.support.compare import unlike
from tests.support.duckdb import run, translated

I32, F64 = pa.int32(), pa.float64()
NAN = math.nan
K, V, W = Column("k"), Column("v"), Column("w")
TABLES = {
    "l": pa.table({"k": pa.array([1, 2, None], I32), "v": [10, 20, 30]}),
    "r": pa.table({"k": pa.array([2, 2, 3], pa.int64()), "w": [1, 2, 3]}),
}


def scan(name: str, table: pa.Table) -> Scan:
    return Scan(MemorySource(name, table.num_rows), table.schema)


LEFT, RIGHT = (scan(name, table) for name, table in TABLES.items())
JOINED: dict[str, list[tuple[Any, ...]]] = {
    "inner": [(2, 20, 1), (2, 20, 2)],
    "left": [(None, 30, None), (1, 10, None), (2, 20, 1), (2, 20, 2)],
    "right": [(2, 20, 1), (2, 20, 2), (3, None, 3)],
    "full": [(None, 30, None), (1, 10, None), (2, 20, 1), (2, 20, 2), (3, None, 3)],
    "semi": [(2, 20)],
    "anti": [(None, 30), (1, 10)],
}
WITH_CONDITION: dict[str, list[tuple[Any, ...]]] = {
    "inner": [(2, 20, 2)],
    "left": [(None, 30, None), (1, 10, None), (2, 20, 2)],
    "right": [(2, 20, 2), (2, None, 1), (3, None, 3)],
    "full": [(None, 30, None), (1, 10, None), (2, 20, 2), (2, None, 1), (3, None, 3)],
    "semi": [(2, 20)],
    "anti": [(None, 30), (1, 10)],
}


def key(row: tuple[Any, ...]) -> str:
    return repr(row)


@pytest.mark.parametrize("how", JOINED)
def test_joins(how: Any) -> None:
    plain = Join(LEFT, RIGHT, (K,), (K,), how)
    assert sorted(rows(run(plain, TABLES)), key=key) == sorted(JOINED[how], key=key)
    above = Call("gt", (W, Literal(1, I32)))
    node = Join(LEFT, RIGHT, (K,), (K,), how, condition=above)
    assert sorted(rows(run(node, TABLES)), key=key) == sorted(WITH_CONDITION[how], key=key)


def test_joins_without_keys() -> None:
    assert run(Join(LEFT, RIGHT, (), (), "cross"), TABLES).num_rows == 9
    below = Call("lt", (Column("k"), Column("k_right")))
    node = Join(LEFT, RIGHT, (), (), "inner", condition=below)
    assert run(node, TABLES).num_rows == 4


@pytest.mark.parametrize(
    ("outer", "expected"),
    [
        (False, [(1, "a", 0), (1, None, 1)]),
        (True, [(1, "a", 0), (1, None, 1), (2, None, None), (3, None, None)]),
    ],
)
def test_explode(outer: bool, expected: list[tuple[Any, ...]]) -> None:
    table = pa.table({"i": [1, 2, 3], "x": [["a", None], [], None]})
    node = Explode(scan("t", table), "x", outer, "at")
    assert sorted(rows(run(node, {"t": table})), key=key) == sorted(expected, key=key)


NUMBERS = pa.table({"x": [1.0, 2.0, None, 4.0, NAN], "i": pa.array([1, 2, 3, 4, 5], I32)})
X, AT = Column("x"), Column("i")
FEW = Call("lt", (AT, Literal(5, I32)))
AGGREGATES: list[tuple[Agg, Any]] = [
    (Agg("count_if", FEW), 4),
    (Agg("count_distinct", X), 4),
    (Agg("max", X), NAN),
    (Agg("min_by", X, (AT,)), 1.0),
    (Agg("max_by", X, (AT,)), NAN),
    (Agg("var", X), NAN),
    (Agg("var", AT), 2.5),
    (Agg("var_pop", AT), 2.0),
    (Agg("covar_samp", AT, (AT,)), 2.5),
    (Agg("corr", AT, (AT,)), 1.0),
    (Agg("corr", AT, (Literal(1, I32),)), None),
    (Agg("median", AT), 3.0),
    (Agg("quantile", AT, (Literal(0.1, F64),)), 1.4),
    (Agg("bool_and", FEW), False),
    (Agg("bool_or", FEW), True),
    (Agg("collect", X), [1.0, 2.0, 4.0, NAN]),
]


@pytest.mark.parametrize(("agg", "expected"), AGGREGATES, ids=str)
def test_aggregates(agg: Agg, expected: Any) -> None:
    node = Aggregate(scan("t", NUMBERS), (), (Alias(agg, "r"),))
    assert not unlike(run(node, {"t": NUMBERS}), pa.table({"r": [expected]}))


BY_I = (SortKey(AT),)
WINDOWS: list[tuple[Over, list[Any]]] = [
    (Over(Agg("row_number", None), (), BY_I), [1, 2, 3, 4, 5]),
    (Over(Agg("ntile", None, (Literal(2, I32),)), (), BY_I), [1, 1, 1, 2, 2]),
    (Over(Agg("lag", AT, (Literal(2, I32), Literal(0, I32))), (), BY_I), [0, 0, 1, 2, 3]),
    (Over(Agg("lead", AT), (), BY_I), [2, 3, 4, 5, None]),
    (Over(Agg("sum", AT), (), BY_I), [1, 3, 6, 10, 15]),
    (Over(Agg("sum", AT), (), BY_I, Frame("rows", -1, 0)), [1, 3, 5, 7, 9]),
    (Over(Agg("count", X), (), BY_I, Frame("range", 1, 2)), [1, 1, 2, 1, 0]),
    (Over(Agg("last_value", X, (Literal(True, pa.bool_()),)), (), BY_I, Frame("rows", -1, 0)),
     [1.0, 2.0, 2.0, 4.0, NAN]),
    (Over(Agg("nth_value", AT, (Literal(2, I32),)), (), BY_I), [None, 2, 2, 2, 2]),
    (Over(Agg("count", None), (FEW,)), [4, 4, 4, 4, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("over", "expected"), WINDOWS, ids=str)
def test_windows(over: Over, expected: list[Any]) -> None:
    node = Window(scan("t", NUMBERS), (Alias(over, "r"),))
    found = run(node, {"t": NUMBERS}).sort_by("i")["r"].to_pylist()
    assert str(found) == str(expected)


@pytest.mark.parametrize("agg", [Agg("skewness", X), Agg("approx_distinct", X)])
def test_what_has_no_translation_says_so(agg: Expr) -> None:
    assert not translated(Aggregate(scan("t", NUMBERS), (), (Alias(agg, "r"),)))
