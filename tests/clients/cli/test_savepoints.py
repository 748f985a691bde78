"""``fabric savepoints`` of a folder, and beside a running fabric."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from obstore.store import MemoryStore

import fabric
from fabric.checkpoint import places
from fabric.checkpoint.manifest import Manifest
from fabric.checkpoint.object_savepoints import ObjectSavepoints
from fabric.checkpoint.object_storage import ObjectStorage
from fabric.checkpoint.savepoints import Savepoints
from fabric.clients.cli.main import main
from fabric.object_store import Bucket
from tests.checkpoint.conftest import kept
from tests.support.local import local_fabric
from tests.support.wait import wait_until

Run = Callable[..., str]


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint folder with two savepoints of a stream that has ended."""
    folder = tmp_path_factory.mktemp("taken") / "checkpoints"
    with fabric.connect() as session:
        session.checkpoints(interval_s=30, folder=folder)
        rows = fabric.streams.generator(n_splits=1, rows_per_s=1_000, session=session)
        counts = rows.with_watermark("ts", "1 second").group_by("key").window("1 second").count()
        job = counts.named("counts").write_stream(
            fabric.streams.to_blackhole(), name="clicks", parallelism=1
        )
        job.savepoint("monday")
        job.stop(savepoint="of May 3")
    return folder


@pytest.fixture
def folder(taken: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(taken, tmp_path / "checkpoints"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object, code: int = 0) -> str:
        assert main(["savepoints", *map(str, arguments)]) == code
        told = capsys.readouterr()
        return told.out if code == 0 else told.err

    return call


def test_the_savepoints_of_a_folder(folder: Path, run: Run) -> None:
    head, *lines = run("list", "--folder", folder).splitlines()
    assert head.split()[:4] == ["savepoint", "stream", "job", "checkpoint"]
    assert [line[:8] for line in lines] == ["of May 3", "monday  "]
    assert all("clicks" in line and fabric.__version__ in line for line in lines)
    (damaged,) = (folder / ".savepoints").glob("of_may_3~*")
    (damaged / "SAVEPOINT").write_bytes(b"")
    first, last = run("list", "--folder", folder).splitlines()[1:]
    assert first.startswith("monday")
    assert last.startswith(damaged.name)
    assert "SAVEPOINT is cut off" in last
    assert "is cut off" in run("show", "of May 3", "--folder", folder, code=1)
    run("delete", damaged.name, "--folder", folder)
    assert len(run("list", "--folder", folder).splitlines()) == 2


def test_what_is_in_a_savepoint(folder: Path, run: Run) -> None:
    found = Savepoints(folder).load("monday")
    shown = run("show", "monday", "--folder", folder)
    assert f"stream      clicks\njob         {found.manifest.job}" in shown
    assert "Fabric 0.1.0, with 32,768 key groups" in shown
    (counts,) = [line for line in shown.splitlines() if line.startswith("counts ")]
    assert counts.split()[1:4] == ["stream_aggregate", "1", "32,768"]
    (titles,) = [line for line in shown.splitlines() if line.startswith("node ")]
    assert counts[titles.index("keys") :].startswith("key: int64")
    assert all(line.rstrip() in shown for line in found.plan.splitlines())
    assert shown.replace(str(found.folder), "") == run("show", str(found.folder)).replace(
        str(found.folder), ""
    )


def test_a_savepoint_is_deleted(folder: Path, run: Run) -> None:
    assert run("delete", "monday", "--folder", folder) == "deleted savepoint monday\n"
    assert "no savepoint 'monday'; there are: 'of May 3'" in run(
        "delete", "monday", "--folder", folder, code=1
    )
    run("delete", "of May 3", "--folder", folder)
    assert run("list", "--folder", folder) == f"no savepoints are in {folder}\n"
    assert not os.listdir(folder / ".savepoints")


def test_a_savepoint_is_exported(folder: Path, run: Run, tmp_path: Path) -> None:
    to = tmp_path / "backup"
    assert f"monday is in {to}: " in run("export", "monday", to, "--folder", folder)
    shutil.rmtree(folder)
    assert "savepoint   monday" in run("show", to)
    run("export", to, tmp_path / "another")
    (state,) = [path for path in to.rglob("counts.*/*") if path.stat().st_size][:1]
    state.write_bytes(state.read_bytes()[:-1])  # hard-linked to the other one
    assert "were stored" in run("export", to, tmp_path / "third", code=1)
    assert not (tmp_path / "third").exists()


def test_what_is_not_there(run: Run, tmp_path: Path) -> None:
    assert f"there is no folder {tmp_path}/x" in run("list", "--folder", tmp_path / "x", code=1)
    assert "no savepoint in the folder" in run("show", tmp_path, code=1)
    assert run("list", "--folder", tmp_path) == f"no savepoints are in {tmp_path}\n"
    assert "'a/b' can't be the name" in run("show", "a/b", "--folder", tmp_path, code=1)


def test_beside_a_running_fabric(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with local_fabric(1, slots=4) as local:
        monkeypatch.setenv("FABRIC_TOKEN", local.token)
        connect = ("--connect", f"fabric://{local.address}")
        with fabric.connect(connect[1], token=local.token) as session:
            rows = fabric.streams.generator(n_splits=1, rows_per_s=1_000, session=session)
            job = rows.write_stream(fabric.streams.to_blackhole(), parallelism=1)
            wait_until(lambda: job.state == "running", 60)
            job.savepoint("kept")
            job.cancel().release()
        assert "kept" in run("list", *connect).splitlines()[1]
        assert "savepoint   kept" in run("show", "kept", *connect)
        assert "all verified" in run("export", "kept", tmp_path / "out", *connect)
        run("delete", "kept", *connect)
        assert "no savepoint 'kept'; there are: none" in run("show", "kept", *connect, code=1)
        assert run("list", *connect) == "no savepoints are there\n"
        assert "savepoint   kept" in run("show", tmp_path / "out")


def test_a_savepoint_of_a_store_has_its_url(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = Bucket("s3://data/x", store=MemoryStore())
    monkeypatch.setattr(places, "_bucket", lambda url: bucket)
    made = Manifest(job="job-1", checkpoint=1, epoch=1, run=0, wall_us=1, tasks=())
    ObjectStorage(bucket).commit_manifest(made)
    ObjectSavepoints(bucket).write(kept(made, name="may"))
    assert "folder      s3://data/x/.savepoints/" in run("show", "may", "--folder", bucket.url)
    url = "s3://data/x/.savepoints/records/may"
    assert f"folder      {url}" in run("show", url)
    for number, given in enumerate((["may", "--folder", bucket.url], [url])):
        to = tmp_path / f"to {number}"
        assert f"may is in {to}: 0 files, all verified" in run("export", given[0], to, *given[1:])
        assert "savepoint   may" in run("show", to)
    told = run("export", url, "s3://data/y", code=1)
    assert "s3://data/y is not a folder; a savepoint is exported to a folder" in told
