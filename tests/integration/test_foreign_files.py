"""Files that others write are read with their rows; ours are read by them. All writers are real."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fabric
from fabric import col
from fabric.clients.dataframe.targets import file_target
from fabric.clients.spark.plan.run import execute
from fabric.plan.check import check
from fabric.plan.nodes import Plan, Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [
    {"n": 1, "x": 1.5, "s": "a,b", "day": dt.date(2024, 1, 1), "year": 2023, "region": "north"},
    {"n": 2, "x": None, "s": 'say "hi"\nthere', "day": None, "year": 2024, "region": "a/b c=d:é%"},
    {"n": None, "x": -2.25, "s": None, "day": dt.date(1999, 12, 31), "year": 2024, "region": None},
    {"n": 4, "x": 1e10, "s": "", "day": dt.date(2024, 2, 29), "year": 2024, "region": "north"},
]
SCHEMA = pa.schema([
    ("n", pa.int64()), ("x", pa.float64()), ("s", pa.string()), ("day", pa.date32()),
    ("year", pa.int64()), ("region", pa.string()),
])  # fmt: skip
TABLE = pa.Table.from_pylist(ROWS, SCHEMA)
BY = ["year", "region"]
FORMATS = ["parquet", "csv", "json"]
READERS = {"parquet": fabric.read_parquet, "csv": fabric.read_csv, "json": fabric.read_json}
Rows = list[dict[str, Any]]


def ordered(rows: Rows) -> Rows:
    """Rows in one order, keys too."""
    return sorted((dict(sorted(row.items())) for row in rows), key=lambda row: str(row["n"]))


def spark_writes(format: str, to: Path, spark: SparkSession) -> None:
    frame = spark.createDataFrame(TABLE)
    options = {"escape": '"'} if format == "csv" else {}
    writer = frame.write.partitionBy(*BY).options(header="true", **options)
    writer.format(format).save(str(to))


def duckdb_writes(format: str, to: Path, _: Any) -> None:
    rows = TABLE  # noqa: F841 - DuckDB finds it by its name
    extra = ", header true" if format == "csv" else ""
    duckdb.sql(f"copy (from rows) to '{to}' (format {format}, partition_by (year, region){extra})")


def polars_writes(format: str, to: Path, _: Any) -> None:
    frame = pl.from_arrow(TABLE)
    assert isinstance(frame, pl.DataFrame)
    if format == "parquet":
        frame.write_parquet(to, partition_by=BY)
        return
    to.mkdir()
    if format == "csv":
        frame.write_csv(to / "rows.csv")
    else:
        frame.write_ndjson(to / "rows.json")


def pandas_writes(format: str, to: Path, _: Any) -> None:
    frame = TABLE.to_pandas(types_mapper=pd.ArrowDtype)
    if format == "parquet":
        frame.to_parquet(to, partition_cols=BY)
        return
    to.mkdir()
    if format == "csv":
        frame.to_csv(to / "rows.csv", index=False)
    else:
        frame.to_json(to / "rows.json", orient="records", date_format="iso")


WRITERS: dict[str, Callable[[str, Path, Any], None]] = {
    "spark": spark_writes, "duckdb": duckdb_writes, "polars": polars_writes,
    "pandas": pandas_writes,
}  # fmt: skip


def expected(writer: str, format: str) -> Rows:
    """What a writer's files say: some can't say everything."""
    rows = [dict(row) for row in ROWS]
    if (writer, format) == ("pandas", "csv"):  # it writes null and "" alike
        rows[3]["s"] = None
    return ordered(rows)


def as_told(rows: Rows) -> Rows:
    """Dates as dates, where a format has texts or timestamps for them."""
    for row in rows:
        day = row["day"]
        if isinstance(day, dt.datetime):
            row["day"] = day.date()
        elif isinstance(day, str):
            row["day"] = dt.date.fromisoformat(day[:10])
    return ordered(rows)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("place", ["embedded", "session"])
def test_what_others_write_is_read(
    place: str, writer: str, format: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    out = tmp_path / "out"
    spark = request.getfixturevalue("spark") if writer == "spark" else None
    WRITERS[writer](format, out, spark)
    frame = getattr(request.getfixturevalue(place), f"read_{format}")(out)
    assert as_told(frame.to_dicts()) == expected(writer, format)
    kept = frame.filter((col("year") == 2024) & col("region").is_null()).to_dicts()
    assert [row["x"] for row in kept] == [-2.25]
    if spark is not None and place == "embedded":
        late = READERS[format](out).filter(col("year") > 2023)
        kept = [row for row in expected(writer, format) if row["year"] > 2023]
        assert as_told(execute(check(late.plan).root, spark).to_pylist()) == kept


def empty_as_null(rows: Rows) -> Rows:
    """Readers of Spark and DuckDB take a quoted empty field for null, their writers don't."""
    return [row | {"s": row["s"] or None} for row in rows]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("place", ["embedded", "session", "spark"])
def test_what_we_write_is_read_by_others(
    place: str, format: str, tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    out = tmp_path / "out"
    frame = fabric.DataFrame(TABLE)
    if place != "spark":
        frame = request.getfixturevalue(place).read_arrow(TABLE)
        getattr(frame, f"write_{format}")(out, partition_by=BY)
    else:
        target = file_target(format, out, partition_by=BY)
        execute(check(Plan(Sink(frame.plan.root, target))).root, spark)
    wanted = ordered(ROWS)

    kind = {"parquet": "parquet", "csv": "csv", "json": "json"}[format]
    reader = spark.read.options(header="true", inferSchema="true", multiLine="true", escape='"')
    reader = spark.read if format == "json" else reader
    found = as_told(reader.format(kind).load(str(out)).toArrow().to_pylist())
    assert found == (empty_as_null(wanted) if format == "csv" else wanted)

    pattern = f"{out}/**/*.{kind}"
    table = duckdb.sql(
        f"from read_{format}('{pattern}', hive_partitioning = true)"
    ).to_arrow_table()
    assert as_told(table.to_pylist()) == (empty_as_null(wanted) if format == "csv" else wanted)

    told, seen = polars_reads(format, out), pandas_reads(format, out)
    assert as_told(told) == wanted
    assert as_told(seen) == (empty_as_null(wanted) if format == "csv" else wanted)


def polars_reads(format: str, out: Path) -> Rows:
    """All rows, the folders' columns from Polars, too, where it has them for the format."""
    if format == "parquet":
        return pl.scan_parquet(out, hive_partitioning=True).collect().to_dicts()
    if format == "csv":
        return [
            row | folders_of(file)
            for file in out.rglob("*.csv")
            for row in pl.read_csv(file, try_parse_dates=True).to_dicts()
        ]
    return [
        row | folders_of(file)
        for file in out.rglob("*.json")
        for row in pl.read_ndjson(file).to_dicts()
    ]


def pandas_reads(format: str, out: Path) -> Rows:
    """All rows; pandas has folders' columns for Parquet alone."""
    if format == "parquet":
        return as_rows(pd.read_parquet(out, dtype_backend="pyarrow"))
    rows = []
    for file in out.rglob(f"*.{format}"):
        if format == "csv":
            found = pd.read_csv(file, dtype_backend="pyarrow")
        else:
            found = pd.read_json(file, lines=True, dtype_backend="pyarrow", convert_dates=False)
        rows += [row | folders_of(file) for row in as_rows(found)]
    return rows


def as_rows(frame: pd.DataFrame) -> Rows:
    """Rows with None where pandas has NA."""
    return pa.Table.from_pandas(frame, preserve_index=False).to_pylist()


def folders_of(file: Path) -> dict[str, Any]:
    """What the names of a file's folders say."""
    year, region = (unquote(part.partition("=")[2]) for part in file.parts[-3:-1])
    return {
        "year": int(year),
        "region": None if region == "__HIVE_DEFAULT_PARTITION__" else region,
    }
