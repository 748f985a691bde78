from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from plan_frames import NAN, ROWS, call, col, lit, scan

import fabric
from fabric.clients.spark.plan.run import execute
from fabric.clients.spark.plan.sources import DatasetHome, reads_alike
from fabric.errors import DataError, NotFoundError
from fabric.plan.check import check
from fabric.plan.nodes import Filter, Node, Plan, Scan, Select
from fabric.plan.sources import DatasetSource, FileSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Same = Callable[..., pa.Table]
FLAT = ROWS.drop_columns(["l"])


def read(path: Path, format: Any = "parquet", **options: Any) -> Scan:
    source = FileSource(format, (str(path),), tuple(sorted(options.items())))
    from fabric.io.sources import source_schema

    return Scan(source, source_schema(source))


def is_native(node: Scan) -> bool:
    assert isinstance(node.source, FileSource)
    return reads_alike(node.source, node.schema)


def test_parquet_that_spark_reads(tmp_path: Path, same: Same) -> None:
    table = FLAT.drop_columns(["t", "u"])
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=4)
    node = read(tmp_path / "rows.parquet")
    assert is_native(node)
    same(node)
    same(Filter(node, call("eq", col("k"), "a")))


def test_statistics_do_not_hide_nan(tmp_path: Path, on_spark: Any) -> None:
    """Spark's own filter on the file would: each of these gives it fewer rows."""
    table = pa.table({"f": [1.0, 1.0, NAN], "g": pa.array([1.0, 1.0, NAN], pa.float32()),
                      "s": [{"f": 1.0}, {"f": 1.0}, {"f": NAN}]})  # fmt: skip
    pq.write_table(table, tmp_path / "nan.parquet")
    node = read(tmp_path / "nan.parquet")
    assert is_native(Scan(node.source, node.schema.remove(2)))
    for column in ("f", "g"):
        for name, value, n_rows in (("ne", 1.0, 1), ("gt", 5.0, 1), ("eq", NAN, 1), ("lt", 5.0, 2)):
            kept = Filter(node, call(name, col(column), lit(value)))
            assert on_spark(Select(kept, (col("f"), col("g")))).num_rows == n_rows


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None], pa.uint8()),
        pa.array([1, None], pa.timestamp("ns")),
        pa.array([1, None], pa.timestamp("ms", "UTC")),
        pa.array([[1.0], None]),
        pa.array([1, None], pa.time32("s")),
    ],
    ids=lambda column: str(column.type),
)  # fmt: skip
def test_parquet_that_our_reader_reads(column: pa.Array, tmp_path: Path, same: Same) -> None:
    with_one = column if column.type != pa.timestamp("ns") else pa.array([1000, None], column.type)
    pq.write_table(pa.table({"x.y": with_one, "n": [1, 2]}), tmp_path / "rows.parquet")
    node = read(tmp_path / "rows.parquet")
    assert not is_native(node)
    same(node)
    assert is_native(Scan(node.source, node.schema.remove(0)))


def test_values_that_spark_can_not_hold_are_an_error(tmp_path: Path, on_spark: Any) -> None:
    table = pa.table({"x": pa.array([1], pa.timestamp("ns"))})
    pq.write_table(table, tmp_path / "rows.parquet")
    for node in (read(tmp_path / "rows.parquet"), scan(table)):
        with pytest.raises(DataError, match=r"column 'x_0' of type timestamp\[ns\] does not fit"):
            on_spark(node)


@pytest.mark.parametrize("name", ["_hidden.parquet", ".hidden.parquet", "a [1-2] {b}*.parquet",
                                  "year=2013/part.parquet", "ü.parquet"])  # fmt: skip
def test_files_whose_names_mean_something_to_spark(name: str, tmp_path: Path, same: Same) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"a": [1, 2]}), path)
    node = read(path)
    assert not is_native(node)
    assert same(node).num_rows == 2


def test_days_before_1582(tmp_path: Path, same: Same) -> None:
    long_ago = [datetime.date(1, 1, 1), datetime.date(1500, 2, 28), None]
    stamps = [datetime.datetime(1, 1, 1), datetime.datetime(1582, 10, 10), None]
    table = pa.table({"day": long_ago, "at": pa.array(stamps, pa.timestamp("us", "UTC")),
                      "naive": pa.array(stamps, pa.timestamp("us"))})  # fmt: skip
    pq.write_table(table, tmp_path / "old.parquet")
    node = read(tmp_path / "old.parquet")
    assert is_native(node)
    same(node)


def test_names_in_files(tmp_path: Path, same: Same) -> None:
    names = ["a.b", "a`b", "A", "a", "x y", "é", "s,;{}()="]
    table = pa.table([pa.array([i]) for i in range(len(names))], names)
    pq.write_table(table, tmp_path / "names.parquet")
    node = read(tmp_path / "names.parquet")
    assert is_native(node)
    assert same(Select(node, (col("a"), col("a.b")))).to_pylist() == [{"a": 3, "a.b": 0}]
    same(node)


def test_csv_by_our_reader(tmp_path: Path, same: Same) -> None:
    (tmp_path / "rows.csv").write_text('a;b;c\n1;;"x;y"\n2;;NA\n;3;\n')
    found = same(read(tmp_path / "rows.csv", "csv", delimiter=";"))
    assert found.schema.types == [pa.int64(), pa.int64(), pa.string()]


def test_text_files_are_read_exactly(tmp_path: Path, same: Same) -> None:
    (tmp_path / "rows.csv").write_text('s,n\nx,12345678901234567890\n\n"NA",1\n')
    found = same(read(tmp_path / "rows.csv", "csv", null_values=("NA",)))
    assert found.num_rows == 3
    assert found["s"].null_count == 2
    (tmp_path / "rows.json").write_text(
        '{"t": "2024-01-01T10:00:00.5+02:00", "n": -1}\n{"n": 12345678901234567890}\n'
    )
    same(read(tmp_path / "rows.json", "json"))


def test_csv_that_does_not_hold_what_its_head_promised(tmp_path: Path, on_spark: Any) -> None:
    (tmp_path / "rows.csv").write_text("a\n" + "1\n" * 50 + "x\n")
    node = read(tmp_path / "rows.csv", "csv", sample_bytes=20)
    with pytest.raises(
        DataError, match=r"does not fit its column.*types=\{\"a\": \"string\"\}"
    ) as error:
        on_spark(node)
    assert "Traceback" not in str(error.value)


def test_folders_of_columns_and_missing_ones(tmp_path: Path, same: Same) -> None:
    for folder, table in (
        ("k=1", pa.table({"a": [1]})),
        ("k=2", pa.table({"a": [2.5], "b": ["x"]})),
    ):
        (tmp_path / folder).mkdir()
        pq.write_table(table, tmp_path / folder / "part.parquet")
    frame = fabric.read_parquet(tmp_path, schema="union")
    rows = [{"a": 1.0, "b": None, "k": 1}, {"a": 2.5, "b": "x", "k": 2}]
    assert sorted(same(frame).to_pylist(), key=str) == rows
    assert same(frame.filter(fabric.col("k") > 1)).to_pylist() == rows[1:]
    assert same(frame.filter(fabric.col("k") > 2)).num_rows == 0
    assert same(frame.filter(fabric.col("b").is_null()).select("k")).to_pylist() == [{"k": 1}]


def test_json_by_our_reader(tmp_path: Path, same: Same) -> None:
    (tmp_path / "rows.json").write_text('[{"a": 1, "s": {"t": ["x", null]}},\n {"b": "y"}]')
    assert same(fabric.read_json(tmp_path / "rows.json")).column_names == ["a", "s", "b"]


def test_ipc(tmp_path: Path, same: Same) -> None:
    with pa.ipc.new_file(tmp_path / "rows.arrow", ROWS.schema) as writer:
        writer.write_table(ROWS, max_chunksize=5)
    same(read(tmp_path / "rows.arrow", "ipc"))


def test_a_file_that_changed_since(tmp_path: Path, on_spark: Any) -> None:
    for format, name in (("parquet", "a"), ("parquet", "u")):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(
            pa.table({name: pa.array([1], pa.uint8() if name == "u" else pa.int64())}), path
        )
        node = read(path, format)
        pq.write_table(pa.table({"b": [1]}), path)
        with pytest.raises(DataError, match="has changed since the plan was made"):
            on_spark(node)


def test_datasets_through_the_connector(
    two: Any, session: fabric.Session, spark: SparkSession
) -> None:
    session.read_arrow(ROWS).write_dataset("on-spark", keys=["k"], mode="overwrite")
    home = DatasetHome({"url": session.flight_url, "token": two.token})
    schema = session.dataset_schema("on-spark")
    node: Node = Filter(Scan(DatasetSource("on-spark"), schema), call("gt", col("f"), lit(1.0)))
    root = check(Plan(node)).root
    found = execute(root, spark, lambda: home)
    assert found.schema.equals(schema)
    assert sorted(found["id"].to_pylist()) == [2, 3, 5, 7, 11]


def test_a_dataset_and_no_fabric(on_spark: Any) -> None:
    node = Scan(DatasetSource("x"), pa.schema([("a", pa.int64())]), path="read")
    with pytest.raises(NotFoundError, match=r'datasets="fabric://host:6123"\).*\(node read\)'):
        on_spark(node)
