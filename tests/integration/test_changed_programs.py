"""A stream goes on with a changed program: with the rows it would have, or refused by name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import fabric
from fabric import DataFrame, col, count, streams
from fabric.checkpoint.names import read_record
from fabric.checkpoint.savepoint import Savepoint
from fabric.checkpoint.savepoints import Savepoints
from fabric.checkpoint.storage import FolderStorage
from fabric.clients.cli.main import main
from fabric.clients.session.session import Session
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.errors import ConfigError, NotFoundError, PlanError
from fabric.operators.snapshots import N_KEY_GROUPS
from tests.support import forked
from tests.support.held import held
from tests.support.local import local_fabric
from tests.support.named_streams import Counting, differing, generated
from tests.support.wait import wait_until

AT = col("window_start").dt.epoch("s").alias("at")


def counted(rows: DataFrame, name: str, other: bool) -> DataFrame:
    aggs = [count().alias("n")] + ([col("value").sum().alias("total")] if other else [])
    made = rows.group_by("key").window("1 second").agg(*aggs).named(name)
    return made.select("key", AT, "n", *(["total"] if other else []))  # or it is not computed


def sessions(rows: DataFrame, name: str, other: bool) -> DataFrame:
    aggs = [count().alias("n")] + ([col("value").max().alias("most")] if other else [])
    made = rows.group_by("key").window(fabric.session("40 ms")).agg(*aggs).named(name)
    return made.select("key", "window_start", "window_end", "n", *(["most"] if other else []))


def best(rows: DataFrame, name: str, other: bool) -> DataFrame:
    n, keys = 3 if other else 2, ["window_start", "window_end"]
    made = rows.assign_windows("1 second").top_n(n, by=col("value").desc(), keys=keys)
    return made.named(name).select("split", "row", "value")


def functions(rows: DataFrame, name: str, other: bool, kept: str = "int64") -> DataFrame:
    return rows.process(
        Counting(), keys="key", schema={"key": "int64", "at": "int64", "n": "int64"},
        state={"seconds": streams.map_state("int64", "string" if other else kept)}, timers="event",
    ).named(name)  # fmt: skip


KINDS: dict[str, Any] = {
    "count": counted, "session": sessions, "top": best, "process": functions,
}  # fmt: skip
STATES = ("memory", "rocksdb", "arrow", "tonbo")
CHANGES = ("added", "dropped", "renamed", "widened", "incompatible")
CASES = [
    case for case in product(CHANGES, KINDS, STATES)
    if case[0] != "widened" or case[1] == "process"
]  # fmt: skip


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with fabric.connect() as made:
        yield made.checkpoints(interval_s=0.1, folder=tmp_path / "checkpoints")


def stopped(frame: DataFrame, out: Path, name: str, **asked: Any) -> fabric.Job:
    """A stream that was stopped once a checkpoint of its own was published."""

    def has_more() -> bool:
        return any(c.state == "published" and c.checkpoint > before for c in job.checkpoints())

    with held(out.parent / "held"):
        job = frame.write_stream(out, name=name, parallelism=2, **asked)
        before = max((c.checkpoint for c in job.checkpoints()), default=0)  # it may be adopted
        wait_until(has_more, 60)
        return job.cancel()


def goes_on(frame: DataFrame, out: Path, name: str, **asked: Any) -> fabric.Job:
    return frame.write_stream(out, name=name, parallelism=2, **asked).wait()


@pytest.mark.parametrize(("change", "kind", "state"), CASES)
def test_a_changed_program_goes_on(
    session: Session, tmp_path: Path, change: str, kind: str, state: Any
) -> None:
    session.checkpoints(state=state, state_memory="64 kB")
    out, make = tmp_path / "out", KINDS[kind]
    slow, fast = generated(session, 1_000), generated(session)
    once = ["split", "row"]
    match change:
        case "added":
            stopped(make(slow, "step", False), out, "s")
            # by a column that the step has already: it keeps what any branch reads
            more = {tmp_path / "more": fast.deduplicate("split").named("first").select("split")}
            job = goes_on(make(fast, "step", False), out, "s", also=more)
            assert "first: added" in job.status.stream.changes
            assert fabric.read_parquet(tmp_path / "more").count()
        case "dropped":
            stopped(make(slow.deduplicate(once).named("once"), "step", False), out, "s")
            with pytest.raises(PlanError, match=r'once: refused: .*drop=\["once"\] leaves'):
                goes_on(make(fast, "step", False), out, "s")
            job = goes_on(make(fast, "step", False), out, "s", drop="once")
            assert "once: dropped" in job.status.stream.changes
        case "renamed":
            stopped(make(slow, "step", False), out, "s")
            with pytest.raises(PlanError, match=r'renames=\{"step": "other"\} if it goes on'):
                goes_on(make(fast, "other", False), out, "s")
            job = goes_on(make(fast, "other", False), out, "s", renames={"step": "other"})
            assert "other: renamed from step" in job.status.stream.changes
        case "widened":
            stopped(functions(slow, "step", False, "int32"), out, "s")
            job = goes_on(make(fast, "step", False), out, "s")
            changed = "step: changed: state seconds was a map of int32, is a map of int64"
            assert changed in job.status.stream.changes
        case "incompatible":
            stopped(make(slow, "step", False), out, "s")
            with pytest.raises(PlanError, match=r"can't go on from checkpoint .*step: refused: "):
                goes_on(make(fast, "step", True), out, "s")
            goes_on(make(fast, "step", False), out, "s")  # a refused start changes nothing
    assert differing(kind, out) == ""


def test_agents_go_on_with_other_names(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with (
        local_fabric(2, slots=1) as two,
        fabric.connect(f"fabric://{two.address}", token=two.token) as session,
    ):
        session.checkpoints(interval_s=0.1, folder=tmp_path / "checkpoints")
        slow, fast = generated(session, 1_000), generated(session)
        once = slow.deduplicate(["split", "row"]).named("once")
        stopped(counted(once, "step", False), out, "s")
        job = goes_on(
            counted(fast, "other", False), out, "s", renames={"step": "other"}, drop="once"
        )
        assert {"other: renamed from step", "once: dropped"} <= set(job.status.stream.changes)
    assert differing("count", out) == ""


# ---- savepoints


def saved(session: Session, job: fabric.Job, folder: Path, name: str) -> Savepoint:
    """The newest checkpoint of a stopped job as a savepoint, which was published."""
    state = job.status.stream.state
    storage = FolderStorage(folder)
    manifest = storage.load(state, storage.checkpoints(state)[-1])
    made = Savepoint(
        name=name, stream=job.status.stream.name, job_name="", plan="", key_groups=N_KEY_GROUPS,
        release=fabric.__version__, created_us=0, manifest=manifest,
    ).without_handles()  # fmt: skip
    Savepoints(folder).write(made)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def test_a_savepoint_starts_another_stream(
    session: Session, tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the first one put out before, and the second one after it, is all there is."""
    out, again = tmp_path / "out", tmp_path / "again"
    job = stopped(counted(generated(session, 1_000), "step", False), out, "first")
    number = saved(session, job, folder, "before v2").manifest.checkpoint
    fast = generated(session)
    goes_on(counted(fast, "step", False), out, "first")
    assert differing("count", out) == ""
    with pytest.raises(ConfigError, match="came to its end"):
        goes_on(counted(fast, "step", False), out, "first", restore="before v2")
    with pytest.raises(PlanError, match=f"written by job {job.id}"):
        goes_on(counted(fast, "step", False), out, "second", restore="before v2")
    capsys.readouterr()
    second = goes_on(
        counted(fast, "step", False), again, "first", restore="before v2", on_existing="new"
    )
    told = capsys.readouterr().err
    assert f"stream first goes on from savepoint before v2, checkpoint {number} of " in told
    assert second.status.stream.state == second.id != job.id
    rows = {(r["key"], r["at"]): r["n"] for r in fabric.read_parquet(out).collect().to_pylist()}
    later = {(r["key"], r["at"]): r["n"] for r in fabric.read_parquet(again).collect().to_pylist()}
    assert later == {at: n for at, n in rows.items() if at in later}, "state came with it"
    assert 0 < len(later) <= len(rows)


def test_a_savepoint_of_the_newest_checkpoint_goes_on_in_its_place(
    session: Session, tmp_path: Path, folder: Path
) -> None:
    out = tmp_path / "out"
    job = stopped(counted(generated(session, 1_000), "step", False), out, "s")
    saved(session, job, folder, "now")
    fast = generated(session)
    with pytest.raises(NotFoundError, match="there is no savepoint 'then'; there are: 'now'"):
        goes_on(counted(fast, "step", False), out, "s", restore="then")
    again = goes_on(
        counted(fast, "other", False), out, "s", restore="now", renames={"step": "other"}
    )
    assert again.status.stream.state == job.id
    assert differing("count", out) == ""


def test_a_stream_that_has_gone_on_is_not_put_back(
    session: Session, tmp_path: Path, folder: Path
) -> None:
    out = tmp_path / "out"
    job = stopped(counted(generated(session, 1_000), "step", False), out, "s")
    saved(session, job, folder, "before")
    stopped(counted(generated(session, 1_000), "step", False), out, "s")
    fast = generated(session)
    with pytest.raises(ConfigError, match=r"'s' has gone on since .*'before'.*on_existing=\"new\""):
        goes_on(counted(fast, "step", False), out, "s", restore="before")
    goes_on(counted(fast, "step", False), tmp_path / "b", "t", restore="before")
    stopped(counted(generated(session, 1_000), "step", False), tmp_path / "c", "u")
    with pytest.raises(ConfigError, match="'before' is of the stream 's', and a stream 'u' has"):
        goes_on(counted(fast, "step", False), tmp_path / "c", "u", restore="before")


def test_a_failed_start_leaves_nothing(
    session: Session, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused after its checkpoint was adopted: that is gone, and the name is as it was."""
    out = tmp_path / "out"
    job = stopped(counted(generated(session, 1_000), "step", False), out, "s")
    saved(session, job, folder, "now")
    other = counted(generated(session), "other", False)

    def there() -> tuple[object, ...]:
        found = sorted(path.parent.name for path in folder.glob("job-*/*/MANIFEST"))
        return read_record(folder, "s"), found, sorted(folder.glob("job-*"))

    before, adopted = there(), []

    def refused(*_: object) -> None:
        adopted.append(there())
        raise PlanError("refused in the end")

    with monkeypatch.context() as patch:
        patch.setattr(CoordinatorRuntime, "_submitted", refused)
        for asked in ({}, {"restore": "now", "on_existing": "new"}):
            place = tmp_path / "new" if asked else out
            with pytest.raises(PlanError, match="refused in the end"):
                goes_on(other, place, "s", renames={"step": "other"}, **asked)
            assert adopted[-1] != before
            assert there() == before
    goes_on(other, out, "s", renames={"step": "other"})
    assert differing("count", out) == ""


def test_what_a_killed_program_owed_is_put_out_by_a_changed_one(tmp_path: Path) -> None:
    """It was killed between a checkpoint and its output; a start that adopts is killed as well."""
    failing = {
        "FABRIC_TESTING": "1", "FABRIC_HOME": str(tmp_path / "home"),
        forked.HELD: str(tmp_path / "held"),
    }  # fmt: skip
    places = ("stream.publishing:2:exit", "stream.publishing:1:exit", "")
    for number, place in enumerate(places):
        name, renames = f"step{min(number, 1)}", "step0=step1" if number else ""
        arguments = [str(tmp_path / "out"), name, renames, "1000" if number < 2 else "0"]
        environ = {**os.environ, **failing, **({"FABRIC_FAILPOINT": place} if place else {})}
        hold = held(tmp_path / "held") if place else nullcontext()
        with hold, (tmp_path / "said").open("wb") as said:
            running = forked.program(f"{__name__}:program", arguments, said, environ)
            running.wait(180)
        assert running.wait(180) == (137 if place else 0), (tmp_path / "said").read_text()
    assert differing("count", tmp_path / "out") == ""


def test_a_state_is_dropped_once_however_often_the_program_starts(
    session: Session, tmp_path: Path
) -> None:
    """Whoever starts a program again after a crash doesn't take its drop= out first."""
    out, slow = tmp_path / "out", counted(generated(session, 1_000), "step", False)
    stopped(slow, out, "s")
    dropped, done = "step: dropped: the step starts anew", "renames= and drop= were carried out by"
    for asked, line in (("step", dropped), ("step", done), ([], ""), ("step", dropped)):
        changes = stopped(slow, out, "s", drop=asked).status.stream.changes
        assert [change[: len(line)] for change in changes] == ([line] if line else [])


def test_what_is_asked_for_needs_a_name(session: Session, tmp_path: Path) -> None:
    rows = generated(session)
    with pytest.raises(PlanError, match=r"restore= is for a stream whose state has a name"):
        rows.write_stream(tmp_path / "out", restore="before")
    with pytest.raises(PlanError, match=r"begins without any, so there is no old"):
        rows.write_stream(tmp_path / "out", name="new", drop="old")


# ---- from the command line

PROGRAM = """
import fabric
from fabric import count, streams

def main():
    with fabric.connect() as session:
        session.checkpoints(interval_s=0.1, folder={folder!r})
        rows = streams.generator(n_rows=4_000, n_splits=2, session=session).with_watermark("ts")
        made = rows.group_by("key").window("1 second").agg(count().alias("n")).named({name!r})
        made.write_stream({out!r}, name="s", parallelism=2).wait()
"""


def test_the_command_line_says_what_it_then_does(
    session: Session, tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, file = tmp_path / "out", tmp_path / "program.py"
    made = streams.generator(n_rows=4_000, rows_per_s=1_000, n_splits=2, session=session)
    windows = made.with_watermark("ts").group_by("key").window("1 second")
    job = stopped(windows.agg(count().alias("n")).named("step"), out, "s")
    saved(session, job, folder, "now")
    file.write_text(PROGRAM.format(folder=str(folder), name="other", out=str(out)))
    capsys.readouterr()
    assert main(["savepoints", "diff", "now", str(file)]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[1:] == [
        "sink_1: same",
        'step: refused: the program has other, which fits; renames={"step": "other"} if it goes on '
        'with this, else drop=["step"] leaves what it has kept behind',
        "stream_scan_1: changed: rows_per_s was 1000, is 0",
        "watermark_1: same",
    ]
    assert told[0] == "other: added"
    assert main(["savepoints", "diff", "now", str(file), "--rename", "step=other"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "other: renamed from step"
    assert main(["savepoints", "restore", "now", str(file), "--rename", "step=other"]) == 0
    err = capsys.readouterr().err
    assert "stream s goes on from savepoint now, checkpoint " in err
    assert "  other: renamed from step" in err
    assert sum(fabric.read_parquet(out).collect()["n"].to_pylist()) == 4_000
    file.write_text("x = 1")
    assert main(["savepoints", "restore", "now", str(file)]) == 1
    assert "no stream with a name was started" in capsys.readouterr().err
    assert main(["savepoints", "diff", "now", str(file)]) == 1


def program(out: str, name: str, renames: str, rows_per_s: str) -> None:
    """A process of its own, to be killed."""
    pairs = dict([renames.split("=")]) if renames else {}
    with fabric.connect() as session:
        session.checkpoints(interval_s=0.2)
        frame = counted(generated(session, int(rows_per_s)), name, False)
        goes_on(frame, Path(out), "s", renames=pairs)
