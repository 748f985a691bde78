"""A stream's program run twice: no row is there twice, whatever killed the first one, and when."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryFile

import pyarrow.dataset as ds
import pytest

import fabric
from fabric import streams
from fabric.clients.dataframe.frame import DataFrame
from fabric.clients.session.session import Session
from fabric.errors import ConfigError, PlanError
from tests.support import forked
from tests.support.held import held
from tests.support.sampled import sampled
from tests.support.wait import wait_until

N_ROWS = 4_000
ROWS = sorted((n % 2, n // 2) for n in range(N_ROWS))
PLACES = (
    "stream.sink-prepared:2",
    "stream.snapshot-stored:1",
    "checkpoint.acknowledged:2",
    "stream.publishing:1",
    "stream.publishing:2",
    "stream.merging:1",
)


def program(folder: str, rows_per_s: str) -> None:
    """A process of its own, to be killed."""
    session = fabric.connect().checkpoints(interval_s=0.2)
    made = streams.generator(n_rows=N_ROWS, rows_per_s=int(rows_per_s), n_splits=2, session=session)
    made.write_stream(streams.to_files(folder)).wait()


def run(folder: Path, rows_per_s: int, home: Path, failpoint: str = "") -> tuple[int, str]:
    environ = {
        **os.environ, "FABRIC_HOME": str(home), forked.HELD: str(folder.parent / "held"),
        **({"FABRIC_TESTING": "1", "FABRIC_FAILPOINT": failpoint} if failpoint else {}),
    }  # fmt: skip
    hold = held(folder.parent / "held") if failpoint else nullcontext()
    with hold, TemporaryFile() as out:
        arguments = [str(folder), str(rows_per_s)]
        code = forked.program(f"{__name__}:program", arguments, out, environ).wait(120)
        out.seek(0)
        return code, out.read().decode()


def rows_in(folder: Path) -> list[tuple[int, int]]:
    if not any(folder.iterdir()):
        return []
    table = ds.dataset(folder, format="parquet").to_table()
    return sorted(zip(table["split"].to_pylist(), table["row"].to_pylist(), strict=True))


@pytest.mark.parametrize("place", sampled(PLACES, 2))
def test_a_program_that_was_killed_and_is_run_again_doubles_no_row(
    tmp_path: Path, place: str
) -> None:
    out, home = tmp_path / "out", tmp_path / "home"
    code, _ = run(out, 4_000, home, f"{place}:exit")
    assert code == 137
    before = rows_in(out)
    code, told = run(out, 0, home)
    assert code != 0
    assert 'or use mode="append" to add rows to what is there' in told
    assert str(out) in told
    assert rows_in(out) == before
    assert len(set(before)) == len(before) < N_ROWS
    subprocess.run(re.search(r"rm -r [^\n]+?(?=\. A stream with)", told)[0], shell=True, check=True)
    assert not [name for name in os.listdir(tmp_path) if name != "home"]
    assert run(out, 0, home)[0] == 0
    assert rows_in(out) == ROWS


@pytest.fixture
def session() -> Iterator[Session]:
    with fabric.connect() as made:
        yield made.checkpoints(interval_s=0.2)


def rows(session: Session, **options: int) -> DataFrame:
    return streams.generator(n_rows=N_ROWS, n_splits=2, session=session, **options)


def test_the_same_program_again_is_refused_and_may_append(session: Session, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()  # an empty folder is as good as none
    first = rows(session).write_stream(out).wait()
    with pytest.raises(PlanError, match=rf"/out holds {first.id}.*, written by job {first.id}; "):
        rows(session).write_stream(out)
    assert rows_in(out) == ROWS
    rows(session).write_stream(out, mode="append").wait()
    assert rows_in(out) == sorted(ROWS * 2)
    assert os.listdir(tmp_path) == ["out"]


def test_a_folder_that_a_job_has_begun_to_write_is_its_own(
    session: Session, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    first = rows(session, rows_per_s=2_000).write_stream(out)
    wait_until(out.exists, 60)
    with pytest.raises(PlanError, match=rf"/out .* by job {first.id}; "):
        rows(session).write_stream(out)
    rows(session).write_stream(out, mode="append").wait()
    assert first.wait().state == "finished"
    assert rows_in(out) == sorted(ROWS * 2)


def test_side_outputs_are_refused_as_well(session: Session, tmp_path: Path) -> None:
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "mine.csv").write_text("a,b\n")
    made = rows(session)
    with pytest.raises(PlanError, match=r"/late holds mine\.csv; "):
        made.write_stream(tmp_path / "out", also={tmp_path / "late": made})
    assert os.listdir(tmp_path) == ["late"]


def test_two_streams_of_a_job_into_one_place_are_refused(session: Session, tmp_path: Path) -> None:
    made, out = rows(session), tmp_path / "out"
    (tmp_path / "alias").symlink_to(tmp_path / "out")
    for other in (str(out), streams.to_files(out, format="csv"), tmp_path / "alias"):
        with pytest.raises(PlanError, match=r"two streams of this job are written to .*/out; "):
            made.write_stream(out, also={other: made.select("row")})
    with pytest.raises(PlanError, match=r"written to dataset 'd'; give each a place of its own"):
        made.write_stream(streams.to_dataset("d"), also={streams.to_dataset("d", keys="key"): made})
    assert not out.exists()
    made.write_stream(out, also={str(out): made}, mode="append").wait()
    assert rows_in(out) == sorted(ROWS * 2)


def test_what_is_appended_has_the_same_format_and_columns(session: Session, tmp_path: Path) -> None:
    out, made = tmp_path / "out", rows(session)
    made.write_stream(out).wait()
    with pytest.raises(PlanError, match=r"holds job-.*\.parquet, and this stream would add csv fi"):
        made.write_stream(out, format="csv", mode="append")
    with pytest.raises(PlanError, match=r"don't fit .*/out: it has no column 'split', in "):
        made.select("row").write_stream(out, mode="append")
    with pytest.raises(PlanError, match=r"don't fit .*/out: its columns are in another order: ts"):
        made.select("ts", "value", "key", "row", "split").write_stream(out, mode="append")
    made.write_stream(out, mode="append").wait()
    assert fabric.read_parquet(out).count() == 2 * N_ROWS
    assert rows_in(out) == sorted(ROWS * 2)


def test_what_is_appended_to_a_dataset_has_its_columns(session: Session) -> None:
    to, made = streams.to_dataset("d", keys="key"), rows(session)
    made.write_stream(to).wait()
    n_jobs = len(session.jobs())
    wrong = r"this stream can't be appended to dataset 'd': "
    with pytest.raises(PlanError, match=rf"{wrong}it has no column 'split'; \.cast or \.select"):
        made.drop("split").write_stream(to, mode="append")
    text = made.with_columns(fabric.col("row").cast("string"), replace=True)
    with pytest.raises(PlanError, match=rf"{wrong}column 'row' is string, expected int64; "):
        text.write_stream(to, mode="append")
    with pytest.raises(ConfigError, match=r"by \['key'\], an append can't partition by \['row'\]"):
        made.write_stream(streams.to_dataset("d", keys="row"), mode="append")
    with pytest.raises(PlanError, match="this table can't be appended to dataset 'd': it has no"):
        fabric.from_dict({"a": [1]}, session=session).write_dataset("d", mode="append")
    assert len(session.jobs()) == n_jobs
    made.write_stream(to, mode="append").wait()
    assert session.read_dataset("d").count() == 2 * N_ROWS


def test_a_dataset_is_its_own_jobs_too(session: Session) -> None:
    first = rows(session).write_stream(streams.to_dataset("d")).wait()
    with pytest.raises(PlanError, match=rf"dataset 'd' exists already, made by job {first.id}: "):
        rows(session).write_stream(streams.to_dataset("d"))
    rows(session).write_stream(streams.to_dataset("d"), mode="append").wait()
    assert session.read_dataset("d").count() == 2 * N_ROWS
    fabric.from_dict({"a": [1]}).write_dataset("t")
    with pytest.raises(PlanError, match=r"dataset 't' exists already"):
        rows(session).write_stream(streams.to_dataset("t"))
    session.drop_dataset("d")
    rows(session).write_stream(streams.to_dataset("d")).wait()
    assert session.read_dataset("d").count() == N_ROWS


@pytest.mark.parametrize("to", ["folder", "dataset"])
def test_of_programs_that_start_at_once_one_writes(
    session: Session, tmp_path: Path, to: str
) -> None:
    n_jobs = 4
    at = threading.Barrier(n_jobs)

    def run(_: int) -> str:
        target = tmp_path / "out" if to == "folder" else streams.to_dataset("d")
        made = rows(session)
        at.wait()
        try:
            return made.write_stream(target).wait().state
        except PlanError as error:
            return str(error)

    with ThreadPoolExecutor(n_jobs) as threads:
        ended = sorted(threads.map(run, range(n_jobs)))
    assert ended.count("finished") == 1
    assert sum('use mode="append"' in said for said in ended) == n_jobs - 1
    if to == "folder":
        assert rows_in(tmp_path / "out") == ROWS
        wait_until(lambda: os.listdir(tmp_path) == ["out"])
    else:
        assert session.read_dataset("d").count() == N_ROWS


@pytest.mark.parametrize("to", ["folder", "dataset"])
def test_a_job_that_is_restarted_is_no_other_job(session: Session, tmp_path: Path, to: str) -> None:
    out, flag = tmp_path / "out", tmp_path / "mended"

    class Breaks(fabric.Process):
        def on_rows(self, ctx, key, batch):
            if not flag.exists() and batch["row"][0].as_py() > N_ROWS // 8:
                raise ValueError("broken")
            yield {"split": batch["split"], "row": batch["row"]}

    made = rows(session, rows_per_s=4_000, n_keys=1).process(
        Breaks(), keys="key", schema={"split": "int64", "row": "int64"}
    )
    job = made.write_stream(out if to == "folder" else streams.to_dataset("d"))
    with pytest.raises(fabric.errors.FabricError, match="broken"):
        job.wait()
    flag.touch()
    job.restart().wait()
    if to == "folder":
        assert rows_in(out) == ROWS
    else:
        assert session.read_dataset("d").count() == N_ROWS
