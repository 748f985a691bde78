"""A stream with a name goes on where its program was stopped: no row is lost, none comes twice."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fabric
from fabric import streams
from fabric.clients.cli.main import main
from fabric.clients.dataframe.frame import DataFrame
from fabric.clients.session.session import Session
from fabric.config import StateBackend
from fabric.errors import ConfigError, NotFoundError, PlanError
from tests.support import forked
from tests.support.files import files_in
from tests.support.forked import Forked
from tests.support.held import held
from tests.support.local import LocalFabric, local_fabric
from tests.support.named_streams import KINDS, counted, differing, generated
from tests.support.sampled import SOAK, sampled
from tests.support.wait import wait_until

PLACES = (
    "stream.sink-prepared:3",
    "stream.snapshot-stored:4",
    "checkpoint.acknowledged:2",
    "checkpoint.stored:2",
    "stream.publishing:1",
    "stream.publishing:3",
    "checkpoint.removing:3",
)
SEEDS = range(10) if SOAK else range(1)


@contextmanager
def program(
    kind: str, tmp_path: Path, rows_per_s: int, failpoint: str = ""
) -> Iterator[tuple[Forked, Path]]:
    """A process, and the file with what it says."""
    environ = {
        **os.environ, "FABRIC_HOME": str(tmp_path / "home"),
        forked.HELD: str(tmp_path / "held"),
        **({"FABRIC_TESTING": "1", "FABRIC_FAILPOINT": failpoint} if failpoint else {}),
    }  # fmt: skip
    hold = held(tmp_path / "held") if rows_per_s else nullcontext()
    said, arguments = tmp_path / "said", [kind, str(tmp_path / "out"), str(rows_per_s)]
    with hold:
        with said.open("wb") as out:
            running = forked.program("tests.support.named_streams:main", arguments, out, environ)
        try:
            yield running, said
            running.wait(180)
        finally:
            running.kill()


def ends(kind: str, tmp_path: Path, rows_per_s: int, failpoint: str = "") -> tuple[int, str]:
    with program(kind, tmp_path, rows_per_s, failpoint) as (running, said):
        code = running.wait(180)
        return code, said.read_text()


@pytest.mark.parametrize("place", sampled(PLACES, 2))
def test_a_program_goes_on_wherever_it_was_killed(tmp_path: Path, place: str) -> None:
    assert ends("count", tmp_path, 1_000, f"{place}:exit")[0] == 137
    code, told = ends("count", tmp_path, 0)
    assert code == 0, told
    assert told.startswith("stream count by key ")
    assert differing("count", tmp_path / "out") == ""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_five_kinds_of_state_go_on(tmp_path: Path, kind: str, seed: int) -> None:
    manifests = tmp_path / "home" / "checkpoints"
    rng = random.Random(f"{kind} {seed}")
    for _ in range(2):
        newest = _newest(manifests)
        with program(kind, tmp_path, 1_000) as (running, said):
            wait_until(
                lambda n=newest, p=running: _newest(manifests) > n or p.poll() is not None, 120
            )
            assert running.poll() is None, said.read_text()
            time.sleep(rng.random())
            running.send_signal(signal.SIGKILL)
    code, told = ends(kind, tmp_path, 0)
    assert code == 0, told
    assert told.startswith(f"stream {kind} by key goes on from checkpoint ")
    assert differing(kind, tmp_path / "out") == ""


def _newest(manifests: Path) -> int:
    found = [path for path in files_in(manifests) if path.name == "MANIFEST"]
    return max((int(path.parent.name) for path in found), default=0)


@pytest.fixture
def session() -> Iterator[Session]:
    with fabric.connect() as made:
        yield made.checkpoints(interval_s=0.1)


def rows(session: Session, n_rows: int = 4_000, **options: int) -> DataFrame:
    made = streams.generator(n_rows=n_rows, n_splits=2, session=session, **options)
    return made.select("split", "row")


def n_rows(folder: Path) -> int:
    return fabric.read_parquet(folder).count() if folder.exists() else 0


def written(folder: Path) -> bool:
    return folder.exists() and any(folder.glob("*.parquet"))


def cancelled(session: Session, out: Path, name: str) -> fabric.Job:
    """A stream that has written some of its rows, and was stopped."""
    with held(out.parent / "held"):
        job = rows(session, rows_per_s=500).write_stream(out, name=name)
        wait_until(lambda: written(out), 60)
        return job.cancel()


def test_a_cancelled_stream_goes_on_in_the_same_session(session: Session, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = cancelled(session, out, "same")
    n_first = n_rows(out)
    second = rows(session).write_stream(out, name="same")
    assert second.status.stream.state == first.id != second.id
    assert second.status.stream.checkpoint
    assert second.wait().state == "finished"
    assert 0 < n_first < 4_000 == n_rows(out)


@pytest.mark.parametrize(("state", "says"), [
    ("memory", "2 states, 40 rows"), ("arrow", "2 states, 40 rows"), ("rocksdb", "2 states"),
])  # fmt: skip
def test_a_start_says_how_many_rows_of_state_there_are(
    tmp_path: Path, state: StateBackend, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a window and a function with 20 keys each; RocksDB does not count its own."""
    with fabric.connect() as session:
        session.checkpoints(interval_s=30, folder=tmp_path / "checkpoints", state=state)
        job = kept_by_key(session).write_stream(streams.to_blackhole(), name="kept")
        wait_until(lambda: job.status.stages[-1].rows > 100, 60)
        saved = job.savepoint("monday")
        assert job.stop().state == "finished"
        assert (saved.rows, saved.states) == (None if state == "rocksdb" else 40, 2)
        assert [one.rows for one in session.streams()] == [saved.rows]
        kept_by_key(session).write_stream(streams.to_blackhole(), name="kept").cancel()
    told = capsys.readouterr().err
    (line,) = [line for line in told.splitlines() if line.startswith("stream kept goes on from ")]
    assert ", ".join(line.split(", ")[1:-1]) == says, line


class Seen(fabric.Process):
    """How many rows each key has had."""

    def on_rows(self, ctx: Any, key: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        seen = ctx.state("seen")
        seen.put((seen.get() or 0) + len(rows))
        return rows.select(["key", "ts"])


def kept_by_key(session: Session) -> DataFrame:
    made = streams.generator(n_keys=20, n_splits=2, rows_per_s=2_000, session=session)
    seen = made.select("key", "ts").process(
        Seen(), keys="key", schema={"key": "int64", "ts": made.schema.field("ts").type},
        state={"seen": streams.value_state("int64")},
    )  # fmt: skip
    return seen.group_by("key").count().changes()


def test_a_released_stream_goes_on(session: Session, tmp_path: Path) -> None:
    out = tmp_path / "out"
    cancelled(session, out, "released").release()
    rows(session).write_stream(out, name="released").wait()
    assert n_rows(out) == 4_000


def test_what_ran_with_the_program_goes_on_in_the_next(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with held(tmp_path / "held"), fabric.connect() as first:
        first.checkpoints(interval_s=0.1)
        rows(first, rows_per_s=500).write_stream(out, name="next")
        wait_until(lambda: written(out), 60)
    with fabric.connect() as second:
        rows(second).write_stream(out, name="next").wait()
    assert n_rows(out) == 4_000


def test_two_streams_of_one_name_are_refused(session: Session, tmp_path: Path) -> None:
    with fabric.connect() as other:
        with held(tmp_path / "held"):
            first = rows(session, rows_per_s=100).write_stream(tmp_path / "a", name="one")
            with pytest.raises(ConfigError, match=f"'one' is running already, as job {first.id}"):
                rows(session).write_stream(tmp_path / "b", name="one")
            with pytest.raises(ConfigError, match="'one' is running already, in process "):
                rows(other).write_stream(tmp_path / "b", name="one")
            first.cancel()
        wait_until(lambda: _starts(other, tmp_path / "b"))
    assert n_rows(tmp_path / "b") == 4_000


def _starts(session: Session, out: Path) -> bool:
    """Whether the other session has let go of the name by now."""
    try:
        rows(session).write_stream(out, name="one").wait()
    except ConfigError:
        return False
    return True


def test_a_stream_that_came_to_its_end_is_not_begun_again(session: Session, tmp_path: Path) -> None:
    out = tmp_path / "out"
    rows(session).write_stream(out, name="ended").wait()

    def again(**options: str) -> None:
        rows(session).write_stream(tmp_path / "other", name="ended", **options).wait()

    wait_until(lambda: _says(again, "came to its end"))
    with pytest.raises(ConfigError, match='"new" begins anew'):
        again(on_existing="fail")
    again(on_existing="new")
    assert n_rows(out) == n_rows(tmp_path / "other") == 4_000


def _says(call: object, words: str) -> bool:
    try:
        call()  # type: ignore[operator]
    except ConfigError as error:
        return words in str(error)
    return False


def test_a_new_stream_is_refused_where_the_old_one_wrote(session: Session, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = cancelled(session, out, "anew")
    n_first = n_rows(out)
    with pytest.raises(PlanError, match=f"written by job {first.id}"):
        rows(session).write_stream(out, name="anew", on_existing="new")
    rows(session).write_stream(out, name="anew").wait()  # a refused start changes nothing
    assert n_first < n_rows(out) == 4_000


def test_a_program_that_has_changed_is_refused(session: Session, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def counts(rows_per_s: int = 0) -> DataFrame:
        made = streams.generator(n_rows=4_000, rows_per_s=rows_per_s, session=session)
        timed = made.with_watermark("ts").group_by("key")
        return timed.window("1 second").count().named("counts")

    with held(tmp_path / "held"):
        job = counts(500).write_stream(out, name="changed")
        wait_until(lambda: any(one.state == "published" for one in job.checkpoints()), 60)
        job.cancel()
    with pytest.raises(PlanError, match=r"counts: refused: no step of the program goes on with"):
        rows(session).write_stream(out, name="changed")
    counts().write_stream(out, name="changed").wait()
    assert sum(fabric.read_parquet(out).collect()["count"].to_pylist()) == 4_000


def test_a_dropped_stream_begins_anew(
    session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    session.checkpoints(folder=kept)
    with held(tmp_path / "held"):
        job = rows(session, rows_per_s=500).write_stream(tmp_path / "out", name="gone")
        wait_until(lambda: written(tmp_path / "out"), 60)
        with pytest.raises(ConfigError, match="'gone' is running, in process "):
            session.drop_stream("gone")
        job.savepoint("before")
        job.cancel()
    wait_until(lambda: session.streams()[0].state == "stopped")
    (stream,) = session.streams()
    assert (stream.name, stream.job_id, stream.starts) == ("gone", job.id, 1)
    assert main(["streams", "list", "--folder", str(kept)]) == 0
    shown = capsys.readouterr().out
    assert [word for word in ("gone", "stopped", job.id) if word not in shown] == []
    assert main(["streams", "drop", "gone", "--folder", str(kept)]) == 0
    assert capsys.readouterr().out == "dropped stream gone\n"
    assert session.streams() == []
    with pytest.raises(NotFoundError, match=r"no stream 'gone' in .*there are: none"):
        session.drop_stream("gone")
    assert main(["streams", "list", "--folder", str(kept)]) == 0
    assert capsys.readouterr().out == f"no streams with a name are in {kept}\n"
    anew = rows(session).write_stream(tmp_path / "anew", name="gone").wait()
    assert (anew.status.stream.checkpoint, n_rows(tmp_path / "anew")) == (0, 4_000)
    back = rows(session).write_stream(tmp_path / "back", name="back", restore="before").wait()
    assert back.status.stream.savepoint == "before"
    assert 0 < n_rows(tmp_path / "back") < 4_000


@pytest.mark.parametrize("name", ["", " a", "a\n", "x" * 129])
def test_names_that_cannot_be(session: Session, name: str, tmp_path: Path) -> None:
    if name:
        with pytest.raises(ConfigError, match="can't be the name of a stream"):
            rows(session).write_stream(tmp_path / "out", name=name)


def test_a_dataset_that_ends_with_the_session_is_refused(session: Session) -> None:
    with pytest.raises(PlanError, match="ends with this session"):
        rows(session).write_stream(streams.to_dataset("kept"), name="kept")


def test_a_stream_on_agents_goes_on_with_other_tasks(two: LocalFabric, tmp_path: Path) -> None:
    """Cancelled on two agents, then gone on by another client, with one task instead of two."""
    out, name = tmp_path / "out", f"on agents {tmp_path.name}"

    def started(parallelism: int, rows_per_s: int) -> fabric.Job:
        with fabric.connect(f"fabric://{two.address}", token=two.token) as session:
            session.checkpoints(interval_s=0.2)
            made = counted(generated(session, rows_per_s))
            return made.write_stream(out, name=name, parallelism=parallelism)

    with fabric.connect(f"fabric://{two.address}", token=two.token) as session:
        with two.held():
            first = started(2, 1_000)
            job = session.job(first.id)
            wait_until(lambda: any(one.state == "published" for one in job.checkpoints()), 60)
            with pytest.raises(ConfigError, match=f"is running already, as job {first.id}"):
                started(1, 0)
            job.cancel()
        with pytest.raises(ConfigError, match="run its program again, and it goes on"):
            job.restart()
        second = session.job(started(1, 0).id).wait()
        assert second.status.stream.state == first.id
        assert second.status.stream.checkpoint
        with pytest.raises(ConfigError, match="came to its end"):
            started(2, 0)
    assert differing("count", out) == ""


def test_a_name_is_held_across_coordinators(two: LocalFabric, tmp_path: Path) -> None:
    with fabric.connect(f"fabric://{two.address}", token=two.token) as session:
        session.checkpoints(interval_s=0.2)
        name = f"held {tmp_path.name}"
        with two.held():
            first = rows(session, rows_per_s=500).write_stream(tmp_path / "out", name=name)
            wait_until(lambda: any(one.state == "published" for one in first.checkpoints()), 60)
            two.kill_coordinator()
            two.start_coordinator()
            two.wait_attached()
            with pytest.raises(ConfigError, match=f"is running already, as job {first.id}"):
                rows(session).write_stream(tmp_path / "other", name=name)
        assert first.wait().state == "finished"
        assert first.status.stream.name == name
    assert n_rows(tmp_path / "out") == 4_000


@pytest.fixture(scope="module")
def mortal() -> Iterator[LocalFabric]:
    """Two agents that may be killed."""
    with local_fabric(2, slots=1) as running:
        yield running


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_five_kinds_of_state_go_on_on_agents(
    mortal: LocalFabric, tmp_path: Path, kind: str, seed: int
) -> None:
    """An agent is killed, the stream is cancelled, and its program is run again."""
    out, name, rng = tmp_path / "out", f"{kind} {tmp_path.name}", random.Random(f"{kind} {seed}")
    make, n = KINDS[kind][0], 20_000
    with fabric.connect(f"fabric://{mortal.address}", token=mortal.token) as session:
        session.checkpoints(interval_s=0.2)
        for _ in range(2):
            with mortal.held():
                made = make(generated(session, 1_000, n))
                job = made.write_stream(out, name=name, parallelism=2)
                first = job.status.stream.checkpoint
                wait_until(lambda j=job, c=first: _published(j) > c, 120)
                time.sleep(rng.random())
                victim = rng.randrange(2)
                mortal.kill(victim)
                mortal.restart(victim)
                assert job.cancel().state == "cancelled", job.error
        last = make(generated(session, 0, n)).write_stream(out, name=name, parallelism=2).wait()
        assert last.status.stream.checkpoint
    assert differing(kind, out, n) == ""


def _published(job: fabric.Job) -> int:
    return max((c.checkpoint for c in job.checkpoints() if c.state == "published"), default=0)
