"""Verbs of rows, beside Polars and DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from fabric import DataFrame, col, row_number
from fabric.errors import PlanError

DATA = pa.table(
    {
        "k": ["a", "b", "a", None, "b", "a", None],
        "t": [1, 2, 3, 4, 5, None, 4],
        "x": [1.5, None, float("nan"), -2.0, 0.0, 7.0, -2.0],
    }
)


@pytest.fixture
def df() -> DataFrame:
    return DataFrame(DATA)


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The rows in an order of their own, NaN and null told apart."""
    return sorted((tuple(map(repr, row.values())) for row in frame.to_dicts()), key=str)


def of_polars(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(map(repr, row)) for row in frame.rows()), key=str)


def of_duckdb(query: str) -> list[tuple[Any, ...]]:
    data = DATA  # noqa: F841  (DuckDB finds it by name)
    return sorted((tuple(map(repr, row)) for row in duckdb.sql(query).fetchall()), key=str)


def test_top_and_bottom_put_nulls_last(df: DataFrame) -> None:
    frame = pl.from_arrow(DATA)
    assert isinstance(frame, pl.DataFrame)
    for k in (0, 2, 6, 9):
        ours = df.top_k(k, "t").collect()["t"].to_pylist()
        assert (
            ours
            == frame.top_k(k, by="t").sort("t", descending=True, nulls_last=True)["t"].to_list()
        )
        ours = df.bottom_k(k, "t").collect()["t"].to_pylist()
        assert ours == frame.bottom_k(k, by="t").sort("t", nulls_last=True)["t"].to_list()


def test_top_of_several_keys(df: DataFrame) -> None:
    ours = df.top_k(3, "k", "t", reverse=[False, True]).select("k", "t").collect().to_pylist()
    assert ours == [{"k": "b", "t": 2}, {"k": "b", "t": 5}, {"k": "a", "t": 1}]
    named = df.top_k(3, by=["k", "t"], reverse=[False, True]).select("k", "t")
    assert named.collect().to_pylist() == ours
    assert df.bottom_k(1, by="t").collect() == df.bottom_k(1, "t").collect()


@pytest.mark.parametrize("keep", ["first", "last", "none"])
def test_distinct_on_a_key_as_polars(df: DataFrame, keep: Any) -> None:
    frame = pl.from_arrow(DATA)
    assert isinstance(frame, pl.DataFrame)
    ordered = frame.with_row_index("i")
    numbered = DataFrame(ordered)
    ours = numbered.distinct("k", keep=keep, order_by="i").drop("i")
    assert rows(ours) == of_polars(frame.unique(subset="k", keep=keep))


def test_distinct_any_keeps_whole_rows(df: DataFrame) -> None:
    kept = df.drop_duplicates(["k"]).to_dicts()
    assert sorted(str(row["k"]) for row in kept) == ["None", "a", "b"]
    everything = [str(row) for row in df.to_dicts()]
    assert all(str(row) in everything for row in kept)
    assert rows(df.distinct()) == of_duckdb("select distinct * from data")
    assert rows(df.distinct(keep="none")) == of_duckdb(
        "select * from data group by all having count(*) = 1"
    )


def test_row_index(df: DataFrame) -> None:
    ours = df.with_row_index("i", 10, order_by=["t", "x"]).select("i", "t").sort("i")
    assert ours.dtypes["i"] == pa.int64()
    assert ours.collect().to_pydict() == {
        "i": [10, 11, 12, 13, 14, 15, 16],
        "t": [None, 1, 2, 3, 4, 4, 5],
    }


def test_filter_and_sort_by_window_functions(df: DataFrame) -> None:
    best = df.filter(row_number().over("k", order_by=[col("t").desc(), "x"]) == 1)
    assert best.columns == df.columns
    assert rows(best) == of_duckdb(
        "select * from data qualify row_number() over "
        "(partition by k order by t desc nulls last, x nulls first) = 1"
    )
    ordered = df.sort(col("t").max().over("k").desc(), "k", "t")
    assert ordered.collect()["k"].to_pylist() == ["b", "b", None, None, "a", "a", "a"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda f: f.top_k(-1, "t"), "top_k needs a number of rows"),
        (lambda f: f.top_k(2), r'for example top_k\(2, "x"\)'),
        (lambda f: f.top_k(2, "tt"), r'top_k: .*write: \.top_k\(2, "t"\)'),
        (lambda f: f.distinct("k", keep="last", order_by="tt"),
         r'write: \.distinct\("k", keep="last", order_by="t"\)'),
        (lambda f: f.with_row_index(order_by=col("tt").desc()),
         r'write: \.with_row_index\("index", order_by="t"\)'),
        (lambda f: f.bottom_k(2, "t", reverse=[True, False]), "1 keys and 2 reverse flags"),
        (lambda f: f.distinct("kk"), r'distinct: there is no column "kk".*write: \.distinct\("k"'),
        (lambda f: f.distinct("k", keep="frist"), r"keep='frist'.*write: keep=\"first\""),
        (lambda f: f.distinct("k", keep="last"),
         r'write: \.distinct\("k", keep="last", order_by="\.\.\."\)'),
        (lambda f: f.with_row_index(), r'\.with_row_index\("index", order_by="\.\.\."\)'),
        (lambda f: f.with_row_index("k", order_by="t"),
         r'write: \.with_row_index\("k_2", order_by="t"\)'),
        (lambda f: f.filter(col("t").cum_sum() > 3), r'col\("t"\)\.cum_sum\(\).*order_by="\.\.\."'),
        (lambda f: f.filter(col("t").lag() > 3), r"lag needs an order"),
    ],
)  # fmt: skip
def test_refused(df: DataFrame, wrong: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        wrong(df)


def test_is_empty(df: DataFrame) -> None:
    assert not df.is_empty()
    assert df.filter(col("t") > 100).isEmpty()
