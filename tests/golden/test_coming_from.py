"""What differs from Polars and PySpark is as the page says, and the page is the table's."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import golden_polars
import golden_pyspark
import pandas
import pyarrow as pa
import pytest
from coming_from import PAGE, page, table
from golden_polars import TABLES, answer, difference, rows_of

import fabric

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = table()


@pytest.mark.parametrize("row", ROWS["polars"], ids=lambda row: row["what"])
def test_what_differs_from_polars(row: dict[str, Any]) -> None:
    assert answer(golden_polars.by_polars, row["table"], row["snippet"]) == row["theirs"]
    assert answer(golden_polars.by_fabric, row["table"], row["snippet"]) == row["ours"]
    assert row["theirs"] != row["ours"]


@pytest.mark.parametrize(
    "row", [row for row in ROWS["polars"] if "instead" in row], ids=lambda row: row["what"]
)
def test_what_to_write_instead(row: dict[str, Any]) -> None:
    """It gives what Polars gives."""
    ours = answer(golden_polars.by_fabric, row["table"], row["instead"])
    assert ours == row["theirs"]


@pytest.mark.parametrize("row", ROWS["spark"], ids=lambda row: row["what"])
def test_what_differs_from_spark(row: dict[str, Any], spark: SparkSession) -> None:
    ask = partial(golden_pyspark.by_spark, spark)
    assert golden_pyspark.answer(ask, row["table"], row["snippet"]) == row["theirs"]
    ours = golden_pyspark.answer(golden_pyspark.by_fabric, row["table"], row["snippet"])
    assert ours == row["ours"]
    if "instead" in row:
        ours = golden_pyspark.answer(golden_pyspark.by_fabric, row["table"], row["instead"])
        assert ours == row["theirs"]


@pytest.mark.parametrize("row", ROWS["pandas"], ids=lambda row: row["theirs"])
def test_pandas_gives_the_same_rows(row: dict[str, str]) -> None:
    names = {name: _pandas(TABLES[key]) for name, key in (("df", "groups"), ("other", "other"))}
    theirs = pa.Table.from_pandas(eval(row["theirs"], names), preserve_index=False)
    frames = {name: fabric.from_arrow(TABLES[key]) for name, key in
              (("df", "groups"), ("other", "other"))}  # fmt: skip
    ours = eval(row["ours"], {**frames, "col": fabric.col}).collect()
    found = rows_of(ours, ordered=False)
    assert difference(found, rows_of(theirs.select(ours.column_names), ordered=False)) == ""


def _pandas(given: pa.Table) -> Any:
    return given.to_pandas(types_mapper=pandas.ArrowDtype)


def test_what_stays_different_is_little() -> None:
    assert len(ROWS["polars"]) <= 25


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run: python tests/golden/coming_from.py"
