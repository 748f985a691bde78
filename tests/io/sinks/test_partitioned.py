"""Streams into folders of partition values: each row once, small files merged within a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import fabric
from fabric import streams
from fabric.errors import PlanError
from fabric.ids import TaskId
from fabric.io import sinks
from fabric.io.sinks import open_stream_sink
from fabric.io.sinks.protocol import SinkStart
from fabric.plan.targets import StreamFileTarget
from tests.support.disk_crash import Crash, crash_at
from tests.support.sampled import sampled

SCHEMA = pa.schema([("n", pa.int64()), ("k", pa.string())])
READ = {"parquet": fabric.read_parquet, "csv": fabric.read_csv, "json": fabric.read_json,
        "ipc": fabric.read_ipc}  # fmt: skip
Rows = list[tuple[int, str | None]]


def batch(numbers: Sequence[int]) -> pa.RecordBatch:
    return pa.record_batch([list(numbers), [key(n) for n in numbers]], schema=SCHEMA)


def key(n: int) -> str | None:
    return (None, "a", "b/c")[n % 3]


def rows_of(out: Path, format: str) -> Rows:
    folders = ds.partitioning(pa.schema([("k", pa.string())]), flavor="hive")
    found = ds.dataset(out, format=format, partitioning=folders).to_table().to_pylist()
    return sorted((row["n"], row["k"]) for row in found)


def files(out: Path) -> list[Path]:
    return [path for path in out.rglob("*") if path.is_file()]


@pytest.mark.parametrize("format", sampled(["parquet", "csv", "json", "ipc"], 1, salt="folders"))
def test_a_crash_at_any_step_loses_and_doubles_nothing(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two checkpoints are published, the second is taken back and published again."""
    n_crashes, published, finished = 0, False, False
    first = sorted((n, key(n)) for n in range(4))
    while not finished:
        out = tmp_path / f"out-{n_crashes}"
        to = StreamFileTarget(
            format, str(out), roll_rows=2, compact_bytes=10_000, partition_by=("k",)
        )
        writer = open_stream_sink(to, SCHEMA, TaskId("job-1", 2, 0), 1, SinkStart(1))
        handles = []
        for begin in (0, 100):
            writer.write(batch(range(begin, begin + 4)))
            handles.append([writer.prepare(1 + begin)])
        with monkeypatch.context() as patch:
            crash_at(patch, n_crashes)
            try:
                for each in handles:
                    sinks.publish(each)
                published = True
                sinks.take_back(handles[1], handles[0])
                finished = True
            except Crash:
                n_crashes += 1
        if not published:  # it names all portions that are not known to be published
            sinks.publish(handles[1])
        sinks.take_back(handles[1], handles[0])
        assert rows_of(out, format) == first
        sinks.discard(to, "job-1", 2)
        assert rows_of(out, format) == first
        assert len(files(out)) == 3  # one a folder
    assert n_crashes > 20


@pytest.mark.parametrize("format", READ)
def test_a_stream_s_folders_are_read_back(format: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    rows = streams.generator(n_rows=1000, n_keys=5).select("row", "split", "key")
    kind: Any = format
    to = streams.to_files(out, format=kind, partition_by=["key", "split"])
    rows.write_stream(to).wait()
    found = READ[format](out).select("row", "split", "key").collect()
    order = [("split", "ascending"), ("row", "ascending")]
    given = rows.collect().sort_by(order).to_pylist()
    assert found.sort_by(order).to_pylist() == given
    assert {str(path.parent.relative_to(out)) for path in files(out)} == {
        f"key={row['key']}/split={row['split']}" for row in given
    }


def test_columns_that_no_folder_can_name_are_refused(tmp_path: Path) -> None:
    rows = streams.generator(n_rows=10).with_columns(f=fabric.col("value").cast("double"))
    for by, message in (("nope", "partition_by names 'nope'"), ("f", "is double, which no")):
        with pytest.raises(PlanError, match=message):
            rows.write_stream(streams.to_files(tmp_path / "out", partition_by=by)).wait()
    assert not list(tmp_path.iterdir())
    with pytest.raises(PlanError, match="to_files can't reach hdfs://bucket/x"):
        streams.to_files("hdfs://bucket/x")
