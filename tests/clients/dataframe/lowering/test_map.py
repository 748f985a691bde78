"""Functions of whole tables: rows in, rows out, beside Polars; what they must not do."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from fabric import DataFrame, col, streams
from fabric.errors import FabricError, PlanError

DATA = pa.table(
    {
        "k": ["a", None, "a", "b", None],
        "t": [3, 1, 2, 5, 4],
        "l": [[1], None, [2, 3], [], [4]],
    }
)


@pytest.fixture
def df() -> DataFrame:
    return DataFrame(DATA)


def test_a_batch_gives_any_number_of_rows(df: DataFrame) -> None:
    def doubled(rows: pa.Table) -> pa.Table:
        assert rows.schema.names == ["k", "t", "l"]
        return pa.concat_tables([rows, rows])

    found = df.map_batches(doubled, DATA.schema)
    assert found.schema == DATA.schema
    assert sorted(map(repr, found.to_dicts())) == sorted(map(repr, DATA.to_pylist() * 2))
    assert df.map_batches(lambda rows: rows.slice(0, 0), DATA.schema).count() == 0
    assert df.filter(col("t") > 99).map_batches(doubled, DATA.schema).count() == 0


def test_groups_beside_polars(df: DataFrame) -> None:
    def firsts(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.sort("t").head(1).select("k", pl.col("t").alias("first"))

    expected = pl.from_arrow(DATA).group_by("k").map_groups(firsts)
    found = df.group_by("k").map_groups(
        lambda rows: firsts(pl.DataFrame(rows)), {"k": "string", "first": "int64"}
    )
    assert found.sort("k").to_dicts() == expected.sort("k").to_dicts()
    by_expression = df.group_by(col("t") % 2).map_groups(
        lambda rows: {"n": [rows.num_rows]}, {"n": "int32"}
    )
    assert sorted(by_expression.collect()["n"].to_pylist()) == [2, 3]


def test_other_libraries_may_answer(df: DataFrame) -> None:
    for answer in (
        lambda rows: rows.select(["t"]).to_batches()[0],
        lambda rows: pl.DataFrame(rows).select("t"),
        lambda rows: rows.select(["t"]).to_pandas(),
        lambda rows: {"t": rows["t"].to_pylist()},
    ):
        found = df.map_batches(answer, {"t": "int64"})
        assert sorted(found.collect()["t"].to_pylist()) == [1, 2, 3, 4, 5]


def test_a_stream_is_mapped_batch_by_batch() -> None:
    rows = streams.generator(rows_per_s=1_000_000, n_rows=500)
    found = rows.map_batches(lambda table: table.select(["row"]), {"row": "int64"})
    assert found.count() == 500


class Asks:
    async def __call__(self, row: dict[str, Any]) -> dict[str, int]:
        return {"a": len(row)}


def test_an_object_may_be_awaited(df: DataFrame) -> None:
    found = df.map_async(Asks(), {"a": "int64"}, keep="k", ordered=False)
    assert found.columns == ["k", "a"]
    assert found.collect()["a"].to_pylist() == [3] * df.count()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda rows: rows, r"gave the columns \['k', 't', 'l'\], and schema= says \['t'\]"),
        (lambda rows: rows.select(["k"]).rename_columns(["t"]), "not of the types that schema="),
        (lambda _: 5, "must give an Arrow table .* got int"),
    ],
)
def test_wrong_answers_are_told(df: DataFrame, answer: Any, says: str) -> None:
    with pytest.raises(FabricError, match=says):
        df.map_batches(answer, {"t": "int64"}).collect()
    with pytest.raises(FabricError, match=says):
        df.group_by("k").map_groups(answer, {"t": "int64"}).collect()


def test_an_error_of_the_function_is_told(df: DataFrame) -> None:
    def fails(rows: pa.Table) -> pa.Table:
        raise ValueError(f"no {rows.num_rows} rows")

    with pytest.raises(FabricError, match=r"fails.*no \d rows"):
        df.map_batches(fails, {"t": "int64"}).collect()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda f: f.map_batches(5, {"a": "int64"}), "takes a function of a table, got 5"),
        (lambda f: f.map_batches(len, {}), r'write|needs the columns that come out: schema='),
        (lambda f: f.map_batches(len, "int64"), "needs the columns that come out"),
        (lambda f: f.map_async(5, {"a": "int64"}), "5 is not asynchronous; write: async def"),
        (lambda f: f.map_async(len, {"a": "int64"}), r"len is not asynchronous; .*async def len\("),
        (lambda f: f.map_async(Asks, {"a": "int64"}), r"Asks is a class; write: map_async\(Asks\("),
        (lambda f: f.map_async(Asks(), {}), "map_async needs the columns that come out: schema="),
        (lambda f: f.map_async(Asks(), {"a": "int64"}, keep="kk"), r'no column "kk".*"k"'),
        (lambda f: f.map_async(Asks(), {"a": "int64"}, capacity=0), "capacity=0 is not a whole"),
        (lambda f: f.map_async(Asks(), {"a": "int64"}, rate="5"), "rate='5' is not a number"),
        (lambda f: f.map_async(Asks(), {"a": "int64"}, rate=0), "leave rate out for any rate"),
        (lambda f: f.map_async(Asks(), {"a": "int64"}, rate=1e-300), "rate of at least 0.001"),
        (lambda f: f.map_async(Asks(), {"a": "int64"}, timeout=5), 'write: timeout="5 seconds"'),
        (lambda f: f.map_async(Asks(), {"a": "int64"}, retry=-1), "retry=-1 is not a whole number"),
        (lambda f: f.map_async(Asks(), {"a": "int64"}, on_error="sid"), 'write: on_error="side"'),
        (lambda f: f.rollup("k").map_groups(len, {"a": "int64"}), "needs plain groups"),
        (lambda f: f.group_by("z").map_groups(len, {"a": "int64"}), 'no column "z"'),
        (lambda _: streams.generator(rows_per_s=1).group_by("key").map_groups(len, {"a": "int64"}),
         "stream"),
    ],
)  # fmt: skip
def test_refused(df: DataFrame, wrong: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        wrong(df)
