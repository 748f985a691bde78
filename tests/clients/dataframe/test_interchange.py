"""Frames and other libraries: rows in and out by Arrow's capsules, kept rows, notebooks."""

from __future__ import annotations

import gc
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import fabric
from fabric import DataFrame, col, streams
from fabric.errors import ExpressionError, PlanError

DATA = pa.table({"a": [3, 1, None], "b": ["x", None, "<b>"]})


@pytest.fixture
def df() -> DataFrame:
    return DataFrame(DATA).filter(col("a").is_null() | (col("a") > 0))


def test_others_take_a_frame(df: DataFrame) -> None:
    assert pa.table(df).equals(DATA)
    assert pl.DataFrame(df).to_dict(as_series=False) == DATA.to_pydict()
    assert duckdb.sql("select sum(a) from df").fetchall() == [(4,)]
    assert duckdb.sql("from df where b is null").fetchall() == [(1, None)]
    assert pa.table(df).to_pandas().equals(df.to_pandas())
    assert pa.schema(df) == DATA.schema


def test_others_take_a_job(df: DataFrame) -> None:
    with df.submit() as job:
        assert pa.table(job).equals(DATA)
        assert pl.DataFrame(job).shape == (3, 2)


def test_a_stream_that_is_taken_drops_its_result_in_the_end(df: DataFrame) -> None:
    with fabric.connect() as session:
        before = len(session.jobs())
        half = pa.RecordBatchReader.from_stream(session.read_arrow(DATA).filter(col("a") > 0))
        assert half.read_next_batch().num_rows == 2
        (job,) = session.jobs()[before:]
        assert job.collect().num_rows == 2
        del half
        gc.collect()
        with pytest.raises(fabric.FabricError):
            job.collect()


def test_the_schema_needs_no_run() -> None:
    fails = DataFrame({"a": [0]}).select(b=1 / col("a"))
    assert pa.schema(fails) == fails.schema
    with pytest.raises(ExpressionError, match="divi"):
        pa.table(fails)


def test_a_stream_without_an_end_is_no_table() -> None:
    with pytest.raises(PlanError, match="no end"):
        pa.table(streams.generator(rows_per_s=10))
    assert pa.table(streams.generator(rows_per_s=100_000, n_rows=50)).num_rows == 50


class Capsule:
    """Another library's table: nothing but the protocol."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        stream: object = self._table.__arrow_c_stream__(requested_schema)
        return stream


@pytest.mark.parametrize(
    "given",
    [
        pl.from_arrow(DATA).lazy().filter(pl.col("a").is_null() | (pl.col("a") > 0)),
        pl.from_arrow(DATA),
        Capsule(DATA),
        DATA.to_reader(),
        duckdb.from_arrow(DATA),
        DataFrame(DATA),
    ],
    ids=["lazy", "polars", "capsule", "reader", "duckdb", "fabric"],
)
def test_others_are_taken(given: Any) -> None:
    assert DataFrame(given).to_dicts() == DATA.to_pylist()


def test_a_lazy_frame_is_taken_by_its_name() -> None:
    lazy = pl.LazyFrame({"a": [1, 2]}).select(pl.col("a") * 2)
    assert fabric.from_polars(lazy).to_dicts() == [{"a": 2}, {"a": 4}]
    with fabric.connect() as session:
        assert session.read_arrow(lazy).count() == 2


# ---- kept rows
def test_kept_rows_are_computed_once() -> None:
    drawn = DataFrame({"i": list(range(1000))}).sample(0.5)
    kept = drawn.cache()
    first = kept.collect()
    assert 300 < len(first) < 700
    assert kept.collect().equals(first)
    assert kept.filter(col("i") >= 0).count() == len(first)
    assert kept.join(kept, on="i").count() == len(first)
    assert kept.schema == drawn.schema


def test_a_stream_without_an_end_is_not_kept() -> None:
    with pytest.raises(PlanError, match="no end"):
        streams.generator(rows_per_s=10).cache()


# ---- notebooks
def test_a_notebook_is_shown_the_rows_that_are_known() -> None:
    table = pa.table({"n": list(range(4000)), "<t>": ["<&>"] * 4000})
    source = DataFrame(table)
    html = source._repr_html_()
    assert "first 10 of 4,000 rows" in html
    assert "&lt;&amp;&gt;" in html
    assert "<&>" not in html
    assert "&lt;t&gt;" in html
    assert html.count("<tr>") == 11
    few = source.filter(col("n") < 3)
    assert "not run yet" in few._repr_html_()
    assert "<td>int64</td>" in few._repr_html_()
    few.collect()
    assert "(3 rows)" in few._repr_html_()
    assert "not run yet" in few.select("n")._repr_html_()


def test_what_was_printed_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    some = DataFrame({"n": list(range(100))}).filter(col("n") >= 0)
    some.show(5)
    assert "first 6 rows, there are more" in some._repr_html_()
    some.show(200)
    assert "first 10 of 100 rows" in some._repr_html_()
    nothing = some.filter(col("n") < 0)
    nothing.show()
    assert "(0 rows)" in nothing._repr_html_()
    capsys.readouterr()


def test_a_large_result_is_shown_as_long_as_it_lives() -> None:
    large = DataFrame({"n": list(range(200_000))}).filter(col("n") >= 0)
    rows = large.collect()
    assert "first 10 of 200,000 rows" in large._repr_html_()
    del rows
    gc.collect()
    assert "not run yet" in large._repr_html_()


def test_the_plan_as_a_picture(df: DataFrame) -> None:
    picture = df._repr_svg_()
    assert picture.startswith("<svg")
    assert picture.endswith("</svg>")
    assert ".filter(" in picture
    assert "not run yet" in streams.generator(rows_per_s=10)._repr_html_()
