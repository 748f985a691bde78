"""TPC-DS: 26 questions as DataFrames, embedded, on 2 agents and on Spark, have DuckDB's rows.

In `make test` all of them embedded, a third on agents, a quarter on Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import types as t

import fabric
from tests.support import tpcds
from tests.support.compare import unlike
from tests.support.local import LocalFabric
from tests.support.sampled import sampled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCALE = 0.01
DIGITS = 1e-5
"""Means of decimals have 6 digits in Spark and here, and are doubles in DuckDB."""


@pytest.fixture(scope="module")
def files() -> Path:
    return tpcds.folder(SCALE, list(tpcds.QUESTIONS))


@pytest.fixture(scope="module")
def here(files: Path, embedded: fabric.Session) -> tpcds.Tables:
    return tpcds.Tables(embedded, files)


@pytest.fixture(scope="module")
def on_agents(files: Path, two: LocalFabric) -> Iterator[tpcds.Tables]:
    with fabric.connect(f"fabric://{two.address}", token=two.token) as session:
        yield tpcds.Tables(session, files)


def same(found: pa.Table, expected: pa.Table) -> None:
    assert found.num_columns == expected.num_columns
    assert unlike(plain(found), plain(expected), DIGITS) == ""


def plain(table: pa.Table) -> pa.Table:
    """Columns by position, of types that any engine's answer has alike."""
    columns = {}
    for index, column in enumerate(table.columns):
        kind = column.type
        if t.is_decimal(kind) or t.is_floating(kind):
            kind = pa.float64()
        elif t.is_integer(kind):
            kind = pa.int64()
        elif not t.is_date(kind):
            kind = pa.string()
        columns[f"{index}"] = column.cast(kind)
    return pa.table(columns)


def test_questions_have_answers(files: Path) -> None:
    """So that equal answers say something."""
    answers = {number: tpcds.answer(files, number) for number in tpcds.QUESTIONS}
    empty = [
        number
        for number, rows in answers.items()
        if not any(value for row in rows.to_pylist() for value in row.values())
    ]
    assert len(answers) == 26
    assert empty == [38]  # at this scale nobody buys by all three channels on one day


@pytest.mark.parametrize("number", tpcds.QUESTIONS)
def test_embedded(number: int, here: tpcds.Tables, files: Path) -> None:
    same(tpcds.QUESTIONS[number](here).collect(), tpcds.answer(files, number))


@pytest.mark.parametrize("number", sampled([*tpcds.QUESTIONS], 9, salt="agents"))
def test_on_agents(number: int, on_agents: tpcds.Tables, files: Path) -> None:
    same(tpcds.QUESTIONS[number](on_agents).collect(), tpcds.answer(files, number))


@pytest.mark.parametrize("number", sampled([*tpcds.QUESTIONS], 6, salt="spark"))
def test_on_spark(number: int, here: tpcds.Tables, files: Path, spark: SparkSession) -> None:
    assert spark.getActiveSession() is not None  # the plan runs in it
    same(tpcds.QUESTIONS[number](here).collect(engine="spark"), tpcds.answer(files, number))
