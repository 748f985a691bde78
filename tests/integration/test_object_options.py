"""A real object store with options instead of an environment: readers, writers, streams, agents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import fabric
from fabric import col, streams
from fabric.errors import StorageError
from fabric.ids import TaskId
from fabric.io import sinks
from fabric.io.object_options import set_apart
from fabric.plan.targets import FileTarget
from tests.services.versitygw import KEY, SECRET, environment, object_store
from tests.support.buckets import keys, new_bucket, url_of
from tests.support.local import local_fabric
from tests.support.wait import wait_until

ROWS = pa.table({"id": range(100), "k": [f"k{n % 3}" for n in range(100)]})
FORMATS = ["parquet", "csv", "json", "ipc"]
N_ROWS = 2_000


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bucket of which the environment knows nothing; what it knows is wrong."""
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "another-token")
    return new_bucket()


@pytest.fixture
def options() -> dict[str, str]:
    """By which the store is found."""
    url, _ = object_store()
    return {
        "endpoint": url, "region": "us-east-1", "access_key_id": KEY, "secret_access_key": SECRET,
    }  # fmt: skip


def ids(rows: fabric.DataFrame) -> list[int]:
    return sorted(rows.collect()["id"].to_pylist())


@pytest.mark.parametrize("format", FORMATS)
def test_readers_and_writers(bucket: Path, options: dict[str, str], format: str) -> None:
    url, rows = url_of(bucket, "out"), fabric.DataFrame(ROWS)
    write: Any = getattr(rows, f"write_{format}")
    read: Any = getattr(fabric, f"read_{format}")
    write(url, storage_options=options)
    write(url, storage_options=options, mode="append")
    found = read(url, storage_options=options)
    assert ids(found) == sorted([*range(100)] * 2)
    assert found.filter(col("id") >= 90).count() == 20
    for text in (found.explain(), repr(found.plan), str(found)):
        assert SECRET not in text
        assert KEY not in text
    write(url, storage_options=options, mode="overwrite", partition_by="k")
    assert ids(read(url + "/k=*", storage_options=options)) == [*range(100)]
    one = f"{url}-one.{'arrow' if format == 'ipc' else format}"
    write(one, storage_options=options)
    again = streams.replay(read(one, storage_options=options), "id", by_file=True)
    assert again.collect()["id"].to_pylist() == [*range(100)]
    assert not [key for key in keys(bucket) if "/." in f"/{key}"]


def test_each_reader_has_its_own(bucket: Path, options: dict[str, str]) -> None:
    """What one may see is nothing that another is shown, though both look at the same object."""
    url = url_of(bucket, "a.parquet")
    fabric.DataFrame(ROWS).write_parquet(url, storage_options=options)
    right = fabric.read_parquet(url, storage_options=options)
    wrong = {**options, "secret_access_key": "wrong-secret"}
    for refused in (
        lambda: fabric.read_parquet(url, storage_options=wrong),
        lambda: fabric.DataFrame(ROWS).write_parquet(url + "2", storage_options=wrong),
        lambda: streams.generator(n_rows=1).write_stream(url + "2", storage_options=wrong),
    ):
        with pytest.raises(
            StorageError, match=r"the store refuses \(status 403.*storage_options"
        ) as caught:
            refused()
        assert "wrong-secret" not in str(caught.value)
    with pytest.raises(StorageError, match="the store refuses"):
        fabric.read_parquet(url, storage_options={"endpoint": options["endpoint"], "anon": True})
    assert ids(right) == [*range(100)]


def test_the_rest_is_the_environment_s(
    bucket: Path, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(options["endpoint"]).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_SESSION_TOKEN")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")  # the store refuses that
    url = url_of(bucket, "a.csv")
    rows = fabric.DataFrame(ROWS)
    rows.write_csv(url, storage_options={"region": "us-east-1"})
    assert ids(fabric.read_csv(url, storage_options={"aws_region": "us-east-1"})) == [*range(100)]


@fabric.udf(returns="int64", compile=False)
def twice(values: Any) -> Any:
    return values * 2


def copied(session: Any, bucket: Path, options: Mapping[str, str]) -> None:
    rows = session.read_arrow(ROWS)
    rows.write_parquet(url_of(bucket, "a"), storage_options=options)
    read = session.read_parquet(url_of(bucket, "a"), storage_options=options)
    doubled = read.with_columns(twice=twice(col("id")))
    doubled.write_csv(url_of(bucket, "b"), storage_options=options)
    found = session.read_csv(url_of(bucket, "b"), storage_options=options)
    assert sorted(found.collect()["twice"].to_pylist()) == [2 * n for n in range(100)]


def test_agents(bucket: Path, options: dict[str, str], tmp_path: Path) -> None:
    """Also in a process of Python functions, which sees nothing of the agent's environment."""
    with (
        local_fabric(2) as running,
        fabric.connect(f"fabric://{running.address}", token=running.token) as session,
    ):
        copied(session, bucket, options)
        rows = session.read_parquet(url_of(bucket, "a"), storage_options=options)
        assert ids(rows) == [*range(100)]
        logs = [child.log.read_text() for child in (running.coordinator, *running.agents) if child]
    assert not [log for log in logs if SECRET in log or KEY in log]


def test_a_stream_and_what_is_written_down_of_it(
    bucket: Path, options: dict[str, str], tmp_path: Path
) -> None:
    settings = {"FABRIC_CHECKPOINT_FOLDER": str(tmp_path), "FABRIC_CHECKPOINT_INTERVAL_S": "0.3"}
    with (
        local_fabric(2, environ=settings) as running,
        fabric.connect(f"fabric://{running.address}", token=running.token) as session,
    ):
        target = streams.to_files(url_of(bucket, "out"), storage_options=options)
        made = streams.generator(n_rows=N_ROWS, rows_per_s=500, session=session)
        with running.held():
            job = made.write_stream(target, name="clicks")
            wait_until(lambda: any(each.state == "published" for each in job.checkpoints()))
            running.kill(0)
            running.restart(0)
            job.savepoint("kept")
        job.wait()
        said = [str(job.events()), str(job.status), job.explain()]
    rows = ds.dataset(bucket / "out").to_table()
    assert len(set(zip(rows["split"].to_pylist(), rows["row"].to_pylist(), strict=True))) == N_ROWS
    assert len(rows) == N_ROWS
    assert [key for key in keys(bucket) if "/." in f"/{key}"] == []
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert written
    for text in [*written, *(each.encode() for each in said)]:
        assert SECRET.encode() not in text
        assert KEY.encode() not in text


def test_a_handle_has_none_and_needs_its_target(bucket: Path, options: dict[str, str]) -> None:
    url = url_of(bucket, "out")
    settings, secrets = set_apart(options, [url], "write_csv")
    target = FileTarget("csv", url, single=False, settings=settings, secrets=secrets)
    schema = pa.schema([("id", pa.int64())])
    sink = sinks.open_sink(target, schema, TaskId("job-1", 0, 0, 0), 1)
    sink.write(pa.record_batch([[1]], schema=schema))
    handle = sink.prepare()
    assert SECRET.encode() not in handle
    sinks.abandon([handle])  # who was not told the options leaves it to who was
    sinks.drop([handle])
    assert len(keys(bucket)) == 1
    sinks.publish([handle], target)
    assert [key for key in keys(bucket) if key.endswith(".csv")]
    sinks.discard(target, "job-1", 0)
