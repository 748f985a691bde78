"""Verbs about nulls, beside Polars."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from fabric import DataFrame, col
from fabric.errors import PlanError

NAN = float("nan")
DATA = pl.DataFrame(
    {
        "i": [0, 1, 2, 3, 4, 5],
        "k": ["a", "b", "a", "b", "a", None],
        "n": [None, 1, 3, None, None, 7],
        "x": [1.5, None, NAN, None, 2.5, -1.0],
        "s": ["u", None, None, "v", "w", None],
    }
)


@pytest.fixture
def df() -> DataFrame:
    return DataFrame(DATA)


def rows(frame: DataFrame) -> list[str]:
    return [repr(tuple(row.values())) for row in frame.sort("i").to_dicts()]


def of_polars(frame: pl.DataFrame) -> list[str]:
    return [repr(row) for row in frame.sort("i").rows()]


def test_values_go_to_columns_of_their_kind(df: DataFrame) -> None:
    filled = df.fill_null(0)
    assert filled.dtypes == df.dtypes
    wanted = DATA.with_columns(pl.col("n").fill_null(0), pl.col("x").fill_null(0.0))
    assert rows(filled) == of_polars(wanted)
    both = df.fillna({"n": -1, "s": "?"})
    assert rows(both) == of_polars(DATA.with_columns(n=pl.col("n").fill_null(-1),
                                                     s=pl.col("s").fill_null("?")))  # fmt: skip
    assert rows(df.fill_null("?", subset="s")) == of_polars(
        DATA.with_columns(pl.col("s").fill_null("?"))
    )
    assert rows(df.fill_null(col("i"), subset=["n"])) == of_polars(
        DATA.with_columns(pl.col("n").fill_null(pl.col("i")))
    )


@pytest.mark.parametrize("strategy", ["forward", "backward", "min", "max", "zero", "one"])
def test_strategies(df: DataFrame, strategy: Any) -> None:
    numbers = df.select("i", "n")
    filled = numbers.fill_null(strategy=strategy, order_by="i")
    assert rows(filled) == of_polars(DATA.select("i", "n").fill_null(strategy=strategy))


def test_strategies_within_groups(df: DataFrame) -> None:
    filled = df.fill_null(strategy="forward", subset=["n", "s"], partition_by="k", order_by="i")
    wanted = DATA.with_columns(pl.col("n", "s").forward_fill().over("k", order_by="i"))
    assert rows(filled) == of_polars(wanted)
    assert filled.columns == df.columns
    mean = df.fill_null(strategy="mean", subset="n", partition_by="k")
    assert mean.sort("i").collect()["n"].to_pylist() == [3, 1, 3, 1, 3, 7]


def test_nan(df: DataFrame) -> None:
    assert rows(df.fill_nan(None)) == of_polars(DATA.fill_nan(None))
    assert rows(df.fill_nan(0)) == of_polars(DATA.fill_nan(0))
    assert rows(df.drop_nans()) == of_polars(DATA.drop_nans())
    assert rows(df.drop_nans("x")) == of_polars(DATA.drop_nans("x"))
    assert df.select("i").drop_nans().plan == df.select("i").plan


def test_dropping(df: DataFrame) -> None:
    assert rows(df.drop_nulls()) == of_polars(DATA.drop_nulls())
    assert rows(df.drop_nulls("n", "s")) == of_polars(DATA.drop_nulls(["n", "s"]))
    assert rows(df.dropna(subset=["s"])) == of_polars(DATA.drop_nulls("s"))
    some = DATA.filter(~pl.all_horizontal(pl.col("n", "x", "s").is_null()))
    assert rows(df.drop_nulls("n", "x", "s", how="all")) == of_polars(some)
    assert rows(df.dropna("all", subset=["n", "x", "s"])) == of_polars(some)
    two = DATA.filter(pl.sum_horizontal(pl.col("n", "x", "s").is_not_null()) >= 2)
    assert rows(df.drop_nulls("n", "x", "s", thresh=2)) == of_polars(two)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda f: f.fill_null(), r"write \.fill_null\(0\)"),
        (lambda f: f.fill_null(0, "forward"), "a value or a strategy"),
        (lambda f: f.fill_null(strategy="foward", order_by="i"), 'write: strategy="forward"'),
        (lambda f: f.fill_null(strategy="forward"),
         r'\.fill_null\(strategy="forward", order_by="\.\.\."\)'),
        (lambda f: f.fill_null(strategy="forward", order_by="ii"),
         r'\.fill_null\(strategy="forward", order_by="i"\)'),
        (lambda f: f.fill_null(strategy="min", subset="n", partition_by="kk"),
         r'\.fill_null\(strategy="min", partition_by="k"\)'),
        (lambda f: f.fill_null({"nn": 1}), r'write: \.fill_null\({"n": 1}\)'),
        (lambda f: f.fill_null({"n": "a"}), "can't put 'a' into \"n\", an int64"),
        (lambda f: f.fill_null(0.5), r'"i" is int64 and can\'t hold 0\.5'),
        (lambda f: f.fill_null(0, subset="q"), 'fill_null: there is no column "q"'),
        (lambda f: f.select("s").fill_null(1), "no column can hold 1"),
        (lambda f: f.drop_nulls("nn"), r'write: \.drop_nulls\("n"\)'),
        (lambda f: f.drop_nulls(how="some"), "how='some' is not valid"),
        (lambda f: f.drop_nulls(thresh="2"), "whole number as thresh"),
    ],
)  # fmt: skip
def test_refused(df: DataFrame, wrong: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        wrong(df)


def test_a_decimal_and_a_date_keep_their_types() -> None:
    from datetime import date
    from decimal import Decimal

    table = pa.table({
        "d": pa.array([None], pa.decimal128(10, 2)),
        "f": pa.array([None], pa.float32()),
        "t": pa.array([None], pa.date32()),
    })  # fmt: skip
    filled = DataFrame(table).fill_null(1).fill_null(date(2026, 1, 1))
    assert filled.schema == table.schema
    row = filled.to_dicts()[0]
    assert row == {"d": Decimal("1.00"), "f": 1.0, "t": date(2026, 1, 1)}
