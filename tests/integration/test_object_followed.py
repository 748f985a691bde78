"""A prefix of a real object store that is followed: each row once, whatever dies meanwhile."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import fabric
from fabric import streams
from fabric.errors import DataError, StorageError
from fabric.io.sinks.json_texts import lines
from fabric.object_store import Bucket
from tests.services.versitygw import KEY, SECRET
from tests.support.buckets import put, url_of
from tests.support.local import local_fabric
from tests.support.wait import wait_until

N_ROWS = 200
COLUMNS, SCHEMA = {"id": "int64"}, pa.schema([("id", pa.int64())])


def saved(bucket: Path, number: int) -> str:
    """An object of so many rows, that no other has."""
    rows = pa.record_batch({"id": range(number * N_ROWS, (number + 1) * N_ROWS)})
    return put(bucket, f"in/{number:05d}.ndjson", lines(rows))


def seen(folder: Path) -> list[int]:
    files = sorted(map(str, folder.glob("*.parquet")))
    return sorted(ds.dataset(files, SCHEMA).to_table()["id"].to_pylist()) if files else []


def has(folder: Path, n_rows: int) -> bool:
    return seen(folder)[-1:] == [n_rows - 1]


def goes_on(job: fabric.Job, before: int) -> bool:
    return published(job) > before


def published(job: fabric.Job) -> int:
    return max((one.checkpoint for one in job.checkpoints() if one.state == "published"), default=0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where rows go, with checkpoints beside it."""
    return tmp_path / "out"


def test_a_stream_goes_on(bucket: Path, folder: Path) -> None:
    for number in range(3):
        saved(bucket, number)
    for more, until in ((3, ""), (4, ""), (5, "now")):
        with fabric.connect() as session:
            session.checkpoints(interval_s=0.2, folder=folder.parent / "checkpoints")
            read = fabric.read_stream(
                url_of(bucket, "in"), poll="200ms", until=until, session=session
            )
            saved(bucket, more)
            job = read.write_stream(folder, name="copied")
            if until:
                job.wait()
                break
            wait_until(partial(has, folder, (more + 1) * N_ROWS), 60)
            job.stop()
    assert seen(folder) == list(range(6 * N_ROWS))


def test_agents_die(bucket: Path, folder: Path) -> None:
    """With options instead of an environment, and a store that has no folder in common."""
    settings = {
        "FABRIC_CHECKPOINT_FOLDER": str(folder.parent / "checkpoints"),
        "FABRIC_CHECKPOINT_INTERVAL_S": "0.3", "AWS_SECRET_ACCESS_KEY": "another-secret",
    }  # fmt: skip
    options = {"access_key_id": KEY, "secret_access_key": SECRET}
    with (
        local_fabric(2, environ=settings) as running,
        fabric.connect(f"fabric://{running.address}", token=running.token) as session,
    ):
        read = fabric.read_stream(
            url_of(bucket, "in"), format="json", schema=COLUMNS, n_splits=3, poll="100ms",
            storage_options=options, session=session,
        )  # fmt: skip
        assert SECRET not in read.explain()
        job = read.write_stream(folder)
        for number in range(12):
            saved(bucket, number)
            if number in (4, 8):
                before = published(job)
                wait_until(partial(goes_on, job, before), 60)
                running.kill(number // 8)
                running.restart(number // 8)
        wait_until(lambda: len(seen(folder)) >= 12 * N_ROWS, 90)
        job.stop()
        assert not [log for log in running.agents if SECRET in log.log.read_text()]
    assert seen(folder) == list(range(12 * N_ROWS))


def test_a_wrong_secret_and_an_object_that_grows(bucket: Path, folder: Path) -> None:
    url = saved(bucket, 0)
    with pytest.raises(StorageError, match=r"the store refuses .*storage_options") as refused:
        streams.files(url_of(bucket, "in"), storage_options={"key": KEY, "secret": "wrong-secret"})
    assert "wrong-secret" not in str(refused.value)
    with fabric.connect() as session:
        read = streams.files(url_of(bucket, "in"), poll="100ms", session=session)
        session.checkpoints(interval_s=0.2, folder=folder.parent / "checkpoints")
        job = read.write_stream(folder)
        wait_until(lambda: seen(folder) == list(range(N_ROWS)), 60)
        Bucket(url.rpartition("/")[0]).put(url.rpartition("/")[2], b'{"id": 1}\n')
        with pytest.raises(DataError, match="bytes when it was read and has 10"):
            job.wait()


def test_a_bucket_without_an_object_yet(bucket: Path, folder: Path) -> None:
    with fabric.connect() as session:
        session.checkpoints(interval_s=0.2, folder=folder.parent / "checkpoints")
        read = streams.files(
            url_of(bucket), format="json", schema=COLUMNS, poll="100ms", session=session
        )
        job = read.write_stream(folder)
        wait_until(lambda: job.state == "running", 60)
        put(bucket, "k=1/a.ndjson", b'{"id": 7}\n')
        wait_until(lambda: seen(folder) == [7], 60)
        job.stop()
