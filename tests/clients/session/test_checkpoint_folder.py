"""Where the checkpoints of an embedded session lie, how long, and how one looks at them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fabric
from fabric import streams
from fabric.checkpoint.storage import FolderStorage
from fabric.clients.cli.main import app
from fabric.config import CheckpointConfig, FabricHome
from fabric.errors import AuthError, ConfigError, FabricError, NotFoundError, StorageError
from fabric.settings import load

KILLED = """
import os, sys, time
import fabric
from fabric import streams

session = fabric.connect().checkpoints(interval_s=0.1)
if len(sys.argv) > 1:
    session.checkpoints(folder=sys.argv[1])
made = streams.generator(rows_per_s=1_000, session=session)
job = made.write_stream(streams.to_blackhole())
while not any(one.state == "published" for one in job.checkpoints()):
    time.sleep(0.02)
print(job.id, flush=True)
os.kill(os.getpid(), 9)
"""


def killed(home: Path, *arguments: str) -> str:
    """The job of a program that was killed once it had a checkpoint."""
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments], env={**os.environ, "FABRIC_HOME": str(home)},
        check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ended.returncode == -9, ended.stderr
    return ended.stdout.strip()


def test_checkpoints_outlive_a_program_that_is_killed(tmp_path: Path) -> None:
    job = killed(home := tmp_path / "new" / "home")
    storage = FolderStorage(home / "checkpoints")
    assert storage.jobs() == [job]
    for number in storage.checkpoints(job):
        storage.verify(storage.load(job, number))
    told = CliRunner().invoke(app, ["checkpoints", "list", "--folder", str(home / "checkpoints")])
    assert told.exit_code == 0
    shown = [line.split() for line in told.output.splitlines()[1:]]
    assert [(line[0], int(line[1])) for line in shown] == [
        (job, number) for number in storage.checkpoints(job)
    ]


def test_a_folder_that_the_session_names_goes_before_the_home(tmp_path: Path) -> None:
    job = killed(tmp_path / "home", str(tmp_path / "mine"))
    assert os.listdir(tmp_path) == ["mine"]
    assert os.listdir(tmp_path / "mine") == [job]


def test_what_ended_well_leaves_nothing_and_what_failed_stays(tmp_path: Path) -> None:
    class Fails(fabric.Process):
        def on_rows(self, ctx, key, rows):
            raise ValueError("broken")

    with fabric.connect().checkpoints(interval_s=0.1, folder=tmp_path / "c") as session:
        made = streams.generator(n_rows=100, session=session)
        endless = streams.generator(rows_per_s=1_000, session=session)
        assert made.collect().num_rows == 100
        made.write_stream(streams.to_blackhole()).wait()
        endless.write_stream(streams.to_blackhole()).cancel()
        next(batches := endless.iter_batches())
        batches.close()
        failing = made.process(Fails(), keys="key", schema={"a": "int64"})
        failed = failing.write_stream(streams.to_blackhole())
        with pytest.raises(FabricError, match="broken"):
            failed.wait()
        assert failed.id in os.listdir(tmp_path / "c")
    assert os.listdir(tmp_path / "c") == [failed.id]


def test_a_folder_that_can_not_be_is_refused_before_a_stream_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir()
    refused: list[tuple[Path, type[FabricError], str]] = [
        (tmp_path / "away" / "c", NotFoundError, r"there is no folder .*/away, and checkpoints"),
        (tmp_path / "file", ConfigError, r"checkpoints lie in a folder, and .*/file is a file"),
        (
            tmp_path / "closed" / "c",
            StorageError,
            r"be written to .*/closed/c .*checkpoints\(folder=\.\.\.",
        ),
    ]
    with fabric.connect() as session:
        monkeypatch.setattr(os, "access", lambda path, mode: path.name != "closed")  # also for root
        for folder, error, text in refused:
            session.checkpoints(folder=folder)
            with pytest.raises(error, match=text):
                streams.generator(n_rows=9, session=session).write_stream(tmp_path / "out")
        assert session.jobs() == []
    assert sorted(os.listdir(tmp_path)) == ["closed", "file"]


def test_a_home_that_can_not_be_made_says_what_else_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("FABRIC_HOME", str(tmp_path / "file" / "home"))
    with fabric.connect() as session:
        fabric.from_dict({"a": [1]}).collect()  # tables need no home
        with pytest.raises(StorageError, match=r"file/home: .*checkpoints\(folder=.*FABRIC_HOME"):
            streams.generator(n_rows=9, session=session).collect()


def test_checkpoints_lie_in_no_home_that_others_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setenv("FABRIC_HOME", str(tmp_path))
    with fabric.connect() as session, pytest.raises(AuthError, match="run: chmod go-w"):
        streams.generator(n_rows=9, session=session).collect()


def test_urls_that_no_folder_can_have_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = r"can't reach s3://?b/ck: paths are of local.* systems; name a folder that"
    with fabric.connect() as session:
        for folder in ("hdfs://b/ck", Path("hdfs://b/ck")):
            with pytest.raises(ConfigError, match=r"^checkpoints can't reach hdfs://?b/ck"):
                session.checkpoints(folder=folder)
        with pytest.raises(ConfigError, match="not a bucket URL") as caught:
            session.checkpoints(folder="s3://ak:secret@b/ck")
        assert "secret" not in str(caught.value)
        with pytest.raises(ConfigError, match=r"write the path: '/tmp/ck'$"):
            session.checkpoints(folder="file:///tmp/ck")
    found = load(CheckpointConfig, "checkpoint", {"FABRIC_CHECKPOINT_FOLDER": "s3://b/ck"})
    assert found.folder == "s3://b/ck"
    with pytest.raises(ConfigError, match=f"^the home folder {sentence}"):
        FabricHome(Path("s3://b/ck"))
    monkeypatch.setenv("FABRIC_HOME", "s3://b/ck")
    with pytest.raises(ConfigError, match=f"^FABRIC_HOME {sentence}"), fabric.connect() as session:
        streams.generator(n_rows=9, session=session).collect()


@pytest.mark.parametrize("wrong", ["", " ", 5])
def test_a_folder_has_a_name(wrong: object) -> None:
    with fabric.connect() as session, pytest.raises(ConfigError, match="path of a folder, got"):
        session.checkpoints(folder=wrong)  # type: ignore[arg-type]
