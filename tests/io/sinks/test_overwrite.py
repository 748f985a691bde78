"""Overwriting: data files alone are overwrite, and a crash leaves the old rows or the new ones."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fabric
from fabric.errors import FabricError, PlanError, StorageError
from fabric.ids import TaskId
from fabric.io.sinks import abandon, discard, open_sink, overwrite, publish
from fabric.plan.targets import FileTarget

pytestmark = pytest.mark.timeout(120)
OLD, NEW = pa.table({"k": ["old"] * 3}), pa.table({"k": ["new"] * 2})
DATA = (
    "part-00000.parquet", "a.pq", "a.CSV", "a.csv.gz", "b.json", "c.ndjson.zst", "d.arrow",
    "e.feather", "part-00000-c000.snappy.parquet", "_SUCCESS", "._SUCCESS.crc", "_metadata",
    "_common_metadata", "_committed_123", "_started_123", ".part-00000.parquet.crc",
)  # fmt: skip
FOREIGN = (
    "notes.txt", "part-00000", "Makefile", ".bashrc", ".git", "_private.csv", ".hidden.parquet",
    "a.parquet.bak", "_delta_log", "_temporary", "csv", "id_rsa", "_SUCCESS.txt",
)  # fmt: skip
COLUMNS = ("year=2024", "k=", "_k=1", "a.b=c=d")
NO_COLUMNS = ("sub", "_delta_log", "_temporary", "metadata", "=x", ".k=1", "archive.parquet")


def target(path: Path, **more: object) -> FileTarget:
    return FileTarget("csv", str(path), False, "overwrite", **more)  # type: ignore[arg-type]


def written(of: FileTarget, table: pa.Table, job: str = "job-1", n_tasks: int = 2) -> list[bytes]:
    handles = []
    for number in range(n_tasks):
        sink = open_sink(of, table.schema, TaskId(job, 0, number, 0), n_tasks)
        for batch in table.to_batches():
            sink.write(batch)
        handles.append(sink.prepare())
    return handles


def rows(path: Path) -> list[str]:
    return sorted(
        line for part in path.glob("part*") for line in part.read_text().split("\n")[1:] if line
    )


OLD_ROWS, NEW_ROWS = ['"old"'] * 6, ['"new"'] * 4


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A folder that an earlier job wrote."""
    publish(written(target(tmp_path / "out"), OLD, "job-0"))
    return tmp_path / "out"


@given(
    st.sets(st.sampled_from(DATA)), st.sets(st.sampled_from(COLUMNS)),
    st.sets(st.sampled_from(FOREIGN), max_size=2), st.sets(st.sampled_from(NO_COLUMNS), max_size=1),
    st.integers(0, 2),
)  # fmt: skip
def test_a_folder_is_replaced_if_all_in_it_is_data(
    data: set[str], columns: set[str], foreign: set[str], folders: set[str], depth: int
) -> None:
    with TemporaryDirectory() as name:
        root = Path(name)
        deep = root.joinpath(*[f"d{n}={n}" for n in range(depth)])
        deep.mkdir(parents=True, exist_ok=True)
        for folder in {root, deep}:
            for file in data:
                (folder / file).touch()
            for column in columns:
                (folder / column).mkdir()
        for file in foreign:
            (deep / file).touch()
        for each in folders - foreign:
            (deep / each).mkdir()
        if not foreign | folders:
            overwrite.check(root)
            return
        with pytest.raises(PlanError, match="holds more than data files") as caught:
            overwrite.check(root)
        assert all(one in str(caught.value) for one in foreign | folders)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "a named pipe"), (_socket, "a socket"),
        (lambda path: path.symlink_to("/etc/hosts"), "a link"),
        (lambda path: path.symlink_to("."), "a link"),
    ],
)  # fmt: skip
def test_links_and_pipes_are_no_data(
    make: Callable[[Path], None], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "x.csv")
    with pytest.raises(PlanError, match=rf"x\.csv \({said}\)"):
        overwrite.check(tmp_path)


def test_a_single_file_is_no_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.csv")
    with pytest.raises(PlanError, match=r"x\.csv is a named pipe, which is not overwritten"):
        fabric.DataFrame({"k": [1]}).write_csv(tmp_path / "x.csv", mode="overwrite")


def test_what_a_link_leads_to_is_looked_at(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("mine")
    (tmp_path / "out").symlink_to(precious)
    rows = fabric.DataFrame({"k": [1]})
    with pytest.raises(
        PlanError, match=r"/out \(a link to /\S+/precious\) holds more than .*: thesis\.tex; "
    ):
        rows.write_parquet(tmp_path / "out", mode="overwrite")
    assert (precious / "thesis.tex").read_text() == "mine"
    rows.write_parquet(tmp_path / "out", mode="overwrite", force=True)
    assert {name[:5] for name in os.listdir(precious)} == {"part-"}
    assert sorted(os.listdir(tmp_path)) == ["out", "precious"]


def test_what_comes_while_the_job_runs_is_kept(old: Path) -> None:
    handles = written(target(old), NEW)
    (old / "notes.txt").write_text("mine")
    with pytest.raises(PlanError, match=r"notes\.txt; overwriting would remove it"):
        publish(handles)
    abandon(handles)
    assert (rows(old), (old / "notes.txt").read_text()) == (OLD_ROWS, "mine")
    assert os.listdir(old.parent) == ["out"]


@pytest.mark.parametrize("exchanges", [True, False])
def test_what_comes_in_the_last_moment_is_kept(
    old: Path, exchanges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    handles = written(target(old), NEW)
    changed = overwrite._changed_places

    def then_written(new: Path, path: Path, aside: Path) -> Callable[[], None]:
        (path / "notes.txt").write_text("mine")
        return changed(new, path, aside)

    monkeypatch.setattr(overwrite, "_changed_places", then_written)
    if not exchanges:
        monkeypatch.setattr(overwrite, "_exchanged", lambda new, path: False)
    with pytest.raises(PlanError, match=r"notes\.txt"):
        publish(handles)
    abandon(handles)
    assert (rows(old), (old / "notes.txt").read_text()) == (OLD_ROWS, "mine")
    assert os.listdir(old.parent) == ["out"]


def test_force_is_checked_and_shown(tmp_path: Path) -> None:
    rows = fabric.DataFrame({"k": [1]})
    with pytest.raises(PlanError, match='write_csv takes force=True with mode="overwrite" only'):
        rows.write_csv(tmp_path / "out", force=True)
    with pytest.raises(PlanError, match="write_csv needs force to be True or False, got 1"):
        rows.write_csv(tmp_path / "out", mode="overwrite", force=1)  # type: ignore[arg-type]


def test_a_folder_that_may_not_be_emptied_is_refused_before(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != old)  # root may do anything
    with pytest.raises(StorageError, match=r"the folder \S+/out may not be replaced by this user"):
        written(target(old), NEW)
    assert rows(old) == OLD_ROWS


def _dies(step: int, work: Callable[[], None]) -> bool:
    """Whether a process that does `work` died, as by SIGKILL, before its `step`th change."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    steps = count()

    def counted() -> None:
        if next(steps) == step:
            os._exit(9)

    def hook(event: str, _arguments: object) -> None:
        if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link"):
            counted()

    exchanged = overwrite._exchanged

    def exchange(one: Path, other: Path) -> bool:
        counted()
        done = exchanged(one, other)
        counted()
        return done

    code = 1
    with suppress(BaseException):
        overwrite._exchanged = exchange
        sys.addaudithook(hook)
        work()
        code = 0
    os._exit(code)


def _crashes(tmp_path: Path) -> Iterator[tuple[Path, list[bytes]]]:
    """The folder after a crash before each change of the disk that publishing makes."""
    for step in range(100):
        out = tmp_path / str(step) / "out"
        out.parent.mkdir()
        publish(written(target(out), OLD, "job-0"))
        handles = written(target(out), NEW)
        died = _dies(step, partial(publish, handles))
        yield out, handles
        if not died:
            assert step > 5
            return
    raise AssertionError("it never ends")


@pytest.mark.parametrize("exchanges", [True, False])
@pytest.mark.parametrize("then", ["publish", "abandon", "discard"])
def test_a_crash_leaves_the_old_rows_or_the_new(
    then: str, exchanges: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchanges:
        monkeypatch.setattr(overwrite, "_exchanged", lambda new, path: False)
    for out, handles in _crashes(tmp_path):
        seen = rows(out)
        if exchanges or seen:  # between two steps nothing is seen, and nothing lost
            assert seen in (OLD_ROWS, NEW_ROWS)
        if then == "publish":
            publish(handles)
            assert rows(out) == NEW_ROWS
        elif then == "abandon":
            abandon(handles)
        else:
            discard(target(out), "job-1", 0)
        assert rows(out) in ([seen] if seen and then != "publish" else [OLD_ROWS, NEW_ROWS])
        assert os.listdir(out.parent) == ["out"]


def test_a_publish_after_another_overwrite_changes_nothing(old: Path) -> None:
    handles = written(target(old), NEW)
    publish(handles)
    publish(written(target(old), OLD, "job-2"))
    with suppress(FabricError):
        publish(handles)
    assert rows(old) == OLD_ROWS


@pytest.mark.parametrize("mode", ["error", "overwrite"])
def test_no_rows_replace_rows(mode: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    if mode == "overwrite":
        publish(written(target(out), OLD, "job-0"))
    of = FileTarget("csv", str(out), False, mode, partition_by=("k",))  # type: ignore[arg-type]
    table = pa.table({"k": ["a"], "v": [1]}).slice(0, 0)
    handles = written(of, table)
    for _ in range(2):
        publish(handles)
    assert os.listdir(out) == []
    assert os.listdir(tmp_path) == ["out"]
