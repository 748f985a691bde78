"""Folders of partition values, appended files, limits of rows: with live DuckDB as the oracle."""

from __future__ import annotations

import datetime as dt
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fabric
from fabric.errors import CancelledError, ConfigError, NotFoundError, PlanError, StorageError
from fabric.ids import TaskId
from fabric.io.sinks import abandon, open_sink, publish
from fabric.io.sinks import file as file_sinks
from fabric.io.sinks.parts import OPEN_MAX, partitioned
from fabric.plan.targets import FileTarget

TABLE = pa.table({"n": range(10), "k": ["a", "b", None, "a/b", ""] * 2, "y": [1, 2] * 5})
FORMATS = ["parquet", "csv", "json", "ipc"]
READ = {"parquet": fabric.read_parquet, "csv": fabric.read_csv, "json": fabric.read_json,
        "ipc": fabric.read_ipc}  # fmt: skip


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def written(target: FileTarget, table: pa.Table, number: int = 0, job: str = "job-1") -> bytes:
    sink = open_sink(target, table.schema, TaskId(job, 2, number, 0), n_tasks=3)
    for batch in table.to_batches(max_chunksize=4):
        sink.write(batch)
    return sink.prepare()


@pytest.mark.parametrize("format", FORMATS)
def test_rows_come_back_from_their_folders(format: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    frame = fabric.DataFrame(TABLE)
    getattr(frame, f"write_{format}")(out, partition_by=["y", "k"])
    assert {name.rpartition("/")[0] for name in files(out)} >= {"y=1/k=a", "y=2/k=a%2Fb"}
    found = READ[format](out).select("n", "k", "y").collect()
    assert found.sort_by("n").to_pylist() == TABLE.to_pylist()
    assert os.listdir(tmp_path) == ["out"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    rows=st.lists(
        st.tuples(
            st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
            st.none() | st.dates(),
            st.none() | st.booleans(),
        ),
        max_size=20,
    )
)
def test_rows_are_cut_as_duckdb_groups_them(rows: list[Any]) -> None:
    table = pa.table({
        "s": pa.array([row[0] for row in rows], pa.string()),
        "d": pa.array([row[1] for row in rows], pa.date32()),
        "b": pa.array([row[2] for row in rows], pa.bool_()),
        "n": range(len(rows)),
    }).combine_chunks()  # fmt: skip
    batch = table.to_batches()[0] if rows else pa.RecordBatch.from_pylist([], table.schema)
    found = duckdb.from_arrow(table).query("t", "select list(n order by n) from t group by s, d, b")
    parts = list(partitioned(batch, ["s", "d", "b"]))
    assert sorted(part["n"].to_pylist() for _, part in parts) == sorted(
        g for (g,) in found.fetchall()
    )
    assert len({folder for folder, _ in parts}) == len(parts)
    assert all(folder.count("/") == 2 and "=" in folder for folder, _ in parts)


def test_values_are_written_as_spark_and_read_back(tmp_path: Path) -> None:
    values = {
        "i": pa.array([-1], pa.int8()), "b": [True], "d": [dt.date(2024, 1, 31)],
        "t": pa.array([dt.datetime(2024, 1, 31, 10, 30)], pa.timestamp("us")),
        "z": pa.array([1_500_000], pa.timestamp("us", "Europe/Berlin")),
        "m": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
        "v": pa.array(["x"], pa.string_view()), "c": pa.array(["y"]).dictionary_encode(),
    }  # fmt: skip
    table = pa.table({"n": [1], **values})
    out = tmp_path / "out"
    fabric.DataFrame(table).write_parquet(out, partition_by=list(values))
    (name,) = files(out)
    assert name == (
        "i=-1/b=true/d=2024-01-31/t=2024-01-31 10%3A30%3A00/z=1970-01-01 00%3A00%3A01.5Z/m=1.50/"
        "v=x/c=y/part-00000.parquet"
    )
    types = {"b": "bool", "m": pa.decimal128(10, 2), "z": pa.timestamp("us", "UTC"), "i": pa.int8()}
    (row,) = fabric.read_parquet(out, hive=types).to_dicts()
    assert row == table.to_pylist()[0]


def test_files_end_at_so_many_rows(tmp_path: Path) -> None:
    out = tmp_path / "out"
    fabric.DataFrame({"n": range(10)}).write_parquet(out, max_rows_per_file=4)
    assert files(out) == [f"part-00000-000{i}.parquet" for i in range(3)]
    assert [pq.read_metadata(out / name).num_rows for name in files(out)] == [4, 4, 2]
    fabric.DataFrame(TABLE).write_csv(tmp_path / "by", max_rows_per_file=1, partition_by="y")
    assert len(files(tmp_path / "by")) == 10


def test_more_partitions_than_open_files(tmp_path: Path) -> None:
    n = 3 * OPEN_MAX
    table = pa.table({"k": [*range(n), *range(n)], "v": range(2 * n)})
    out = tmp_path / "out"
    fabric.DataFrame(table).write_parquet(out, partition_by="k")
    found = fabric.read_parquet(out).select("k", "v").collect()
    assert found.sort_by("v").equals(table)


@pytest.mark.parametrize("format", FORMATS)
def test_appended_files_lie_beside_others(format: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    frame = fabric.DataFrame(TABLE)
    for rounds in (1, 2, 3):
        getattr(frame, f"write_{format}")(out, mode="append", partition_by="y")
        assert READ[format](out).count() == 10 * rounds
    assert os.listdir(tmp_path) == ["out"]
    with pytest.raises(PlanError, match=r'exists already; write with mode="overwrite" or "append"'):
        getattr(frame, f"write_{format}")(out)
    getattr(frame, f"write_{format}")(out, mode="overwrite", partition_by="k")
    assert READ[format](out).count() == 10


def test_what_does_not_fit_a_folder_is_refused_before(tmp_path: Path) -> None:
    out = tmp_path / "out"
    frame = fabric.DataFrame(TABLE)
    frame.write_parquet(out, partition_by="y")
    before = files(out)
    other = fabric.DataFrame({"n": ["text"], "k": ["a"], "y": [1]})
    with pytest.raises(PlanError, match=r"is partitioned by y; append with partition_by=\['y'\]"):
        frame.write_parquet(out, mode="append")
    with pytest.raises(PlanError, match=r"don't fit .*out: column 'n' is string, expected int64"):
        other.write_parquet(out, mode="append", partition_by="y")
    frame.write_csv(tmp_path / "csv", sep=";")
    with pytest.raises(PlanError, match=r"has the columns n, k, y, and these rows have n, k"):
        frame.select("n", "k").write_csv(tmp_path / "csv", mode="append", sep=";")
    assert files(out) == before


DAY, TIME = dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3)
KINDS: dict[str, list[Any]] = {
    "numbers": [[1, 2], [1.5, None], [Decimal("1.50"), None]], "texts": [["x, y", None], ["7", ""]],
    "booleans": [[True, None]], "times": [[DAY, None], [TIME, None]],
}  # fmt: skip


@pytest.mark.parametrize("there", KINDS)
@pytest.mark.parametrize("format", ["csv", "json"])
def test_texts_of_another_kind_are_refused(format: str, there: str, tmp_path: Path) -> None:
    for number, values in enumerate(KINDS[there]):
        for kind, others in KINDS.items():
            for place, other in enumerate(others):
                out = tmp_path / f"{number}{kind}{place}"
                getattr(fabric.DataFrame({"n": values, "v": [1, 2]}), f"write_{format}")(out)
                again = fabric.DataFrame({"n": other, "v": [1, 2]})
                write = partial(getattr(again, f"write_{format}"), out, mode="append")
                if kind == there or (kind, there) == ("times", "texts"):
                    write()  # not all times are found to be such
                elif (format, kind, there) == ("json", "texts", "times"):
                    write()
                else:
                    with pytest.raises(PlanError, match=r"don't fit .*: column 'n' is .* has "):
                        write()


def test_what_was_never_quoted_may_be_a_text(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for _ in range(2):
        fabric.DataFrame({"n": ["7"]}).write_csv(out, quote_style="never", mode="append")
    with pytest.raises(PlanError, match=r"column 'n' is bool, and .* has numbers in it"):
        fabric.DataFrame({"n": [True]}).write_csv(out, quote_style="never", mode="append")
    assert len(files(out)) == 2


@pytest.mark.parametrize("format", FORMATS)
def test_the_same_rows_may_always_be_appended(format: str, tmp_path: Path) -> None:
    """Whatever a format makes of their types."""
    types = [
        pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us", "Europe/Berlin"), pa.date64(),
        pa.time32("s"), pa.time64("ns"), pa.duration("s"), pa.int8(), pa.uint64(), pa.float32(),
        pa.string_view(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.bool_(),
        pa.null(), pa.binary(), pa.decimal128(5, 2),
    ]  # fmt: skip
    if format == "json":
        types = [dtype for dtype in types if not pa.types.is_duration(dtype)]
        types = [dtype for dtype in types if not pa.types.is_dictionary(dtype)]
    schema = pa.schema([(f"c{i}", dtype) for i, dtype in enumerate(types)])
    rows = pa.record_batch([pa.array([None, None], dtype) for dtype in types], schema=schema)
    target = FileTarget(format, str(tmp_path / "out"), False, "append")
    for job in ("job-0", "job-1"):
        sink = open_sink(target, schema, TaskId(job, 2, 0), n_tasks=1)
        sink.write(rows)
        publish([sink.prepare()])
    assert len(files(tmp_path / "out")) == 2


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"partition_by": "z"}, PlanError, "partition_by names 'z', and the columns are"),
        ({"partition_by": ["y", "y"]}, PlanError, "names a column twice"),
        ({"partition_by": ["n", "k", "y", "f"]}, PlanError, "partition_by column 'f' is double"),
        ({"partition_by": ["n"], "mode": "apend"}, PlanError, "write: mode=\"append\""),
        ({"max_rows_per_file": -1}, PlanError, "max_rows_per_file"),
        ({"compression": "lzo"}, ConfigError, "must be one of snappy, zstd"),
        ({"compression_level": 3}, ConfigError, "needs compression= one of zstd, gzip, brotli"),
        ({"compression": "zstd", "compression_level": 99}, ConfigError, "got 99"),
        ({"row_group_size": 0}, ConfigError, "row_group_size must be positive, got 0"),
        ({"row_groups": 5}, ConfigError, "no option 'row_groups'; did you mean 'row_group_size'?"),
    ],
)  # fmt: skip
def test_arguments_are_refused_before(
    arguments: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    frame = fabric.DataFrame(TABLE.append_column("f", pa.array([1.5] * 10)))
    with pytest.raises(error) as caught:
        frame.write_parquet(tmp_path / "out", **arguments)
    assert message in str(caught.value)
    assert not list(tmp_path.iterdir())
    with pytest.raises(PlanError, match=r"is one file, and partition_by.*name a folder: '.*/out'"):
        frame.write_parquet(tmp_path / "out.parquet", partition_by="y")
    with pytest.raises(PlanError, match="names all columns, and none is left"):
        frame.select("y").write_parquet(tmp_path / "out", partition_by="y")


def test_partition_columns_come_back_or_are_refused(tmp_path: Path) -> None:
    for name in ("_k", "k.x", "=", "a=b"):
        out = tmp_path / quote(name, safe="")
        fabric.DataFrame({name: ["x"], "v": [1]}).write_parquet(out, partition_by=name)
        assert fabric.read_parquet(out).to_dicts() == [{"v": 1, name: "x"}]
    hidden = fabric.DataFrame({".k": ["x"], "v": [1]})
    with pytest.raises(
        PlanError, match=r"'\.k' begins with a dot, .*: \.rename\({\"\.k\": \"k\"}\)"
    ):
        hidden.write_parquet(tmp_path / "out", partition_by=".k")
    hidden.rename({".k": "k"}).write_parquet(tmp_path / "out", partition_by="k")
    for texts in (["007", "7"], ["1.50", "1.5"]):
        fabric.DataFrame({"k": texts, "v": [1, 2]}).write_csv(
            tmp_path / "out", partition_by="k", mode="overwrite"
        )
        as_text = fabric.read_csv(tmp_path / "out", hive={"k": "string"})
        assert sorted(row["k"] for row in as_text.to_dicts()) == sorted(texts)


def test_parquet_options(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    frame = fabric.DataFrame({"n": range(1000)})
    frame.write_parquet(path, compression="zstd", compression_level=19, row_group_size=300)
    found = pq.read_metadata(path)
    assert [found.row_group(i).num_rows for i in range(4)] == [300, 300, 300, 100]
    assert found.row_group(0).column(0).compression == "ZSTD"
    text = fabric.DataFrame({"n": [1, None], "s": ["x", ""]})
    for style, expected in (("never", "n,s\n1,x\n,\n"), ("always", '"n","s"\n"1","x"\n,""\n')):
        text.write_csv(tmp_path / "x.csv", quote_style=style, mode="overwrite")
        assert (tmp_path / "x.csv").read_text() == expected


def test_no_rows_leave_an_empty_folder(tmp_path: Path) -> None:
    fabric.DataFrame(TABLE.slice(0, 0)).write_parquet(tmp_path / "out", partition_by="y")
    assert files(tmp_path) == []
    assert (tmp_path / "out").is_dir()
    with pytest.raises(NotFoundError, match="holds no"):
        fabric.read_parquet(tmp_path / "out")


def test_an_append_that_fails_half_way_takes_back_what_it_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = FileTarget("parquet", str(tmp_path / "out"), False, "append", (), ("y",))
    publish([written(target, TABLE, job="job-0")])
    before = files(tmp_path / "out")
    handles = [written(target, TABLE, number) for number in range(3)]
    staged, real, moved = files(tmp_path), Path.rename, []

    def rename(self: Path, to: Path) -> Path:
        if len(moved) == 3:
            moved.append(to)
            raise OSError("the cable was pulled")
        moved.append(to)
        return real(self, to)

    with monkeypatch.context() as patched:
        patched.setattr(file_sinks.Path, "rename", rename)
        with pytest.raises(StorageError, match="the cable was pulled"):
            publish(handles)
    assert files(tmp_path / "out") == before
    assert files(tmp_path) == staged
    publish(handles)
    publish(handles)
    abandon(handles)
    assert len(files(tmp_path / "out")) == len(before) * 4
    assert os.listdir(tmp_path) == ["out"]


def test_polars_reads_what_was_appended(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for _ in range(2):
        fabric.DataFrame(TABLE).write_parquet(out, mode="append", partition_by="y")
    assert pl.scan_parquet(out).select(pl.col("n").sum()).collect().item() == 90


@pytest.mark.parametrize("format", FORMATS)
def test_a_writer_is_abandoned_by_any_thread_at_any_time(format: str, tmp_path: Path) -> None:
    """Two at once, while a third one writes: files are closed once, by one thread at a time."""
    target = FileTarget(format, str(tmp_path / "out"), single=False, mode="error")
    batch = pa.record_batch({"n": range(100_000)})
    for number in range(20):
        sink = open_sink(target, batch.schema, TaskId("job-1", 2, number), n_tasks=20)
        for _ in range(3):  # so that closing takes its time
            sink.write(batch)
        at = threading.Barrier(3)

        def abandoned(sink=sink, at=at) -> None:
            at.wait()
            sink.abandon()

        def writing(sink=sink, at=at) -> None:
            at.wait()
            with suppress(CancelledError):
                for _ in range(20):
                    sink.write(batch)

        with ThreadPoolExecutor(3) as threads:
            found = [threads.submit(work) for work in (writing, abandoned, abandoned)]
            assert [one.result() for one in found] == [None] * 3
        with pytest.raises(CancelledError):
            sink.write(batch)
    assert files(tmp_path) == []
    assert [*tmp_path.iterdir()] == []


def test_an_empty_text_and_null_are_folders_as_others_write_and_read_them(tmp_path: Path) -> None:
    table = pa.table({"k": ["", "a", None], "v": [1, 2, 3]})
    out = tmp_path / "ours"
    fabric.DataFrame(table).write_parquet(out, partition_by="k")
    pl.from_arrow(table).write_parquet(tmp_path / "polars", partition_by="k")  # type: ignore
    duckdb.register("keys", table)
    duckdb.sql(f"copy keys to '{tmp_path}/duckdb' (format parquet, partition_by (k))")
    expected = [("", 1), ("a", 2), (None, 3)]
    for folder in ("ours", "polars", "duckdb"):
        assert sorted(os.listdir(tmp_path / folder)) == sorted(os.listdir(out))
        found = fabric.read_parquet(tmp_path / folder).sort("v").to_dicts()
        assert [(row["k"], row["v"]) for row in found] == expected
    files = str(out / "**/*.parquet")
    assert pl.read_parquet(files, hive_partitioning=True).sort("v").select("k", "v").rows() == (
        expected
    )
    read = f"from read_parquet('{files}', hive_partitioning=true)"
    assert duckdb.sql(f"select k, v {read} order by v").fetchall() == expected
