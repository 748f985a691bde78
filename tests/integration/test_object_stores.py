"""Streams whose checkpoints lie in a real object store: stopped, killed, refused and healed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fabric
from fabric import Process, streams
from fabric.checkpoint.manifest import Manifest
from fabric.checkpoint.places import storage_at
from fabric.checkpoint.pointer import read_pointer
from fabric.clients.cli.main import main
from fabric.clients.dataframe.frame import DataFrame
from fabric.clients.session.session import Session
from fabric.config import StateBackend
from fabric.errors import FencedError, StorageError
from fabric.object_store import Bucket
from tests.checkpoint.test_pointer import JOB, manifest
from tests.services.versitygw import Versitygw, environment, object_store
from tests.support.held import held
from tests.support.local import local_fabric
from tests.support.wait import wait_until

N_ROWS = 4_000
N_LONG = 1_000_000
"""Of a stream that is ended before, or has no rate in the end."""


def bucket_in(folder: Path) -> str:
    """The URL of a new bucket, with a prefix."""
    name = f"b{uuid.uuid4().hex[:12]}"
    (folder / name).mkdir()
    return f"s3://{name}/streams"


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> str:
    address, folder = object_store()
    for name, value in environment(address).items():
        monkeypatch.setenv(name, value)
    return bucket_in(folder)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[Versitygw]:
    """A store to be broken."""
    with Versitygw() as server:
        for name, value in environment(server.address.split()[0]).items():
            monkeypatch.setenv(name, value)
        yield server


def counted(session: Session, rows_per_s: int = 0, n_rows: int = N_ROWS) -> DataFrame:
    made = streams.generator(
        n_rows=n_rows, n_splits=2, n_keys=20, rows_per_s=rows_per_s, session=session
    )
    return made.with_watermark("ts", "1 second").group_by("key").window("1 hour").count()


def total(out: Path) -> int:
    return sum(fabric.read_parquet(out).collect()["count"].to_pylist())


def complete(job: fabric.Job) -> int:
    """The newest checkpoint whose rows are out."""
    done = [one.checkpoint for one in job.checkpoints() if one.state in ("complete", "published")]
    return max(done, default=0)


@pytest.mark.parametrize("state", ["memory", "arrow", "rocksdb"])
def test_a_stream_goes_on_from_a_store(url: str, tmp_path: Path, state: str) -> None:
    out = tmp_path / "out"
    with fabric.connect() as session:
        session.checkpoints(interval_s=0.3, folder=url, state=state)  # type: ignore[arg-type]
        made = counted(session, rows_per_s=400, n_rows=N_LONG)
        job = made.write_stream(out, name="clicks")
        wait_until(lambda: complete(job) > 1, 60)
        job.savepoint("monday")
        assert job.stop().state == "finished"
    with fabric.connect() as session:
        session.checkpoints(interval_s=0.3, folder=url)
        (kept,) = session.savepoints()
        assert kept.name == "monday"
        job = counted(session, n_rows=N_LONG).write_stream(out, name="clicks")
        assert job.status.stream.checkpoint > 1
        job.wait()
        (known,) = session.streams()
        assert known.ended
    assert total(out) == N_LONG


@pytest.mark.parametrize(("state", "begins"), [
    ("memory", "folder in folder"), ("arrow", "folder in store"), ("rocksdb", "url in folder"),
    ("arrow", "url in folder"), ("rocksdb", "folder in store"),
])  # fmt: skip
def test_a_stream_begins_with_a_savepoint_of_another_place(
    url: str, tmp_path: Path, state: StateBackend, begins: str
) -> None:
    """One of a store, exported to a folder or by its URL; nothing is lost or doubled."""
    what, _, where = begins.split()
    with fabric.connect() as session:
        session.checkpoints(interval_s=0.3, folder=url, state=state, state_memory="1 B")
        job = totals(session, rows_per_s=400).write_stream(tmp_path / "first", name="clicks")
        wait_until(lambda: complete(job) > 1, 60)
        job.stop(savepoint="monday")
        (kept,) = session.savepoints()
        session.drop_stream("clicks")
    place, folder = kept.folder, tmp_path / "exported"
    assert place.startswith(url)
    if what == "folder":
        assert main(["savepoints", "export", place, str(folder)]) == 0
        storage_at(url).bucket.remove(Bucket(url).sizes(""))  # type: ignore[union-attr]
        place = str(folder)
    with fabric.connect(parallelism=3) as session:
        at = f"{url}-other" if where == "store" else str(tmp_path / "checkpoints")
        session.checkpoints(interval_s=0.3, folder=at)
        job = totals(session).write_stream(tmp_path / "then", name="clicks", restore=place)
        assert job.status.stream.savepoint == "monday"
        job.wait()
    found = fabric.read_parquet(tmp_path / "then").group_by("key").agg(n=fabric.col("n").max())
    assert sum(found.collect()["n"].to_pylist()) == N_LONG


def totals(session: Session, rows_per_s: int = 0) -> DataFrame:
    """How many rows each key has had: by an aggregate, then by a function."""
    made = streams.generator(
        n_rows=N_LONG, n_splits=2, n_keys=20, rows_per_s=rows_per_s, session=session
    )
    first = made.with_watermark("ts", "1 second").group_by("key").window("1 hour").count()
    return first.process(
        Added(), keys="key", schema={"key": "int64", "n": "int64"},
        state={"n": streams.value_state("int64")},
    )  # fmt: skip


class Added(Process):
    """The sum of the counts of each key so far."""

    def on_rows(self, ctx: Any, key: int, rows: pa.RecordBatch) -> Iterator[dict[str, int]]:
        state = ctx.state("n")
        state.put((state.get() or 0) + sum(rows["count"].to_pylist()))
        yield {"key": key, "n": state.get()}


def test_agents_and_a_coordinator_die(url: str, tmp_path: Path) -> None:
    """All of a fabric has its checkpoints in the store, with no folder that its hosts share."""
    out = tmp_path / "out"
    settings = {
        "FABRIC_CHECKPOINT_FOLDER": url, "FABRIC_CHECKPOINT_INTERVAL_S": "0.3",
        "FABRIC_CHECKPOINT_STATE": "arrow",
    }  # fmt: skip
    with (
        local_fabric(2, environ=settings) as running,
        fabric.connect(f"fabric://{running.address}", token=running.token) as session,
    ):
        with running.held():
            job = counted(session, rows_per_s=1_000).write_stream(out, name="clicks")
            wait_until(lambda: complete(job) > 0, 60)
            running.kill(0)
            running.restart(0)
            before = complete(job)
            wait_until(lambda: complete(job) > before, 60)
            running.kill_coordinator()
            running.start_coordinator()
        job.wait()
    assert total(out) == N_ROWS


SEEN = "FABRIC_AGENT_SLOT_ENVIRONMENT"


class Counted(Process):
    """How many rows each key has had so far."""

    def on_rows(self, ctx: Any, key: int, rows: pa.RecordBatch) -> Iterator[dict[str, int]]:
        state = ctx.state("n")
        state.put((state.get() or 0) + len(rows))
        yield {"key": key, "n": state.get()}


@pytest.mark.parametrize("seen", ["AWS_*", ""])
def test_functions_store_with_what_their_process_sees(url: str, tmp_path: Path, seen: str) -> None:
    settings = {SEEN: seen, "FABRIC_CHECKPOINT_INTERVAL_S": "0.3"}
    with (
        local_fabric(1, environ=settings) as running,
        fabric.connect(f"fabric://{running.address}", token=running.token) as session,
    ):
        session.checkpoints(folder=url)
        made = streams.generator(n_rows=N_LONG, n_keys=5, rows_per_s=200, session=session)
        counts = made.process(
            Counted(), keys="key", schema={"key": "int64", "n": "int64"},
            state={"n": streams.value_state("int64")},
        )  # fmt: skip
        job = counts.write_stream(tmp_path / "out")
        if seen:
            wait_until(lambda: complete(job) > 1, 60)
            assert job.savepoint("kept").rows == 5  # which that process counts
        else:
            wait_until(lambda: any(SEEN in one.reason for one in job.checkpoints()))
        job.cancel()


def test_a_wrong_secret_is_refused_by_name(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
    with fabric.connect() as session:
        session.checkpoints(interval_s=0.3, folder=url)
        with pytest.raises(
            StorageError, match=r"the store refuses .*SignatureDoesNotMatch"
        ) as caught:
            counted(session).write_stream(tmp_path / "out", name="clicks")
    assert "wrong-secret" not in str(caught.value)


def test_a_secret_that_is_revoked_while_a_stream_runs(own: Versitygw, tmp_path: Path) -> None:
    """The job lives, says why it has no checkpoints, and makes the next one when it may."""
    url = bucket_in(own.folder / "buckets")
    with fabric.connect() as session:
        session.checkpoints(interval_s=0.3, folder=url, timeout_s=10)
        job = counted(session, rows_per_s=100, n_rows=N_LONG).write_stream(tmp_path / "out")
        wait_until(lambda: complete(job) > 0, 60)
        own.stop()
        own.secret = "another-secret"
        own.start()
        wait_until(lambda: any("refuses" in one.reason for one in job.checkpoints()), 60)
        before = complete(job)
        own.stop()
        own.secret = "fabric-secret"
        own.start()
        wait_until(lambda: complete(job) > before, 60)
        assert "running" in str(job.status)
        job.cancel()


def test_a_store_that_is_killed_and_comes_back(own: Versitygw, tmp_path: Path) -> None:
    url = bucket_in(own.folder / "buckets")
    with fabric.connect() as session:
        session.checkpoints(interval_s=0.3, folder=url, timeout_s=30)
        with held(tmp_path / "held"):
            job = counted(session, rows_per_s=1_000).write_stream(tmp_path / "out")
            wait_until(lambda: complete(job) > 0, 60)
            own.kill()
            own.start()
            before = complete(job)
            wait_until(lambda: complete(job) > before, 60)
        job.wait()
    assert total(tmp_path / "out") == N_ROWS


def test_state_is_read_from_a_store(url: str) -> None:
    with fabric.connect() as session:
        session.checkpoints(interval_s=0.3, folder=url)
        keyed = counted(session, rows_per_s=400, n_rows=N_LONG).named("counts")
        job = keyed.write_stream(streams.to_blackhole())
        wait_until(lambda: complete(job) > 0, 60)
        state = job.state("counts")
        rows = state.table()
        assert set(rows["key"].to_pylist()) <= set(range(20))
        assert sum(rows["count"].to_pylist()) > 0
        key = rows["key"][0].as_py()
        assert {row["key"] for row in state.get(key)} == {key}
        job.cancel()


def test_a_bucket_that_is_not_there(url: str, tmp_path: Path) -> None:
    with fabric.connect() as session:
        session.checkpoints(folder="s3://no-such-bucket/x")
        with pytest.raises(StorageError, match="there is no such bucket; create it"):
            counted(session).write_stream(tmp_path / "out", name="clicks")


def test_of_two_writers_one_wins(url: str) -> None:
    bucket = Bucket(url)
    tags = [bucket.create("a", b"%d" % number) for number in range(4)]
    assert [tag is not None for tag in tags] == [True, False, False, False]
    assert tags[0] is not None
    assert bucket.replace("a", b"9", tags[0]) is not None
    assert bucket.replace("a", b"8", tags[0]) is None
    assert bucket.read("a")[0] == b"9"


def test_a_deposed_coordinator_writes_no_checkpoint(url: str) -> None:
    storage, bucket = storage_at(url), Bucket(url)
    made: list[Manifest] = [manifest(1, 1), manifest(2, 2)]
    for one in made:
        storage.commit_manifest(one, JOB)
    for late in (2, 3):
        with pytest.raises(FencedError, match="this coordinator has been superseded"):
            storage.commit_manifest(manifest(late, 1), JOB)
    assert read_pointer(bucket, JOB)[0].checkpoint == 2
    assert storage.checkpoints(JOB) == [1, 2]
