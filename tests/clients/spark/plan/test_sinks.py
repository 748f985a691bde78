from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from plan_frames import ROWS, call, col, scan

import fabric
from fabric.clients.demo.checksum import rows
from fabric.clients.spark import install
from fabric.clients.spark.plan.run import execute
from fabric.clients.spark.plan.sinks import wrote
from fabric.clients.spark.plan.sources import DatasetHome
from fabric.errors import ConfigError, ExpressionError, NotFoundError, PlanError
from fabric.ids import new_id
from fabric.plan.check import check
from fabric.plan.expr import Alias, SortKey
from fabric.plan.nodes import Exchange, Filter, Node, Plan, Sink, Sort, WithColumns
from fabric.plan.targets import DatasetTarget, FileTarget, PostgresTarget
from tests.support.postgres import PostgresServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLAT = ROWS.drop_columns(["l"])


def write(spark: SparkSession, node: Node, target: Any, home: Any = None) -> int:
    root = check(Plan(Sink(node, target))).root
    given = {} if home is None else {"home": lambda: home}
    return wrote(root, execute(root, spark, **given))


def left_behind(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("format", ["parquet", "csv", "ipc"])
def test_one_file_in_order(
    format: Any, tmp_path: Path, spark: SparkSession, embedded: fabric.Session
) -> None:
    """Byte for byte what an embedded run writes."""
    node = Sort(scan(FLAT), (SortKey(col("id"), True),))
    ours, theirs = (FileTarget(format, str(tmp_path / name), True) for name in ("ours", "theirs"))
    assert write(spark, node, theirs) == FLAT.num_rows
    with embedded.submit(Plan(Sink(node, ours))) as job:
        assert job.wait().rows == FLAT.num_rows
    assert left_behind(tmp_path) == ["ours", "theirs"]
    assert (tmp_path / "theirs").read_bytes() == (tmp_path / "ours").read_bytes()


def test_a_folder_of_parts(tmp_path: Path, spark: SparkSession) -> None:
    node = Exchange(scan(ROWS), "hash", ("k",))
    target = FileTarget("parquet", str(tmp_path / "out"), False)
    assert write(spark, node, target) == ROWS.num_rows
    assert rows(pq.read_table(tmp_path / "out").select(ROWS.column_names)) == rows(ROWS)
    found = pq.read_schema(next((tmp_path / "out").glob("part-*.parquet")))
    assert found.types == ROWS.schema.types
    with pytest.raises(PlanError, match='exists already; write with mode="overwrite"'):
        write(spark, node, target)
    overwriting = FileTarget("parquet", str(tmp_path / "out"), False, "overwrite")
    assert write(spark, scan(ROWS.slice(0, 2)), overwriting) == 2
    assert pq.read_table(tmp_path / "out").num_rows == 2
    assert left_behind(tmp_path) == ["out"]


def test_in_a_thread_whose_session_has_the_format(tmp_path: Path, spark: SparkSession) -> None:
    """Spark asks the thread's session whether the name of a format is taken."""
    mine = install(spark.newSession())
    try:
        assert write(mine, scan(ROWS), FileTarget("ipc", str(tmp_path / "out"), True)) > 0
    finally:
        install(spark)


def test_no_rows_are_one_empty_part(tmp_path: Path, spark: SparkSession) -> None:
    node = Filter(Exchange(scan(ROWS), "round_robin"), call("lt", col("id"), 0))
    assert write(spark, node, FileTarget("parquet", str(tmp_path / "out"), False)) == 0
    assert pq.read_table(tmp_path / "out").schema.types == ROWS.schema.types
    assert write(spark, node, FileTarget("parquet", str(tmp_path / "x"), True)) == 0
    assert left_behind(tmp_path) == ["out", "x"]


def test_nothing_is_left_of_a_failed_write(tmp_path: Path, spark: SparkSession) -> None:
    node = WithColumns(scan(FLAT), (Alias(call("floor_divide", 9, col("i")), "n"),))
    for single in (True, False):
        with pytest.raises(ExpressionError, match="division by zero"):
            write(spark, node, FileTarget("parquet", str(tmp_path / "out"), single))
        assert left_behind(tmp_path) == []


def test_targets_that_can_not_be(tmp_path: Path, spark: SparkSession) -> None:
    missing = FileTarget("csv", str(tmp_path / "no" / "x.csv"), True)
    with pytest.raises(NotFoundError, match="there is no folder"):
        write(spark, scan(FLAT), missing)
    nested = FileTarget("csv", str(tmp_path / "x.csv"), True)
    with pytest.raises(PlanError, match="a CSV file can't hold column 'l'"):
        write(spark, scan(ROWS), nested)
    assert left_behind(tmp_path) == []


@pytest.fixture
def home(session: fabric.Session) -> DatasetHome:
    return DatasetHome.of(session)


def test_a_dataset_in_the_plans_own_types(
    home: DatasetHome, session: fabric.Session, spark: SparkSession
) -> None:
    table = ROWS.append_column("dict", ROWS["k"].dictionary_encode())
    target = DatasetTarget("from-spark", ("k", "u"), 4)
    assert write(spark, scan(table), target, home) == ROWS.num_rows
    assert session.dataset_schema("from-spark").equals(table.schema)
    assert rows(session.read_dataset("from-spark").collect()) == rows(table)
    with pytest.raises(ConfigError, match="'from-spark' exists already"):
        write(spark, scan(table), target, home)
    more = DatasetTarget("from-spark", ("k", "u"), 4, "append")
    assert write(spark, scan(table.slice(0, 3)), more, home) == 3
    assert session.read_dataset("from-spark").count() == ROWS.num_rows + 3
    again = DatasetTarget("from-spark", ("k",), 2, "overwrite")
    assert write(spark, scan(ROWS), again, home) == ROWS.num_rows
    assert session.dataset_schema("from-spark").equals(ROWS.schema)


def test_a_failed_dataset_is_not_there(
    home: DatasetHome, session: fabric.Session, spark: SparkSession
) -> None:
    node = WithColumns(scan(ROWS), (Alias(call("floor_divide", 9, col("i")), "n"),))
    with pytest.raises(ExpressionError, match="division by zero"):
        write(spark, node, DatasetTarget("failed-on-spark"), home)
    assert "failed-on-spark" not in session.datasets()


def test_a_table_of_postgresql(spark: SparkSession, postgres: PostgresServer) -> None:
    """There at once, or not at all."""
    target = PostgresTarget(new_id("t"), settings=postgres.settings())
    node = Exchange(scan(ROWS), "hash", ("k",))
    failing = WithColumns(node, (Alias(call("floor_divide", 9, col("i")), "n"),))
    with pytest.raises(ExpressionError, match="division by zero"):
        write(spark, failing, target)
    assert write(spark, node, target) == ROWS.num_rows
    found = postgres.execute(f'SELECT id, k, i, l FROM "{target.table}" ORDER BY id')
    columns = (ROWS[name].to_pylist() for name in ("id", "k", "i", "l"))
    assert found == list(zip(*columns, strict=True))
    left = "SELECT tablename FROM pg_tables WHERE schemaname = 'fabric_sink' AND tablename ~ '^job'"
    assert [name for (name,) in postgres.execute(left) if ".0:" in str(name)] == []


def test_no_partitions_at_all(tmp_path: Path, spark: SparkSession) -> None:
    source = tmp_path / "empty.arrow"
    with pa.ipc.new_file(source, FLAT.schema):
        pass
    df = fabric.read_ipc(str(source))
    target = FileTarget("parquet", str(tmp_path / "out"), False)
    assert write(spark, df.plan.root, target) == 0
    assert pq.read_table(tmp_path / "out").num_rows == 0
