"""Rows of endless streams in this process: as they come, until nobody takes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as fl
import pytest

import fabric
from fabric import col, streams
from fabric.clients.job.live import Receiver
from fabric.clients.job.waiting import statuses
from fabric.clients.session.remote import RemoteSession
from fabric.clients.session.session import Session
from fabric.errors import CancelledError, FabricError, PlanError
from fabric.io.sinks import live
from fabric.io.sinks.live import BATCHES, Feed, Live
from fabric.plan.targets import FlightTarget

ROW = pa.record_batch({"v": pa.array([1], pa.int64())})


@pytest.fixture
def session() -> Iterator[Session]:
    with fabric.connect() as session:
        yield session


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    yield server
    server.shutdown()


def endless(session: Session) -> fabric.DataFrame:
    return streams.generator(rows_per_s=20_000, n_splits=1, session=session)


def put(receiver: Receiver, *path: str, token: str) -> None:
    options = fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
    with fl.connect(f"grpc+tcp://127.0.0.1:{receiver.port}") as client:
        writer, _ = client.do_put(fl.FlightDescriptor.for_path(*path), ROW.schema, options)
        with writer:
            writer.write_batch(ROW)
            writer.done_writing()
            writer.close()


def test_rows_come_in_order_and_leaving_the_loop_ends_the_job(session: Session) -> None:
    rows_seen: list[int] = []
    for batch in endless(session).iter_batches():
        rows_seen += batch.column("row").to_pylist()
        if len(rows_seen) > 1000:
            break
    assert rows_seen == list(range(len(rows_seen)))
    rows = endless(session).iter_batches()
    first = next(rows)
    assert first.schema == endless(session).schema
    rows.close()  # type: ignore[attr-defined]
    assert {job.state for job in session.jobs()} == {"released"}


def test_tasks_of_this_process_need_no_server(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fabric.clients.job.live.receiver", None)
    rows = endless(session).iter_batches()
    assert next(rows).column("row")[0].as_py() == 0
    rows.close()  # type: ignore[attr-defined]


def test_a_reader_that_leaves_while_all_is_full_does_not_wait(session: Session) -> None:
    rows = endless(session).iter_batches()
    next(rows)
    (feed,) = live._FEEDS.values()
    with feed._changed:
        assert feed._changed.wait_for(lambda: len(feed._batches) == BATCHES, 60)
    rows.close()  # type: ignore[attr-defined]
    assert {job.state for job in session.jobs()} == {"released"}
    assert not live._FEEDS


def test_a_cancel_reaches_a_task_that_waits_for_its_reader(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted: list[Live] = []

    def interrupt(sink: Live) -> None:
        interrupted.append(sink)
        told(sink)

    told = Live.interrupt
    monkeypatch.setattr(Live, "interrupt", interrupt)
    rows = endless(session).iter_batches()
    next(rows)
    (feed,) = live._FEEDS.values()
    with feed._changed:
        assert feed._changed.wait_for(lambda: len(feed._batches) == BATCHES, 60)
    session.jobs()[0].cancel()
    assert len(interrupted) == 1
    with pytest.raises(CancelledError):
        list(rows)


def test_an_iterator_may_outlive_its_session() -> None:
    with fabric.connect() as session:
        rows = endless(session).iter_batches()
        next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert not live._FEEDS


def test_rows_of_several_tasks_come_each_once() -> None:
    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
    with fabric.connect(parallelism=2) as session:
        made = streams.generator(rows_per_s=20_000, n_splits=3, session=session)
        rows = made.exchange("key").select("split", "row").iter_batches()
        while any(len(of_split) < 500 for of_split in seen.values()):
            for row in next(rows).to_pylist():
                seen[row["split"]].append(row["row"])
        assert {task.task for task in session.jobs()[0].tasks()} == {0, 1}
        rows.close()  # type: ignore[attr-defined]
    for of_split in seen.values():
        assert len(set(of_split)) == len(of_split)


def test_show_prints_the_first_that_come(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    endless(session).select("row").show(3)
    text = capsys.readouterr().out
    assert "first 3 rows, there are more" in text
    assert text.count("\n") == 9  # a frame, two lines of header, three rows, what there is


def test_results_that_change_come_as_changes(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    totals = endless(session).group_by("split").count()
    totals.show(3)
    assert "row_kind" in capsys.readouterr().out
    assert next(totals.iter_batches()).column("row_kind")[0].as_py() == "+I"


def test_show_of_a_stream_that_ends_before(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    streams.generator(n_rows=2, n_splits=1, session=session).show(3)
    assert "2 rows" in capsys.readouterr().out


def test_an_error_of_the_job_is_the_readers(session: Session) -> None:
    broken = endless(session).with_columns(bad=fabric.lit(1) // (fabric.lit(0) * col("key")))
    with pytest.raises(FabricError, match="zero"):
        list(broken.iter_batches())


def test_the_server_takes_rows_of_its_own_streams_only(receiver: Receiver) -> None:
    feed = Feed(1.0)
    with receiver.opened(feed) as target:
        with pytest.raises(fl.FlightUnauthenticatedError, match="its own streams"):
            put(receiver, *target.path, token="guessed")
        with pytest.raises(fl.FlightServerError, match="nobody reads"):
            put(receiver, "live", "other", token=receiver.token)
        put(receiver, *target.path, token=receiver.token)
    with pytest.raises(fl.FlightServerError, match="nobody reads"):
        put(receiver, *target.path, token=receiver.token)
    feed.end()
    assert list(feed.take()) == [ROW]


def test_a_put_to_a_reader_that_takes_nothing_says_so(receiver: Receiver) -> None:
    feed = Feed(0.01)
    with receiver.opened(feed) as target:
        for _ in range(BATCHES):
            put(receiver, *target.path, token=receiver.token)
        with pytest.raises(fl.FlightServerError, match="took nothing for 0 s"):
            put(receiver, *target.path, token=receiver.token)


def test_agents_of_another_host_are_refused_before_the_job() -> None:
    away = RemoteSession.__new__(RemoteSession)
    for address in ("10.0.0.9:6123", "grpc+tls://fabric.example:6123"):
        away._address = address
        with pytest.raises(PlanError, match=r"can't put rows to this process"):
            away.live(Feed(1.0))
    for address in ("127.0.0.1:6123", "localhost:6123", "grpc+tls://[::1]:6123"):
        away._address = address
        with away.live(Feed(1.0)) as target:
            assert isinstance(target, FlightTarget)


def test_a_running_stream_says_how_far_it_is(session: Session, tmp_path: Path) -> None:
    job = endless(session).with_watermark("ts", "1 second").write_stream(tmp_path / "rows")
    try:
        for status in statuses(session.control, job.id, 60):
            (stage,) = status.stages
            if stage.rows_in > 1000 and stage.watermark_us > 0:
                break
        assert stage.rows <= stage.rows_in
        assert "rows in" in job.explain()
        (task,) = job.tasks()
        assert task.rows_in >= stage.rows_in
    finally:
        job.cancel()
