"""TPC-H: all 22 questions, embedded, on 2 agents and on Spark, give DuckDB's answers.

In `make test` all of them embedded, half of them on agents, a third on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest

import fabric
from bench.tpch_questions import queries
from bench.tpch_questions.answers import comparable
from bench.tpch_questions.data import TABLES, Tables, folder, frames
from bench.tpch_questions.sql import QUERIES
from fabric.clients.demo.checksum import rows
from tests.support.local import LocalFabric
from tests.support.sampled import sampled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCALE = 0.01
QUESTIONS = queries()


@pytest.fixture(scope="module")
def expected() -> Iterator[Callable[[str], pa.Table]]:
    """DuckDB's answer to a question."""
    files = folder(SCALE)
    with duckdb.connect() as connection:
        for name in TABLES:
            connection.execute(f"create view {name} as select * from '{files / name}.parquet'")
        yield lambda name: connection.sql(QUERIES[name]).to_arrow_table()


@pytest.fixture(scope="module")
def here(embedded: fabric.Session) -> Tables:
    return frames(embedded, SCALE)


@pytest.fixture(scope="module")
def on_agents(two: LocalFabric) -> Iterator[Tables]:
    with fabric.connect(f"fabric://{two.address}", token=two.token) as session:
        yield frames(session, SCALE)


def same(found: pa.Table, expected: pa.Table) -> None:
    assert rows(comparable(found)) == rows(comparable(expected))


def test_questions_have_answers(expected: Callable[[str], pa.Table]) -> None:
    """So that equal answers say something."""
    empty = [name for name in QUERIES if not expected(name).num_rows]
    assert len(QUERIES) == len(QUESTIONS) == 22
    assert len(empty) <= 2, empty


@pytest.mark.parametrize("name", QUESTIONS)
def test_embedded(name: str, here: Tables, expected: Callable[[str], pa.Table]) -> None:
    same(QUESTIONS[name](here).collect(), expected(name))


@pytest.mark.parametrize("name", sampled([*QUESTIONS], 11, salt="agents"))
def test_on_agents(name: str, on_agents: Tables, expected: Callable[[str], pa.Table]) -> None:
    same(QUESTIONS[name](on_agents).collect(), expected(name))


@pytest.mark.parametrize("name", sampled([*QUESTIONS], 8, salt="spark"))
def test_on_spark(
    name: str,
    here: Tables,
    expected: Callable[[str], pa.Table],
    spark: SparkSession,
) -> None:
    assert spark.getActiveSession() is not None  # the plan runs in it
    same(QUESTIONS[name](here).collect(engine="spark"), expected(name))
