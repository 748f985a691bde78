"""A stream that is stopped, drained, or kept as a savepoint: no row is lost, none comes twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

import pytest

import fabric
from fabric import streams
from fabric.checkpoint.savepoint import Savepoint
from fabric.checkpoint.savepoints import Savepoints
from fabric.clients.cli.main import main
from fabric.clients.dataframe.frame import DataFrame
from fabric.clients.session.session import Session
from fabric.control import control_pb2 as pb
from fabric.errors import CancelledError, ConfigError, NotFoundError
from tests.support.held import held
from tests.support.local import LocalFabric
from tests.support.wait import wait_until

N_ROWS = 4_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


@pytest.fixture
def session(root: Path) -> Iterator[Session]:
    with fabric.connect() as made:
        yield made.checkpoints(interval_s=3600, folder=str(root))


def counted(session: Session, n_rows: int = N_ROWS, rows_per_s: int = 0) -> DataFrame:
    made = streams.generator(
        n_rows=n_rows, n_splits=2, n_keys=20, rows_per_s=rows_per_s, session=session
    )
    return made.with_watermark("ts", "1 second").group_by("key").window("1 hour").count()


def in_two_levels(session: Session, rows_per_s: int = 0) -> DataFrame:
    """Windows of keys, and of keys with something beside them; the rows of both by such keys."""
    made = streams.generator(
        n_rows=N_ROWS, n_splits=2, n_keys=200, seed=3, rows_per_s=rows_per_s, session=session,
        start=datetime(2024, 5, 1, tzinfo=UTC),
    )  # fmt: skip
    timed = made.with_watermark("ts", "1 ms")
    inner = timed.group_by("key").window("20 ms").agg(n=fabric.count())
    outer = inner.with_columns(odd=fabric.col("n") % 2).group_by("key", "odd")
    return outer.window("1 hour").agg(n=fabric.col("n").sum())


def begun(
    session: Session, out: Path, name: str | None = "clicks", rows_per_s: int = 20
) -> fabric.Job:
    """A stream that has read some of its rows, into windows that are open for an hour.

    It would take minutes to come to its end, so it does not while a test looks at it.
    """
    job = counted(session, rows_per_s=rows_per_s).write_stream(out, name=name)
    wait_until(lambda: n_read(job) > 0, 60)
    return job


def n_read(job: fabric.Job) -> int:
    return max(stage.rows_in for stage in job.status.stages)


def total(out: Path) -> int:
    if not any(out.glob("**/*.parquet")):
        return 0
    return sum(fabric.read_parquet(out).collect()["count"].to_pylist())


def savepoint(root: Path, name: str) -> Savepoint:
    return Savepoints(root).load(name)


def test_a_stopped_stream_goes_on_where_it_was(
    session: Session, tmp_path: Path, root: Path
) -> None:
    out = tmp_path / "out"
    first = begun(session, out)
    assert first.stop().state == "finished"
    status = first.status
    assert status.stopped_at == 1
    assert f": stopped at checkpoint {status.stopped_at}, after " in repr(first)
    assert first.error is None
    assert total(out) == 0, "its windows stay open"
    second = counted(session).write_stream(out, name="clicks")
    assert second.status.stream.checkpoint == status.stopped_at
    assert second.wait().status.stopped_at == 0
    assert total(out) == N_ROWS
    with pytest.raises(ConfigError, match="'clicks' came to its end"):
        counted(session).write_stream(out, name="clicks")


def test_a_stream_without_a_name_goes_on_by_restart(session: Session, tmp_path: Path) -> None:
    with held(tmp_path / "held"):
        job = begun(session, tmp_path / "out", None, rows_per_s=2_000)
        job.stop()
    with pytest.raises(ConfigError, match="was stopped at checkpoint 1"):
        job.collect()
    assert job.restart().wait().status.stopped_at == 0
    assert total(tmp_path / "out") == N_ROWS


def test_drain_closes_the_windows_and_the_stream_is_over(
    session: Session, tmp_path: Path, root: Path
) -> None:
    out = tmp_path / "out"
    job = begun(session, out)
    assert job.stop("before", drain=True).state == "finished"
    assert job.status.stopped_at == 0
    tasks = savepoint(root, "before").manifest.tasks
    kept = sum(json.loads(at)["row"] for task in tasks for _, at in task.positions)
    assert 0 < kept <= total(out) < N_ROWS
    assert total(out) == n_read(job)
    with pytest.raises(ConfigError, match="'clicks' came to its end"):
        counted(session).write_stream(out, name="clicks")


def test_a_savepoint_is_taken_while_the_stream_goes_on(
    session: Session, tmp_path: Path, root: Path
) -> None:
    job = begun(session, tmp_path / "out")
    made = job.savepoint("monday")
    assert (made.name, made.checkpoint, made.stream, made.states) == ("monday", 1, "clicks", 1)
    assert repr(made).startswith("SavepointInfo('monday', checkpoint 1 of stream 'clicks', 1 state")
    assert job.state == "running"
    found = savepoint(root, "monday")
    Savepoints(root).verify(found)
    assert (found.manifest.job, found.n_bytes) == (job.id, made.bytes)
    with pytest.raises(ConfigError, match="there is a savepoint 'monday' already: checkpoint 1"):
        job.savepoint("monday")
    assert job.savepoint("tuesday").checkpoint == 2
    (told,) = session.control.list_savepoints(
        pb.SavepointsRequest(name="tuesday", checkpoint=pb.Checkpointing(folder=str(root)))
    ).savepoints
    assert told.checkpoint == 2
    job.cancel()


def test_what_can_not_be_is_refused_by_name(session: Session, tmp_path: Path) -> None:
    batch = session.submit(fabric.DataFrame({"a": [1]}))
    for call in (batch.stop, lambda: batch.savepoint("a")):
        with pytest.raises(ConfigError, match=f"job {batch.id} is no stream"):
            call()
    job = begun(session, tmp_path / "out")
    for name in ("", " a", "a\nb", "x" * 1000):
        with pytest.raises(ConfigError):
            job.savepoint(name)
    assert job.state == "running"
    job.cancel()
    with pytest.raises(ConfigError, match=f"job {job.id} is cancelled: a stream takes checkpoints"):
        job.stop()
    job.release()
    with pytest.raises(NotFoundError, match=f"job {job.id} was released"):
        job.savepoint("a")


def test_stop_twice_is_fine_and_a_stopped_stream_can_be_kept(
    session: Session, tmp_path: Path, root: Path
) -> None:
    job = begun(session, tmp_path / "out")
    others = [Thread(target=job.stop) for _ in range(3)]
    waits = Thread(target=job.wait)
    for thread in (*others, waits):
        thread.start()
    for thread in (*others, waits):
        thread.join(60)
        assert not thread.is_alive()
    assert job.stop().status.stopped_at
    assert job.savepoint("last").checkpoint == job.status.stopped_at
    with pytest.raises(ConfigError, match="is stopped at checkpoint"):
        job.stop(drain=True)


def test_cancel_while_a_stop_is_under_way(session: Session, tmp_path: Path) -> None:
    """Whichever comes first: the job has ended, and the stream can go on."""
    out = tmp_path / "out"
    job = begun(session, out)
    heard: list[Exception] = []

    def stop() -> None:
        try:
            job.stop()
        except (CancelledError, ConfigError) as error:
            heard.append(error)

    thread = Thread(target=stop)
    thread.start()
    session.job(job.id).cancel()
    thread.join(60)
    assert not thread.is_alive()
    ended = session.job(job.id)
    assert (ended.state, bool(heard)) in (("cancelled", True), ("finished", False))
    counted(session).write_stream(out, name="clicks").wait()
    assert total(out) == N_ROWS


def test_a_stream_on_agents(
    two: LocalFabric, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    with fabric.connect(f"fabric://{two.address}", token=two.token) as session:
        session.checkpoints(interval_s=3600)
        first = begun(session, out)
        assert first.savepoint("monday").checkpoint == 1
        there = ["--connect", two.address, "--token", str(two.home / "token")]
        assert main(["savepoints", "create", first.id, "monday", *there]) == 1
        assert "there is a savepoint 'monday' already" in capsys.readouterr().err
        assert main(["streams", "drop", "clicks", *there]) == 1
        assert "the stream 'clicks' is running, in process " in capsys.readouterr().err
        assert main(["jobs", *there, "stop", first.id, "--savepoint", "tuesday"]) == 0
        assert "stopped at checkpoint " in capsys.readouterr().out
        assert main(["jobs", *there]) == 0
        assert "stopped at checkpoint " in capsys.readouterr().out
        assert [one.name for one in session.savepoints()] == ["monday", "tuesday"]
        gone = session.control.delete_savepoint(pb.SavepointsRequest(name="monday")).savepoints
        assert [one.name for one in gone] == ["monday"]
        counted(session, rows_per_s=100).write_stream(out, name="clicks").stop(drain=True)
        assert total(out) > 0
        with pytest.raises(ConfigError, match="'clicks' came to its end"):
            counted(session).write_stream(out, name="clicks")
        assert main(["streams", "list", *there]) == 0
        assert "clicks" in capsys.readouterr().out
        assert ("clicks", "ended") in [(one.name, one.state) for one in session.streams()]
        assert main(["streams", "drop", "clicks", *there]) == 0
        assert "clicks" not in [one.name for one in session.streams()]
        counted(session).write_stream(tmp_path / "anew", name="clicks").wait()
        assert total(tmp_path / "anew") == N_ROWS


def test_a_step_by_more_keys_goes_on_with_what_is_its_own(session: Session, tmp_path: Path) -> None:
    """Its rows were where the fewer keys said, and its state came back where all of them say."""
    wanted = in_two_levels(session, rows_per_s=2_000).to_arrow()
    out = tmp_path / "out"
    frame = in_two_levels(session, rows_per_s=2_000)
    with held(tmp_path / "held"):
        job = frame.write_stream(out, name="levels", parallelism=2)
        wait_until(lambda: n_read(job) > N_ROWS // 4, 60)
        job.stop()
        assert n_read(job) < N_ROWS
    frame.write_stream(out, name="levels", parallelism=2).wait(60)
    found = fabric.read_parquet(out).to_arrow().select(wanted.column_names)
    by = [(name, "ascending") for name in wanted.column_names]
    assert found.sort_by(by).to_pylist() == wanted.sort_by(by).to_pylist()
