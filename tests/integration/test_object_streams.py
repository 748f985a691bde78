"""Streams that write files to a real object store: each row once, whatever is killed."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import fabric
from fabric import streams
from fabric.clients.dataframe.frame import DataFrame
from fabric.clients.session.session import Session
from fabric.errors import NotFoundError, PlanError, StorageAwayError, StorageError
from fabric.ids import TaskId
from fabric.io import sinks
from fabric.io.sinks import object_stream
from fabric.io.sinks.protocol import SinkStart
from fabric.object_store import Bucket
from fabric.plan.targets import StreamFileTarget
from tests.support.buckets import Crash, crash_at, keys, put, unfinished, url_of
from tests.support.local import local_fabric
from tests.support.wait import wait_until

N_ROWS = 3_000
SCHEMA = pa.schema([("row", pa.int64())])


def made(session: Session, rows_per_s: int = 0, n_rows: int = N_ROWS) -> DataFrame:
    return streams.generator(
        n_rows=n_rows, n_splits=2, n_keys=4, rows_per_s=rows_per_s, session=session
    )


def seen(bucket: Path, key: str = "out") -> list[int]:
    if not (bucket / key).exists():
        return []
    return sorted(ds.dataset(bucket / key, schema=SCHEMA).to_table()["row"].to_pylist())


def complete(job: fabric.Job) -> int:
    done = [one.checkpoint for one in job.checkpoints() if one.state in ("complete", "published")]
    return max(done, default=0)


@pytest.mark.parametrize("format", ["parquet", "csv", "json", "ipc"])
def test_a_stream_goes_on(bucket: Path, tmp_path: Path, format: str) -> None:
    target = streams.to_files(url_of(bucket, "a/out"), format=format, partition_by="key")
    with fabric.connect() as session:
        session.checkpoints(interval_s=0.3, folder=tmp_path)
        job = made(session, 400).write_stream(target, name="clicks")
        wait_until(lambda: complete(job) > 1, 60)
        job.stop()
    with fabric.connect() as session:
        session.checkpoints(interval_s=0.3, folder=tmp_path)
        made(session).write_stream(target, name="clicks").wait()
    read = getattr(fabric, f"read_{format}")(url_of(bucket, "a/out"))
    rows = read.collect()
    assert len(rows) == N_ROWS
    assert len(set(zip(rows["row"].to_pylist(), rows["split"].to_pylist(), strict=True))) == N_ROWS
    assert {key.split("/")[2].partition("=")[0] for key in keys(bucket)} == {"key"}
    assert not unfinished(bucket)


def test_agents_and_a_coordinator_die(bucket: Path) -> None:
    """Checkpoints and files are in the store: no folder is shared."""
    settings = {
        "FABRIC_CHECKPOINT_FOLDER": url_of(bucket, "checkpoints"),
        "FABRIC_CHECKPOINT_INTERVAL_S": "0.3",
    }
    with (
        local_fabric(2, environ=settings) as running,
        fabric.connect(f"fabric://{running.address}", token=running.token) as session,
    ):
        with running.held():
            job = made(session, 300).write_stream(url_of(bucket, "out"), name="clicks")
            wait_until(lambda: complete(job) > 0, 60)
            running.kill(0)
            running.restart(0)
            before = complete(job)
            wait_until(lambda: complete(job) > before, 60)
            running.kill_coordinator()
            running.start_coordinator()
        job.wait()
        rows = session.read_parquet(url_of(bucket, "out")).collect()
    assert len(rows) == N_ROWS
    assert len(set(zip(rows["row"].to_pylist(), rows["split"].to_pylist(), strict=True))) == N_ROWS
    hidden = [key for key in keys(bucket) if re.match(r"\.out", key)]
    assert hidden == []


def test_one_job_writes_a_prefix(bucket: Path) -> None:
    url = url_of(bucket, "out")
    with fabric.connect() as session:
        session.checkpoints(interval_s=0.3)
        job = made(session, 50).write_stream(url)
        wait_until(lambda: complete(job) > 0, 60)
        with pytest.raises(PlanError, match=rf"is written by job {job.id}; a stream writes"):
            made(session).write_stream(url)
        job.cancel()
        with pytest.raises(PlanError, match=rf"holds .*, written by job {job.id}; a stream"):
            made(session).write_stream(url)
        n_rows = len(seen(bucket))
        made(session).write_stream(url, mode="append").wait()
        assert len(seen(bucket)) == n_rows + N_ROWS
        with pytest.raises(PlanError, match="would add csv files"):
            made(session).write_stream(streams.to_files(url, format="csv"), mode="append")
        with pytest.raises(PlanError, match="these rows don't fit"):
            made(session).select("row").write_stream(url, mode="append")
        put(bucket, "one", b"1")
        with pytest.raises(PlanError, match="is an object; a stream writes below a prefix"):
            made(session).write_stream(url_of(bucket, "one"))
        with pytest.raises(PlanError, match="can't write a whole bucket"):
            made(session).write_stream(url_of(bucket))
        with pytest.raises(StorageError, match="there is no such bucket; create it"):
            made(session).write_stream("s3://no-such-bucket-here/out")
        with pytest.raises(PlanError, match="are not merged"):
            streams.to_files(url, compact="1 minute")


class Sink:
    """Two tasks of a sink, as a coordinator knows them."""

    def __init__(self, bucket: Path, key: str) -> None:
        self.target = StreamFileTarget("parquet", url_of(bucket, key), compact_bytes=0)
        self.run = 0

    def prepared(self, *values: int) -> list[bytes]:
        self.run += 1
        handles = []
        for number, value in enumerate(values):
            task = TaskId("job-1", 3, number, self.run)
            writer = sinks.open_stream_sink(self.target, SCHEMA, task, 2, SinkStart(self.run))
            writer.write(pa.record_batch({"row": [value]}, schema=SCHEMA))
            handles.append(writer.prepare(1))
        return handles


def test_a_crash_at_any_step_of_publishing_and_taking_back(
    bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_stream, "HELD_S", -1.0)  # locks of the dead are free
    finished = 0
    for step in range(40):
        key = f"out{step}"
        sink = Sink(bucket, key)
        first = sink.prepared(1, 2)
        sinks.publish(first)
        second = sink.prepared(3, 4)
        finished = 0
        for action, expected in (
            (lambda: sinks.publish(second), [1, 2, 3, 4]),  # noqa: B023
            (lambda: sinks.take_back(second, first), [1, 2]),  # noqa: B023
        ):
            with monkeypatch.context() as patch:
                crash_at(patch, step)
                try:
                    action()
                    finished += 1
                except Crash:
                    assert set(seen(bucket, key)) <= {1, 2, 3, 4}
            action()
            action()
            assert seen(bucket, key) == expected
        sinks.publish(second)  # somebody is late
        assert seen(bucket, key) == [1, 2]
        sinks.discard(sink.target, "job-1", 3)
        assert not [each for each in keys(bucket) if each.startswith(f".{key}.")]
        if finished == 2:
            break
    assert finished == 2
    assert step > 5


def test_what_somebody_removed(bucket: Path) -> None:
    sink = Sink(bucket, "out")
    handles = sink.prepared(1)
    for path in (bucket / "out").parent.glob(".out.*/work/*"):
        path.unlink()
    with pytest.raises(StorageError, match=r"the written rows of s3://.*/out are gone"):
        sinks.publish(handles)
    handles = sink.prepared(2)
    sinks.publish(handles)
    for path in (bucket / "out").glob("*.parquet"):
        path.unlink()
    with pytest.raises(NotFoundError, match="can't be taken out of"):
        sinks.take_back(handles, [])


def test_who_publishes_for_too_long_is_told_of(
    bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_stream, "LOCK_S", 0.2)
    sink = Sink(bucket, "out")
    handles = sink.prepared(1)
    with (
        object_stream.Keys.of(sink.target.path, "job-1", 3).locked(),
        pytest.raises(StorageAwayError, match="another process has been publishing"),
    ):
        sinks.publish(handles)
    sinks.publish(handles)
    assert seen(bucket) == [1]


def test_a_store_without_conditions_is_refused(
    bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those that take every write: two jobs could both have the prefix."""
    sink = Sink(bucket, "out")
    monkeypatch.setattr(Bucket, "create", lambda self, key, data: self.put(key, data) or "tag")
    monkeypatch.setattr(
        Bucket, "replace", lambda self, key, data, tag: self.put(key, data) or "tag"
    )
    with pytest.raises(StorageError, match="ignores conditional writes"):
        sink.prepared(1)
    sinks.discard(sink.target, "job-1", 3)
    assert keys(bucket) == []
