"""Checkpoints in a bucket: read as stored, or refused; nothing takes from another one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

from fabric.checkpoint.local_copies import LocalCopies
from fabric.checkpoint.manifest import FINAL, Manifest, NodeRecord, Seal, TaskSnapshot
from fabric.checkpoint.object_savepoints import ObjectSavepoints
from fabric.checkpoint.object_storage import ObjectStorage
from fabric.checkpoint.places import Storage
from fabric.checkpoint.storage import FolderStorage
from fabric.errors import (
    ConfigError,
    DataError,
    FabricError,
    InternalError,
    NotFoundError,
    StorageError,
)
from fabric.object_store import Bucket
from tests.checkpoint.conftest import kept

JOB, NODE = "job-1", "Enrich/window ü"


@pytest.fixture
def bucket() -> Bucket:
    return Bucket("s3://data/x", store=MemoryStore())


@pytest.fixture(params=["folder", "bucket", "bucket with local copies"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, bucket: Bucket) -> Storage:
    """The contract of all."""
    made: Storage = FolderStorage(tmp_path / "root")
    if request.param != "folder":
        copies = LocalCopies(tmp_path / "copies") if "local" in request.param else None
        made = ObjectStorage(bucket, copies)
    made.prepare(JOB)
    return made


def snapshot(
    storage: Storage, checkpoint: int, files: dict[str, bytes], *, task: int = 0,
    sst: dict[str, bytes] | None = None, host: Path | None = None,
) -> TaskSnapshot:  # fmt: skip
    """Store a task's files; `sst` are immutable ones, that the host removes at once."""
    writer = storage.writer(JOB, checkpoint, NODE, task, 0)
    for name, data in files.items():
        writer.put(name, data)
    for name, data in (sst or {}).items():
        assert host is not None
        path = host / f"{checkpoint}-{name}"
        path.write_bytes(data)
        writer.link(name, path, f"db/{name}")
        path.unlink()
    groups = range(task * 10, task * 10 + 10)
    return TaskSnapshot(NODE, task, 0, groups, writer.finish())


def commit(storage: Storage, checkpoint: int, *tasks: TaskSnapshot) -> Manifest:
    nodes = (NodeRecord(NODE, "kind", "text"),)
    manifest = Manifest(
        job=JOB, checkpoint=checkpoint, epoch=1, run=0, wall_us=1, tasks=tasks, nodes=nodes
    )
    seal = storage.commit_manifest(manifest)
    assert storage.load(JOB, checkpoint, seal) == manifest
    assert storage.sealed(JOB, checkpoint) == (manifest, seal)
    return manifest


def test_files_are_read_as_stored(storage: Storage, tmp_path: Path) -> None:
    large = os.urandom(20 << 20)
    first = snapshot(storage, 1, {"a": b"1", "b": large, "empty": b""})
    manifest = commit(storage, 1, first, snapshot(storage, 1, {}, task=1))
    storage.verify(manifest)
    assert storage.checkpoints(JOB) == [1]
    assert storage.jobs() == [JOB]
    reader = storage.reader(manifest, first)
    assert reader.names() == ["a", "b", "empty"]
    assert reader.read("b").to_pybytes() == large
    reader.fetch("b", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == large
    with pytest.raises(NotFoundError, match="no file 'c'; files: a, b, empty"):
        reader.read("c")


def test_immutable_files_are_stored_once(storage: Storage, tmp_path: Path) -> None:
    first = commit(
        storage, 1, snapshot(storage, 1, {"c": b"1"}, sst={"x": b"xx", "y": b"y"}, host=tmp_path)
    )
    again = snapshot(storage, 2, {"c": b"2"}, sst={"y": b"y", "z": b"zzz"}, host=tmp_path)
    second = commit(storage, 2, again)
    assert again.files[1].content == first.tasks[0].files[2].content  # referred to by name
    storage.retain(JOB, keep=[2], below=3)
    storage.verify(second)
    assert storage.checkpoints(JOB) == [2]
    with pytest.raises(NotFoundError, match="is missing"):
        storage.load(JOB, 1)
    storage.reader(second, again).fetch("y", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"y"
    storage.remove_job(JOB)
    storage.remove_job(JOB)
    assert storage.jobs() == []


def test_a_content_whose_size_changed_is_a_bug(storage: Storage, tmp_path: Path) -> None:
    commit(storage, 1, snapshot(storage, 1, {}, sst={"x": b"12"}, host=tmp_path))
    with pytest.raises(InternalError, match="has 3 bytes, the content 'db/x' has 2: it changed"):
        snapshot(storage, 2, {}, sst={"x": b"123"}, host=tmp_path)


def test_what_is_being_made_keeps_what_it_refers_to(storage: Storage, tmp_path: Path) -> None:
    commit(storage, 1, snapshot(storage, 1, {}, sst={"x": b"12"}, host=tmp_path))
    task = snapshot(storage, 2, {"own": b"1"}, sst={"x": b"12", "y": b"3"}, host=tmp_path)
    storage.retain(JOB, keep=[1], below=2)
    storage.verify(commit(storage, 2, task))


def test_a_writer_takes_each_name_once_and_abandons(storage: Storage) -> None:
    writer = storage.writer(JOB, 1, NODE, 0, 0)
    writer.put("a", b"1")
    with pytest.raises(InternalError, match="two files a"):
        writer.put("a", b"2")
    with pytest.raises(DataError, match="can't be a file"):
        writer.put("../a", b"2")
    writer.abandon()
    writer.abandon()
    with pytest.raises(StorageError, match="was finished or abandoned"):
        writer.put("b", b"1")
    storage.remove_job(JOB)
    assert storage.jobs() == []


def test_a_manifest_that_is_not_the_committed_one(storage: Storage) -> None:
    commit(storage, 1)
    with pytest.raises(DataError, match="is not the manifest that was committed"):
        storage.load(JOB, 1, Seal(5, 5))
    commit(storage, 1)  # again is fine
    with pytest.raises(InternalError, match="is there, and says another thing"):
        commit(storage, 1, TaskSnapshot("n", 0, 0, range(1)))


def test_the_last_word_of_a_task_is_in_every_later_checkpoint(storage: Storage) -> None:
    ended = snapshot(storage, FINAL, {"rows": b"abc"})
    for number in (4, 5):
        made = commit(storage, number, ended)
        storage.retain(JOB, [number], number)
        storage.verify(made)
    assert storage.reader(made, ended).read("rows").to_pybytes() == b"abc"
    assert storage.begin_again(JOB) == 5
    storage.verify(made)


def test_any_damage_is_found_and_named(bucket: Bucket, tmp_path: Path) -> None:
    storage = ObjectStorage(bucket)
    files = {"state": b"0123456789"}
    task = snapshot(storage, 3, files, sst={"x": b"abc"}, host=tmp_path)
    manifest = commit(storage, 3, task)
    for key in [key for key in bucket.sizes(JOB) if "/tasks/" in key or "/shared/" in key]:
        data, name = bucket.read(key)[0], key.rpartition("/")[2]
        for bad, said in ((data[:-1] + b"~", "is damaged"), (data[1:], "bytes,"), (b"", "has 0")):
            bucket.put(key, bad)
            for read in (
                lambda: storage.verify(manifest),
                lambda: [storage.reader(manifest, task).read(each) for each in ("state", "x")],
            ):
                with pytest.raises(DataError, match=said) as caught:
                    read()
                assert name in str(caught.value)
        bucket.remove([key])
        with pytest.raises(NotFoundError, match="in s3://data/x is missing; was"):
            storage.verify(manifest)
        with pytest.raises(NotFoundError, match="it was stored before"):
            storage.commit_manifest(manifest)
        bucket.put(key, data)
    storage.verify(manifest)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_retention_never_takes_from_what_is_kept(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Any contents that a task has from one checkpoint to the next, any of them kept."""
    folder = tmp_path_factory.mktemp("retain")
    storage = ObjectStorage(bucket := Bucket("s3://data/x", store=MemoryStore()))
    kept_ones: dict[int, Manifest] = {}
    live: set[int] = set()
    next_file = 0
    for checkpoint in range(1, data.draw(st.integers(1, 6)) + 1):
        live -= data.draw(st.sets(st.sampled_from(sorted(live)))) if live else set()
        new = data.draw(st.integers(0, 2))
        live |= set(range(next_file, next_file + new))
        next_file += new
        sst = {f"{name}.sst": b"%d" % name for name in live}
        task = snapshot(storage, checkpoint, {"own": b"1"}, sst=sst, host=folder)
        if data.draw(st.booleans()):
            storage.retain(JOB, kept_ones, checkpoint)
        if data.draw(st.integers(0, 3)) == 3:
            continue  # it is never completed
        kept_ones[checkpoint] = commit(storage, checkpoint, task)
        for old in data.draw(st.sets(st.sampled_from(sorted(kept_ones)))) - {checkpoint}:
            del kept_ones[old]
        storage.retain(JOB, kept_ones, checkpoint)
        assert storage.checkpoints(JOB) == sorted(kept_ones)
        for manifest in kept_ones.values():
            storage.verify(manifest)
    storage.retain(JOB, kept_ones, 100)
    newest = max(kept_ones, default=0)
    named = {
        file.content
        for m in kept_ones.values()
        for t in m.tasks
        for file in t.files
        if file.is_shared
    }
    shared = {key.rpartition("/")[2].rsplit("-", 2)[0] for key in bucket.sizes(f"{JOB}/shared")}
    younger = {content for content in shared if int(content.partition("-")[0]) > newest}
    assert shared - younger == named


def test_savepoints_keep_what_they_name(bucket: Bucket, tmp_path: Path) -> None:
    storage, savepoints = ObjectStorage(bucket), ObjectSavepoints(bucket)
    task = snapshot(storage, 1, {"own": b"1"}, sst={"x": b"abc"}, host=tmp_path)
    made = kept(commit(storage, 1, task))
    savepoints.write(made)
    savepoints.write(made)
    commit(storage, 2, snapshot(storage, 2, {"own": b"2"}))
    with pytest.raises(ConfigError, match="there is a savepoint 'before may' already"):
        savepoints.write(kept(storage.load(JOB, 2)))
    storage.retain(JOB, [2], 3)
    assert [one.name for one in savepoints.list()] == ["before may"]
    savepoints.verify("before may")
    storage.remove_job(JOB)
    savepoints.verify("before may")
    adopted, seal = savepoints.adopt(
        savepoints.load("before may"), {NODE: "other"}, job="job-2", checkpoint=1,
        nodes=(NodeRecord("other", "kind", "text"),), wall_us=3,
    )  # fmt: skip
    assert storage.load("job-2", 1, seal) == adopted
    assert adopted.is_adopted
    savepoints.delete("before may")
    storage.verify(adopted)
    assert not [key for key in bucket.sizes("") if key.startswith((JOB, ".savepoints"))]
    with pytest.raises(NotFoundError, match="no savepoint 'before may'; there are: none"):
        savepoints.load("before may")
    with pytest.raises(NotFoundError, match=r"no savepoint 's3://data/x/.+/may'"):
        savepoints.load("s3://data/x/.savepoints/records/may")
    with pytest.raises(ConfigError, match="can't be the name of a savepoint: it has a '/'"):
        savepoints.load("/data/savepoint")
    for place in ("s3://other/x/.savepoints/records/may", "s3://data/x/.savepoints/records/"):
        with pytest.raises(ConfigError, match=r"is not the URL of a savepoint; it ends in /\.sav"):
            savepoints.load(place)


def test_a_damaged_savepoint_is_listed_and_deleted(bucket: Bucket) -> None:
    storage, savepoints = ObjectStorage(bucket), ObjectSavepoints(bucket)
    savepoints.write(kept(commit(storage, 1, snapshot(storage, 1, {"a": b"1"})), name="may"))
    bucket.put(".savepoints/records/may", b"x")
    (bad,) = savepoints.list()
    assert isinstance(bad.error, FabricError)  # type: ignore[union-attr]
    savepoints.delete("may")
    assert savepoints.list() == []


def test_a_failed_start_frees_its_number(bucket: Bucket) -> None:
    storage = ObjectStorage(bucket)
    commit(storage, 1, snapshot(storage, 1, {"a": b"1"}))
    commit(storage, 2, snapshot(storage, 2, {"a": b"2"}))
    storage.remove(JOB, 2)
    assert storage.checkpoints(JOB) == [1]
    commit(storage, 2, snapshot(storage, 2, {"a": b"3"}))
    assert storage.checkpoints(JOB) == [1, 2]
