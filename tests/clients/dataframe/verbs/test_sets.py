"""Set operations, beside DuckDB: nulls and NaNs are equal, doubles counted."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest

from fabric import DataFrame, col, concat
from fabric.errors import PlanError

NAN = float("nan")
A = pa.table({"i": [1, 1, 1, 2, None, None, 3], "x": [NAN, NAN, 0.0, 2.0, None, None, 3.0]})
B = pa.table({"i": [1, 2, None, 3, 3], "x": [NAN, 2.0, None, 4.0, 3.0]})


@pytest.fixture
def a() -> DataFrame:
    return DataFrame(A)


@pytest.fixture
def b() -> DataFrame:
    return DataFrame(B)


def rows(frame: DataFrame) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in frame.to_dicts())


def of_duckdb(query: str) -> list[str]:
    a, b = A, B  # noqa: F841  (DuckDB finds them by name)
    return sorted(map(repr, duckdb.sql(query).fetchall()))


@pytest.mark.parametrize(
    ("ours", "sql"),
    [
        (lambda a, b: a.intersect(b), "from a intersect from b"),
        (lambda a, b: a.intersect_all(b), "from a intersect all from b"),
        (lambda a, b: a.except_(b), "from a except from b"),
        (lambda a, b: a.subtract(b), "from a except from b"),
        (lambda a, b: a.exceptAll(b), "from a except all from b"),
        (lambda a, b: b.except_all(a), "from b except all from a"),
        (lambda a, b: a.union(b), "from a union all from b"),
        (lambda a, b: a.unionAll(b).distinct(), "from a union from b"),
        (lambda a, b: a.union_by_name(b.select("x", "i")), "from a union all by name from b"),
        (lambda a, b: a.unionByName(b.select("i", y="x"), allow_missing=True),
         "from a union all by name (select i, x as y from b)"),
        (lambda a, b: concat([a, b.drop("x"), b.select(y=col("x"))], how="diagonal"),
         "from a union all by name (select i from b) union all by name (select x as y from b)"),
    ],
)  # fmt: skip
def test_as_duckdb(a: DataFrame, b: DataFrame, ours: Any, sql: str) -> None:
    assert rows(ours(a, b)) == of_duckdb(sql)


def test_types_widen_and_names_are_the_first(a: DataFrame) -> None:
    other = DataFrame({"j": pa.array([3], pa.int8()), "y": pa.array([3.0], pa.float32())})
    both = a.intersect(other)
    assert both.columns == ["i", "x"]
    assert both.dtypes == a.dtypes
    assert both.collect().to_pydict() == {"i": [3], "x": [3.0]}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda a, b: a.intersect(b.drop("x")), "as many columns"),
        (lambda a, b: a.except_(b.select("x", s=col("i").cast("string"))), "one type a column"),
        (lambda a, b: a.intersect([1]), "intersect takes a DataFrame, got a list"),
        (lambda a, b: a.union_by_name(), "got none"),
        (lambda a, b: a.union_by_name(b.rename({"x": "X"})),
         r'has no "x".*write: \.union_by_name\(other|input 1 has no "X"'),
        (lambda a, b: a.union_by_name(b.drop("x")),
         r'input 2 has no "x".*\.union_by_name\(other, allow_missing=True\)'),
        (lambda a, b: concat([a, b], how="sideways"), "how='vertical' or 'diagonal'"),
    ],
)  # fmt: skip
def test_refused(a: DataFrame, b: DataFrame, wrong: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        wrong(a, b)
