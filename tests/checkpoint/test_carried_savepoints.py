"""Savepoints that a folder has and a bucket takes, or the other way: the same bytes, or nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from fabric.checkpoint import places
from fabric.checkpoint.manifest import Manifest, NodeRecord, TaskSnapshot
from fabric.checkpoint.places import load_savepoint, savepoints_at, storage_at
from fabric.checkpoint.savepoint import Savepoint
from fabric.checkpoint.savepoints import Savepoints
from fabric.coordinator.submit.guard import check_restore
from fabric.errors import ConfigError, DataError, FabricError, NotFoundError, PlanError
from fabric.io.places import guarding, of_fabric
from fabric.object_store import Bucket
from fabric.plan_rules import PlanRules
from tests.checkpoint.conftest import kept

JOB = "job-1"
OWN = {"state": os.urandom(9 << 20), "empty": b"", "a": b"1"}
SST = {"x": b"abc" * 9, "y": b"other"}
NODES = (NodeRecord("top_n_3", "kind", "text"),)
PLACES = ("folder", "s3://data/x", "s3://other/y")
PAIRS = [(a, b) for a in PLACES for b in PLACES if a != b]


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """A checkpoint folder of that kind; buckets are in memory."""
    buckets: dict[str, Bucket] = {}

    def bucket(url: str) -> Bucket:
        return buckets.setdefault(url, Bucket(url, store=MemoryStore()))

    monkeypatch.setattr(places, "_bucket", bucket)
    return lambda kind: str(tmp_path / "root") if kind == "folder" else kind


def stored(folder: str, job: str, number: int, host: Path, task: int = 0) -> TaskSnapshot:
    """A task's files; those of `SST` are immutable, and tasks share them."""
    writer = storage_at(folder).writer(job, number, "top_n_3", task, 0)
    for name, data in OWN.items():
        writer.put(name, data)
    host.mkdir(exist_ok=True)
    for name, data in SST.items():
        path = host / f"{number}-{task}-{name}"
        path.write_bytes(data)
        writer.link(name, path, f"db-{name}")
    groups = range(task * 10, task * 10 + 10)
    return TaskSnapshot("top_n_3", task, 0, groups, writer.finish(), n_rows=7)


def savepoint(folder: str, host: Path) -> Savepoint:
    """One that lies in a checkpoint folder; its job is forgotten."""
    storage = storage_at(folder)
    storage.prepare(JOB)
    tasks = tuple(stored(folder, JOB, 3, host, task) for task in range(2))
    made = Manifest(job=JOB, checkpoint=3, epoch=1, run=0, wall_us=1, tasks=tasks, nodes=NODES)
    storage.commit_manifest(made)
    savepoints_at(folder).write(kept(made))
    storage.remove_job(JOB)
    return savepoints_at(folder).load("before may")


def adopt(folder: str, found: Savepoint) -> Manifest:
    nodes = (NodeRecord("renamed", "kind", "text"),)
    made, seal = savepoints_at(folder).adopt(
        found, {"top_n_3": "renamed"}, job="job-2", checkpoint=1, nodes=nodes, wall_us=1
    )
    assert storage_at(folder).load("job-2", 1, seal) == made
    return made


def files_of(folder: str) -> list[str]:
    """All that lies in a checkpoint folder, but for what is there without a checkpoint."""
    if "://" in folder:
        found = list(places._bucket(folder).sizes(""))
    else:
        found = [str(path) for path in Path(folder).rglob("*") if path.is_file()]
    return [each for each in found if not each.endswith((".conditions", "POINTER"))]


def where(found: Savepoint) -> str:
    return places.shown(found.folder or "")


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_job_begins_with_a_savepoint_of_another_place(
    at: Callable[[str], str], tmp_path: Path, source: str, target: str
) -> None:
    there, here = at(source), at(target)
    found = load_savepoint(here, where(savepoint(there, tmp_path / "host")))
    made = adopt(here, found)
    storage = storage_at(here)
    storage.verify(made)
    assert made.n_rows == 14
    for task in made.tasks:
        reader = storage.reader(made, task)
        data = {name: reader.read(name).to_pybytes() for name in reader.names()}
        assert data == {**OWN, **SST}
    later = stored(here, "job-2", 2, tmp_path / "host")
    contents = [{f.name: f.content for f in one.files if f.is_shared} for one in made.tasks]
    again = {file.name: file.content for file in later.files if file.is_shared}
    assert contents == [again, again]  # what is there is not stored once more


@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("damage", ["changed", "cut off", "missing"])
def test_damage_is_found_and_leaves_nothing(
    at: Callable[[str], str], tmp_path: Path, source: str, target: str, damage: str
) -> None:
    there, here = at(source), at(target)
    found = load_savepoint(here, where(savepoint(there, tmp_path / "host")))
    before = files_of(here)
    hurt(there, damage)
    with pytest.raises((DataError, NotFoundError), match=r"state .*(damaged|were stored|missing)"):
        adopt(here, found)
    assert storage_at(here).checkpoints("job-2") == []
    storage_at(here).remove_job("job-2")  # as a start that fails does
    assert files_of(here) == before


def hurt(folder: str, damage: str) -> None:
    """Damage one of the files named ``state`` in a place."""
    if "://" in folder:
        bucket = places._bucket(folder)
        key = next(key for key in sorted(bucket.sizes(".savepoints")) if key.endswith("/state"))
        bucket.remove([key])
        if damage != "missing":
            bucket.put(key, broken(damage))
        return
    path = min(Path(folder).glob(".savepoints/*/*/state"))
    path.unlink()
    if damage != "missing":
        path.write_bytes(broken(damage))


def broken(damage: str) -> bytes:
    data = OWN["state"]
    return data[:-1] if damage == "cut off" else data[:-1] + bytes([data[-1] ^ 1])


def test_a_savepoint_of_a_store_is_exported(at: Callable[[str], str], tmp_path: Path) -> None:
    found, to = savepoint(at("s3://data/x"), tmp_path / "host"), tmp_path / "mine"
    for _ in range(2):  # again is fine
        savepoints_at("s3://data/x").export("before may", to)
    exported = Savepoints(tmp_path).load(str(to))
    Savepoints(tmp_path).verify(exported)
    assert replace(exported, manifest=found.manifest) == found
    assert {file.content for task in exported.manifest.tasks for file in task.files} == {
        "", "db-x", "db-y",
    }  # fmt: skip
    Savepoints(tmp_path).export(exported, tmp_path / "another")
    for folder in (at("folder"), at("s3://other/y")):
        storage_at(folder).verify(adopt(folder, load_savepoint(folder, str(to))))


@pytest.mark.parametrize("damage", ["changed", "cut off", "missing"])
def test_a_damaged_savepoint_is_not_exported(
    at: Callable[[str], str], tmp_path: Path, damage: str
) -> None:
    savepoint(at("s3://data/x"), tmp_path / "host")
    hurt("s3://data/x", damage)
    to = tmp_path / "mine"
    with pytest.raises(FabricError, match=r"state .*(damaged|were stored|missing)"):
        savepoints_at("s3://data/x").export("before may", to)
    assert os.listdir(to) == []
    with pytest.raises(NotFoundError, match="no savepoint in the folder"):
        load_savepoint(at("s3://other/y"), str(to))


def test_what_is_no_savepoint_is_said(at: Callable[[str], str], tmp_path: Path) -> None:
    for folder in (at("folder"), at("s3://data/x")):
        with pytest.raises(ConfigError, match="s3://other/y/may is not the URL of a savepoint; it"):
            load_savepoint(folder, "s3://other/y/may")
        with pytest.raises(NotFoundError, match=r"no savepoint 's3://other/y/.*'; there are: none"):
            load_savepoint(folder, "s3://other/y/.savepoints/records/may")
        with pytest.raises(NotFoundError, match="no savepoint in the folder"):
            load_savepoint(folder, str(tmp_path))


def test_a_savepoint_of_the_own_store_is_copied_there(
    at: Callable[[str], str], tmp_path: Path
) -> None:
    found = savepoint(at("s3://data/x"), tmp_path / "host")
    assert where(found).startswith("s3://data/x/.savepoints/records/before_may~")
    same = load_savepoint("s3://data/x", where(found))
    assert same == found
    assert same.reader is None
    storage_at("s3://data/x").verify(adopt("s3://data/x", same))


def test_where_plans_are_held_to_folders_no_other_store_is_read(tmp_path: Path) -> None:
    url = "s3://data/x/.savepoints/records/may"
    assert check_restore(url, tmp_path) == url
    with guarding(of_fabric(tmp_path, PlanRules(allowed_folders=(tmp_path,)))):
        assert check_restore(url, "s3://data/x") == url
        assert check_restore("may", tmp_path) == "may"
        with pytest.raises(PlanError, match="plans may not touch s3://data/x: by this fabric's"):
            check_restore(url, "s3://data/y")
