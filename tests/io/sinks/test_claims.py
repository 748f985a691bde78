"""Whose a folder of files is: nobody writes into another job's by accident."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from fabric.errors import PlanError
from fabric.ids import TaskId
from fabric.io import sinks
from fabric.io.sinks import check_stream_target, open_stream_sink
from fabric.io.sinks.protocol import SinkStart
from fabric.plan.targets import StreamFileTarget

SCHEMA = pa.schema([("n", pa.int64())])
ROW = pa.record_batch([[1]], schema=SCHEMA)
KEYED = pa.schema([("n", pa.int64()), ("a=b", pa.string()), ("x", pa.float64())])


def target(folder: Path, **options) -> StreamFileTarget:
    return StreamFileTarget("parquet", str(folder / "out"), **options)


def opened(to: StreamFileTarget, job: str, task: int = 0):
    return open_stream_sink(to, SCHEMA, TaskId(job, 2, task), 2, SinkStart(1))


def written(to: StreamFileTarget, job: str, *, ends: bool = True) -> None:
    writer = opened(to, job)
    writer.write(ROW)
    sinks.publish([writer.prepare(1)])
    if ends:
        sinks.discard(to, job, 2)


def written_by(to: StreamFileTarget, job: str) -> None:
    """Into folders of the values of a column."""
    writer = open_stream_sink(to, KEYED, TaskId(job, 2, 0), 2, SinkStart(1))
    writer.write(pa.record_batch([[1], ["x"], [1.5]], schema=KEYED))
    sinks.publish([writer.prepare(1)])
    sinks.discard(to, job, 2)


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("ends", [True, False])
def test_a_folder_with_rows_of_another_job_is_refused_by_name(tmp_path: Path, ends: bool) -> None:
    to = target(tmp_path)
    written(to, "job-1", ends=ends)
    before = names(tmp_path)
    for refused in (lambda: check_stream_target(to, SCHEMA), lambda: opened(to, "job-2")):
        with pytest.raises(PlanError, match=r"/out .* job job-1; .* mode=\"append\" to add rows"):
            refused()
    assert names(tmp_path) == before
    opened(to, "job-1", 1)  # a task of the same job, and one that begins again
    opened(to, "job-1")


@pytest.mark.parametrize("mode", ["error", "append"])
def test_a_folder_that_a_running_job_has_not_filled_yet_is_refused(
    tmp_path: Path, mode: str
) -> None:
    opened(target(tmp_path, mode=mode), "job-1")
    with pytest.raises(PlanError, match=r"/out is written by job job-1; "):
        check_stream_target(target(tmp_path), SCHEMA)
    with pytest.raises(PlanError, match=r"/out is written by job job-1; "):
        opened(target(tmp_path), "job-2")
    sinks.discard(target(tmp_path, mode=mode), "job-1", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    opened(target(tmp_path), "job-2")


def test_of_jobs_that_begin_at_once_one_gets_the_folder(tmp_path: Path) -> None:
    def begins(job: int, at: threading.Barrier, to: StreamFileTarget) -> int:
        at.wait()
        try:
            opened(to, f"job-{job}")
        except PlanError:
            return 0
        return 1

    n_jobs = 4
    with ThreadPoolExecutor(n_jobs) as threads:
        for n in range(20):
            (folder := tmp_path / str(n)).mkdir()
            at = threading.Barrier(n_jobs)
            one = [threads.submit(begins, job, at, target(folder)) for job in range(n_jobs)]
            assert sum(found.result() for found in one) == 1


@pytest.mark.parametrize("name", ["part-0.parquet", "notes.txt", "a=1"])
def test_files_that_no_stream_wrote_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).touch()
    with pytest.raises(PlanError, match=rf"/out holds {name}; a stream writes a folder of its own"):
        check_stream_target(target(tmp_path), SCHEMA)
    with pytest.raises(PlanError, match=f"holds {name};"):
        opened(target(tmp_path), "job-1")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    written(target(tmp_path, mode="append"), "job-1")
    assert len(list((tmp_path / "out").iterdir())) == 2


@pytest.mark.parametrize("name", ["mine.csv", ".bashrc", "a=1/mine.csv", ".ssh/", "../.out.writer"])
def test_only_what_jobs_wrote_is_said_to_be_removed(tmp_path: Path, name: str) -> None:
    to = target(tmp_path, partition_by=("a=b", "n"))
    written_by(to, "job-1")
    with pytest.raises(PlanError, match=rf"begin anew: rm -r {tmp_path}/out\. A stream"):
        check_stream_target(to, KEYED)
    mine = tmp_path / "out" / name
    (mine if name.endswith("/") else mine.parent).mkdir(exist_ok=True)
    if not name.endswith("/"):
        mine.write_text("mine")
    with pytest.raises(PlanError, match="folder, one that is empty or not there yet;") as caught:
        check_stream_target(to, KEYED)
    assert "rm -r" not in str(caught.value)


def test_a_folder_where_nothing_is_to_be_seen_is_free(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".hidden").touch()
    (tmp_path / "out" / "_SUCCESS").touch()  # of Spark; readers pass over it
    (tmp_path / ".out.more.job-9-0.stream").mkdir()  # of a stream into `out.more`
    check_stream_target(target(tmp_path), SCHEMA)
    written(target(tmp_path), "job-1")


def test_who_appends_writes_beside_a_job_that_does_not(tmp_path: Path) -> None:
    alone, beside = target(tmp_path), target(tmp_path, mode="append")
    writer = opened(alone, "job-1")
    check_stream_target(beside, SCHEMA)
    written(beside, "job-2")
    writer.write(ROW)
    sinks.publish([writer.prepare(1)])
    opened(alone, "job-1")  # an attempt that follows
    sinks.discard(alone, "job-1", 2)
    opened(alone, "job-1")  # restarted once it had ended
    assert len(names(tmp_path / "out")) == 2


@pytest.mark.parametrize("first", ["link", "out"])
@pytest.mark.parametrize("mode", ["error", "append"])
def test_a_link_to_a_folder_is_that_folder(tmp_path: Path, first: str, mode: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out")  # which may not be there yet
    (second,) = {"link", "out"} - {first}
    opened(StreamFileTarget("parquet", str(tmp_path / first), mode=mode), "job-1")
    to = StreamFileTarget("parquet", str(tmp_path / second))
    for refused in (lambda: check_stream_target(to, SCHEMA), lambda: opened(to, "job-2")):
        with pytest.raises(PlanError, match=r"/out is written by job job-1; "):
            refused()
    sinks.discard(StreamFileTarget("parquet", str(tmp_path / first), mode=mode), "job-1", 2)
    written(to, "job-2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "out"]
    assert len(list((tmp_path / "out").iterdir())) == 1


@pytest.mark.parametrize("format", ["parquet", "ipc", "csv", "json"])
def test_what_is_appended_has_the_types_that_are_there(tmp_path: Path, format: str) -> None:
    to = StreamFileTarget(format, str(tmp_path / "out"), mode="append")
    written(to, "job-1")
    check_stream_target(to, SCHEMA)
    for dtype in (pa.string(), pa.bool_(), pa.timestamp("us")):
        with pytest.raises(PlanError, match=r"don't fit .*/out: column 'n' is .*; \.cast"):
            check_stream_target(to, pa.schema([("n", dtype)]))
    for other in (pa.schema([("z", pa.int64())]), SCHEMA.append(pa.field("z", pa.int64()))):
        with pytest.raises(PlanError, match=r"it has (no|another) column|has the columns n, "):
            check_stream_target(to, other)


def test_a_file_of_that_name_is_nobodys_claim(tmp_path: Path) -> None:
    (tmp_path / ".out.writer").write_text("mine")
    with pytest.raises(PlanError, match=r"/out is written; "):
        opened(target(tmp_path), "job-1")
    sinks.discard(target(tmp_path), "job-1", 2)
    assert (tmp_path / ".out.writer").read_text() == "mine"


def test_rows_in_folders_below_are_seen(tmp_path: Path) -> None:
    to = target(tmp_path, partition_by=("a=b", "n"))
    written_by(to, "job-1")
    assert not [path for path in (tmp_path / "out").iterdir() if path.is_file()]
    with pytest.raises(PlanError, match=r"/out holds a%3Db=x/n=1/job-1\S+, written by job job-1; "):
        check_stream_target(to, KEYED)
    with pytest.raises(PlanError, match="holds a%3Db=x/n=1/job-1"):
        written_by(to, "job-2")


def test_who_appends_keeps_to_the_folders_that_are_there(tmp_path: Path) -> None:
    to = target(tmp_path, partition_by=("a=b", "n"), mode="append")
    written_by(to, "job-1")
    check_stream_target(to, KEYED)
    written_by(to, "job-2")
    assert len(names(tmp_path / "out")) == 2
    other = target(tmp_path, partition_by=("n",), mode="append")
    with pytest.raises(
        PlanError, match=r"is partitioned by a=b, n; append with partition_by=\['a=b', 'n'\]"
    ):
        check_stream_target(other, KEYED)
    renamed = pa.schema([*KEYED][:2]).append(pa.field("y", pa.float64()))
    with pytest.raises(PlanError, match=r"don't fit .*/out: it has no column 'x', in .*parquet"):
        check_stream_target(to, renamed)
