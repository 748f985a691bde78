"""Files of streams: rolling, merging over checkpoints, a crash at every step, refusals."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fabric.errors import ConfigError, DataError, NotFoundError, PlanError, StorageError
from fabric.ids import TaskId
from fabric.io import sinks
from fabric.io.sinks import check_stream_target, open_stream_sink, stream_folders
from fabric.io.sinks.protocol import SinkStart
from fabric.plan.targets import DatasetTarget, StreamFileTarget
from tests.support.disk_crash import Crash, crash_at
from tests.support.sampled import sampled

SCHEMA = pa.schema([("n", pa.int64())])
TASK = TaskId("job-1", 2, 0)


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch([list(values)], schema=SCHEMA)


def opened(target: StreamFileTarget, task: TaskId = TASK, run: int = 1):
    return open_stream_sink(target, SCHEMA, task, 1, SinkStart(run))


def seen(path: Path) -> list[list[int]]:
    return [pq.read_table(file)["n"].to_pylist() for file in sorted(path.iterdir())]


def target(path: Path, **options) -> StreamFileTarget:
    return StreamFileTarget("parquet", str(path), **options)


def test_files_are_cut_by_rows(tmp_path: Path) -> None:
    out = tmp_path / "out"
    writer = opened(target(out, roll_rows=4, compact_bytes=0))
    writer.write(batch(*range(10)))
    writer.write(batch(10))
    sinks.publish([writer.prepare(1)])
    assert seen(out) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]


def test_files_are_cut_by_bytes_and_time(tmp_path: Path, monkeypatch) -> None:
    out, now = tmp_path / "out", [0.0]
    monkeypatch.setattr("fabric.io.sinks.stream_file.time.monotonic", lambda: now[0])
    writer = opened(target(out, roll_bytes=100, roll_s=5.0, compact_bytes=0))
    for n in range(26):  # 13 of them are 104 bytes
        writer.write(batch(n))
    now[0] += 5.0
    for n in range(26, 29):
        writer.write(batch(n))
    now[0] += 5.0
    writer.write(batch(29))
    sinks.publish([writer.prepare(1)])
    assert [len(rows) for rows in seen(out)] == [13, 13, 4]


def test_small_files_of_one_checkpoint_become_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    writers = [opened(target(out), TaskId("job-1", 2, n)) for n in range(3)]
    for checkpoint in (1, 2):
        handles = []
        for n, writer in enumerate(writers):
            writer.write(batch(checkpoint * 10 + n))
            handles.append(writer.prepare(checkpoint))
            writer.on_complete(checkpoint)
        sinks.publish(handles)
    assert sorted(seen(out)) == [[10, 11, 12], [20, 21, 22]]


def test_small_files_wait_for_others_as_long_as_they_may(tmp_path: Path) -> None:
    out = tmp_path / "out"
    to = target(out, compact_s=3_600.0)
    writer = opened(to)
    for checkpoint in (1, 2, 3):
        writer.write(batch(checkpoint))
        sinks.publish([writer.prepare(checkpoint)])
        writer.on_complete(checkpoint)
        assert seen(out) == []
    for path in (tmp_path / ".out.job-1-2.stream" / "small").iterdir():
        os.utime(path, (1, 1))
    writer.write(batch(4))
    sinks.publish([writer.prepare(4)])
    assert seen(out) == [[1, 2, 3, 4]]
    writer.on_complete(4)
    writer.write(batch(5))
    sinks.publish([writer.prepare(5)])
    sinks.discard(to, "job-1", 2)  # the job's end
    assert sorted(seen(out)) == [[1, 2, 3, 4], [5]]
    assert os.listdir(tmp_path) == ["out"]


def test_enough_small_files_do_not_wait(tmp_path: Path) -> None:
    out = tmp_path / "out"
    writer = opened(target(out, compact_s=3_600.0, compact_bytes=1_200))
    for checkpoint in range(1, 9):
        writer.write(batch(checkpoint))
        sinks.publish([writer.prepare(checkpoint)])
        writer.on_complete(checkpoint)
    assert len(seen(out)) > 1
    assert all(len(rows) > 1 for rows in seen(out))


STEPS = ["rename", "replace", "unlink", "fsync"]


@pytest.mark.parametrize("format", ["parquet", "csv", "ipc"])
def test_a_crash_at_any_step_of_publishing_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch, format: str
) -> None:
    """Every rename, removal and sync in turn is the last one; then it is published again."""
    n_crashes, finished = 0, False
    while not finished:
        out = tmp_path / f"out-{n_crashes}"
        to = StreamFileTarget(format, str(out), roll_rows=2, compact_bytes=10_000)
        writers = [opened(to, TaskId("job-1", 2, n)) for n in range(2)]
        for n, writer in enumerate(writers):
            writer.write(batch(*range(n * 10, n * 10 + 5)))
        handles = [writer.prepare(1) for writer in writers]
        with monkeypatch.context() as patch:
            crash_at(patch, n_crashes)
            try:
                sinks.publish(handles)
                finished = True
            except Crash:
                n_crashes += 1
        sinks.publish(handles)
        rows = sorted(n for path in out.iterdir() for n in values(path, format))
        assert rows == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
        sinks.discard(to, "job-1", 2)
        assert sorted(n for path in out.iterdir() for n in values(path, format)) == rows
    assert n_crashes > 20


@pytest.mark.parametrize(
    ("format", "merged"),
    sampled(list(product(["parquet", "csv", "ipc"], [True, False])), 2, salt="taking back"),
)
def test_a_crash_at_any_step_of_taking_back_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch, format: str, *, merged: bool
) -> None:
    """Rows of two checkpoints lie in one file; those of the second are taken out again."""
    n_crashes, finished = 0, False
    while not finished:
        out = tmp_path / f"out-{n_crashes}"
        options = {"compact_bytes": 10_000, "compact_s": 3_600.0} if merged else {}
        to = StreamFileTarget(format, str(out), roll_rows=2, **options)
        writers = [opened(to, TaskId("job-1", 2, n)) for n in range(2)]
        handles = {}
        for checkpoint in (1, 2):
            for n, writer in enumerate(writers):
                writer.write(
                    batch(*range(checkpoint * 100 + n * 10, checkpoint * 100 + n * 10 + 5))
                )
            handles[checkpoint] = [writer.prepare(checkpoint) for writer in writers]
            if merged and checkpoint == 2:
                for path in Path(stream_folders.Folders.of(str(out), "job-1", 2).small).iterdir():
                    os.utime(path, (1, 1))
            sinks.publish(handles[checkpoint])
        assert len(list(out.iterdir())) == 1 or not merged
        with monkeypatch.context() as patch:
            crash_at(patch, n_crashes)
            try:
                sinks.take_back(handles[2], handles[1])
                finished = True
            except Crash:
                n_crashes += 1
        sinks.take_back(handles[2], handles[1])
        sinks.publish(handles[2])
        rows = sorted(n for path in out.iterdir() for n in values(path, format))
        assert rows == [100, 101, 102, 103, 104, 110, 111, 112, 113, 114]
        sinks.discard(to, "job-1", 2)
        assert sorted(n for path in out.iterdir() for n in values(path, format)) == rows
    assert n_crashes >= 5


def merged_out(tmp_path: Path) -> tuple[Path, list[bytes], list[bytes]]:
    """One seen file of two checkpoints."""
    out = tmp_path / "out"
    writer = opened(target(out, compact_s=3_600.0))
    handles = []
    for checkpoint in (1, 2):
        writer.write(batch(checkpoint))
        handles.append([writer.prepare(checkpoint)])
        writer.on_complete(checkpoint)
        for path in (tmp_path / ".out.job-1-2.stream" / "small").iterdir():
            os.utime(path, (1, 1))
        sinks.publish(handles[-1])
    assert seen(out) == [[1, 2]]
    return out, *handles


def test_what_somebody_took_away_can_not_be_taken_back(tmp_path: Path) -> None:
    out, kept, gone = merged_out(tmp_path)
    (path,) = out.iterdir()
    path.unlink()
    with pytest.raises(NotFoundError, match=r"merged.parquet can't be taken out of .*by hand"):
        sinks.take_back(gone, kept)


def test_a_job_that_had_ended_takes_back_what_lies_by_itself(tmp_path: Path) -> None:
    out = tmp_path / "out"
    to = target(out)
    writer, handles = opened(to), []
    for checkpoint in (1, 2):
        writer.write(batch(checkpoint))
        handles.append([writer.prepare(checkpoint)])
        writer.on_complete(checkpoint)
        sinks.publish(handles[-1])
    sinks.discard(to, "job-1", 2)  # the job failed, and is restarted
    for _ in range(2):
        sinks.take_back(handles[1], handles[0])
        assert seen(out) == [[1]]
    sinks.discard(to, "job-1", 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_a_job_that_had_ended_says_what_it_can_not_take_back(tmp_path: Path) -> None:
    out, kept, gone = merged_out(tmp_path)
    sinks.discard(target(out), "job-1", 2)
    with pytest.raises(NotFoundError, match="merged with others when the job ended"):
        sinks.take_back(gone, kept)
    assert seen(out) == [[1, 2]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_a_file_that_somebody_changed_is_left_alone(tmp_path: Path) -> None:
    out, kept, gone = merged_out(tmp_path)
    (path,) = out.iterdir()
    pq.write_table(pa.table({"n": [1, 2, 3]}), path)
    with pytest.raises(DataError, match="holds 3 rows or bytes, 2 were written"):
        sinks.take_back(gone, kept)
    assert seen(out) == [[1, 2, 3]]


def values(path: Path, format: str) -> list[int]:
    if format == "csv":
        return [int(line) for line in path.read_text().splitlines()[1:]]
    table = pq.read_table(path) if format == "parquet" else pa.ipc.open_file(path).read_all()
    return table["n"].to_pylist()


def test_files_taken_away_after_they_were_seen_do_not_come_back(tmp_path: Path) -> None:
    out = tmp_path / "out"
    writer = opened(target(out, compact_bytes=0))
    writer.write(batch(1))
    handle = writer.prepare(1)
    sinks.publish([handle])
    for path in out.iterdir():
        path.unlink()
    sinks.publish([handle])
    assert seen(out) == []


def test_prepared_files_that_are_gone_are_an_error(tmp_path: Path) -> None:
    to = target(tmp_path / "out")
    writer = opened(to)
    writer.write(batch(1))
    handle = writer.prepare(1)
    for path in (tmp_path / ".out.job-1-2.stream" / "work").iterdir():
        path.unlink()
    with pytest.raises(StorageError, match=r"are gone: there is no .*removed by hand"):
        sinks.publish([handle])


def test_runs_never_write_under_one_name(tmp_path: Path) -> None:
    out = tmp_path / "out"
    to = target(out, compact_bytes=0)
    for run in (1, 2):
        writer = opened(to, run=run)
        writer.write(batch(run))
        sinks.publish([writer.prepare(run)])
    assert sorted(seen(out)) == [[1], [2]]
    first, second = opened(to, run=3), opened(to, run=3)
    first.write(batch(1))
    with pytest.raises(StorageError, match="two tasks write under one name"):
        second.write(batch(1))


def working(path: Path) -> list[str]:
    return sorted(f.name for f in (path.parent / f".{path.name}.job-1-2.stream" / "work").iterdir())


def test_what_a_killed_task_left_goes_when_it_runs_again(tmp_path: Path) -> None:
    """Neither what it was writing nor what no checkpoint had; the files of other tasks stay."""
    out = tmp_path / "out"
    to, other = target(out), TaskId("job-1", 2, 1)
    first, beside = opened(to, run=9), opened(to, other, run=9)
    for writer in (first, beside):
        writer.write(batch(1))
        writer.prepare(1)
        writer.write(batch(2))
    assert len(working(out)) == 4
    again = opened(to, run=10)
    assert [name[:13] for name in working(out)] == ["job-1.2-00001"] * 2
    again.write(batch(3))
    assert len(working(out)) == 3
    opened(to, run=10)
    assert len(working(out)) == 3, "its own run is nobody's leftover"


def test_nothing_comes_back_after_the_end(tmp_path: Path) -> None:
    """An agent that was stopped for long publishes and writes for a job that has ended."""
    out = tmp_path / "out"
    writer = opened(target(out))
    writer.write(batch(1))
    handle = writer.prepare(1)
    sinks.publish([handle])
    sinks.discard(target(out), "job-1", 2)
    sinks.publish([handle])
    with pytest.raises(StorageError):
        writer.write(batch(2))
    writer.abandon()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert seen(out) == [[1]]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    writer = opened(target(tmp_path / "out"))
    writer.write(batch(1))
    writer.write(pa.record_batch({"m": ["x"]}))
    with pytest.raises(DataError):
        writer.prepare(1)
    assert list((tmp_path / ".out.job-1-2.stream" / "work").iterdir()) == []


def test_who_publishes_for_too_long_is_told_of(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(stream_folders, "LOCK_S", 0.05)
    to = target(tmp_path / "out")
    writer = opened(to)
    writer.write(batch(1))
    handle = writer.prepare(1)
    with (
        stream_folders.Folders.of(to.path, "job-1", 2).locked(),
        pytest.raises(StorageError, match="another process has been publishing"),
    ):
        sinks.publish([handle])
    sinks.publish([handle])
    assert seen(tmp_path / "out") == [[1]]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"format": "xml"}, ConfigError, "no file format 'xml'"),
        ({"roll_rows": -1}, ConfigError, "roll_rows can't be negative"),
        ({"options": (("colour", "red"),)}, ConfigError, "no option 'colour'"),
        ({"path": "/nowhere/at/all"}, NotFoundError, "no folder /nowhere/at"),
        ({"path": __file__}, PlanError, "is a file"),
    ],
)
def test_refusals(tmp_path: Path, change, error, message) -> None:
    with pytest.raises(error, match=message):
        check_stream_target(
            StreamFileTarget(**{"format": "csv", "path": str(tmp_path / "out"), **change}), SCHEMA
        )


def test_a_stream_overwrites_no_dataset() -> None:
    with pytest.raises(PlanError, match="drop it"):
        check_stream_target(DatasetTarget("d", mode="overwrite"), SCHEMA)


def test_columns_that_a_format_can_not_hold_are_refused(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.list_(pa.int8()))])
    with pytest.raises(PlanError, match="can't hold column 'a'"):
        open_stream_sink(
            StreamFileTarget("csv", str(tmp_path / "o")), schema, TASK, 1, SinkStart(1)
        )
