"""What was stored is read back, or refused before anybody sees it; nothing takes from another."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric._cython.shuffle.checksum import crc32c
from fabric.checkpoint.files import Files
from fabric.checkpoint.manifest import FINAL, FileRecord, Manifest, Seal, TaskSnapshot
from fabric.checkpoint.storage import FolderStorage
from fabric.errors import DataError, InternalError, NotFoundError, StorageError
from tests.support.disk import mounted

JOB, NODE = "job-1", "Enrich/window ü"


@pytest.fixture
def storage(tmp_path: Path) -> FolderStorage:
    made = FolderStorage(tmp_path / "root")
    made.prepare(JOB)
    return made


def snapshot(
    storage: FolderStorage, checkpoint: int, files: dict[str, bytes], *, task: int = 0,
    attempt: int = 0, sst: dict[str, Path] | None = None,
) -> TaskSnapshot:  # fmt: skip
    """Store a task's files; `sst` are immutable ones of the host."""
    writer = storage.writer(JOB, checkpoint, NODE, task, attempt)
    for name, data in files.items():
        writer.put(name, data)
    for name, path in (sst or {}).items():
        writer.link(name, path, f"db-{name}")
    return TaskSnapshot(NODE, task, attempt, range(task * 10, task * 10 + 10), writer.finish())


def commit(storage: FolderStorage, checkpoint: int, *tasks: TaskSnapshot) -> Manifest:
    manifest = Manifest(job=JOB, checkpoint=checkpoint, epoch=1, run=0, wall_us=1, tasks=tasks)
    seal = storage.commit_manifest(manifest)
    assert storage.load(JOB, checkpoint, seal) == manifest
    return manifest


def stored(tmp_path: Path, checkpoint: int) -> list[Path]:
    """All files of a checkpoint but its manifest."""
    folder = tmp_path / "root" / JOB / f"{checkpoint:020}"
    return sorted(path for path in folder.glob("*/*") if path.is_file())


def test_files_are_read_as_stored(storage: FolderStorage, tmp_path: Path) -> None:
    large = os.urandom(9 << 20)
    first = snapshot(storage, 1, {"a": b"1", "b": large, "empty": b""})
    manifest = commit(storage, 1, first, snapshot(storage, 1, {}, task=1))
    storage.verify(manifest)
    assert storage.checkpoints(JOB) == [1]
    reader = storage.reader(manifest, first)
    assert reader.names() == ["a", "b", "empty"]
    assert reader.read("b").to_pybytes() == large
    reader.fetch("a", tmp_path / "copy")
    (tmp_path / "copy").write_bytes(b"other")  # it is a copy
    storage.verify(manifest)
    with pytest.raises(NotFoundError, match="no file 'c'; files: a, b, empty"):
        reader.read("c")


def test_buffers_of_any_type_are_stored(storage: FolderStorage) -> None:
    data = pa.array([1, 2, -3]).buffers()[1]
    task = snapshot(storage, 1, {"a": data, "b": memoryview(b"xy")})  # type: ignore[dict-item]
    reader = storage.reader(commit(storage, 1, task), task)
    assert reader.read("a").equals(data)
    assert reader.read("b").to_pybytes() == b"xy"


class Counting(Files):
    """Counts what is read or copied whole."""

    n_walks = 0

    def checksum(self, path: Path) -> tuple[int, int]:
        self.n_walks += 1
        return super().checksum(path)

    def copy(self, source: Path, to: Path) -> tuple[int, int]:
        self.n_walks += 1
        return super().copy(source, to)


class NoLinks(Counting):
    """A file system, or a disk of another host."""

    def link(self, source: Path, to: Path) -> None:
        raise OSError(errno.EXDEV, "cross-device link")


@pytest.mark.parametrize("files", [Counting(), NoLinks()])
def test_immutable_files_are_stored_once(tmp_path: Path, files: Counting) -> None:
    storage = FolderStorage(tmp_path / "root", files)
    storage.prepare(JOB)
    hosts = {name: tmp_path / name for name in ("1.sst", "2.sst", "3.sst")}
    for name, path in hosts.items():
        path.write_bytes(name.encode() * 1000)
    old = {name: hosts[name] for name in ("1.sst", "2.sst")}
    first = commit(storage, 1, snapshot(storage, 1, {"current": b"1"}, sst=old))
    new = {name: hosts[name] for name in ("2.sst", "3.sst")}
    files.n_walks = 0
    second = commit(storage, 2, snapshot(storage, 2, {"current": b"2"}, sst=new))
    assert files.n_walks == (2 if isinstance(files, NoLinks) else 1)
    for path in hosts.values():
        path.unlink()  # the task moved on
    storage.verify(first)
    storage.retain(JOB, keep=[2], below=3)
    storage.verify(second)
    assert storage.checkpoints(JOB) == [2]
    with pytest.raises(NotFoundError, match="MANIFEST is missing in the checkpoint folder"):
        storage.load(JOB, 1)
    (task,) = second.tasks
    storage.reader(second, task).fetch("2.sst", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"2.sst" * 1000
    shared = tmp_path / "root" / JOB / "shared"
    if not isinstance(files, NoLinks):
        assert sorted(p.name.split("~")[0] for p in shared.iterdir()) == ["db-2_sst", "db-3_sst"]
    (tmp_path / "back").unlink()  # as long as somebody uses it, it costs nothing to share it
    storage.retain(JOB, keep=[], below=9)
    assert list((tmp_path / "root" / JOB).glob("*/*")) == []
    storage.remove_job(JOB)
    storage.remove_job(JOB)
    assert list((tmp_path / "root").iterdir()) == []


def test_a_content_whose_size_changed_is_a_bug(storage: FolderStorage, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12")
    snapshot(storage, 1, {}, sst={"x": path})
    path = tmp_path / "y"
    path.write_bytes(b"123")
    with pytest.raises(InternalError, match="y has 3 bytes, the content 'db-x' has 2: it changed"):
        snapshot(storage, 2, {}, sst={"x": path})


def test_a_file_of_the_host_that_is_gone(storage: FolderStorage, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="x can't be stored in a checkpoint: No such file"):
        snapshot(storage, 1, {}, sst={"a": tmp_path / "x"})


def test_what_is_being_made_keeps_what_it_links(storage: FolderStorage, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12")
    commit(storage, 1, snapshot(storage, 1, {}, sst={"x": path}))
    path.unlink()
    path.write_bytes(b"12")
    task = snapshot(storage, 2, {}, sst={"x": path})
    storage.retain(JOB, keep=[], below=2)  # checkpoint 2 has no manifest yet
    storage.verify(commit(storage, 2, task))


def damage_each(manifest: Manifest, tmp_path: Path) -> Iterator[str]:
    """One damage after the other, each undone; what is to be said."""
    paths = stored(tmp_path, manifest.checkpoint)
    for path in paths:
        data = path.read_bytes()
        for place in range(len(data)):
            path.write_bytes(data[:place] + bytes([data[place] ^ 64]) + data[place + 1 :])
            yield f"{path.name} is damaged"
        for size in range(len(data)):
            path.write_bytes(data[:size])
            yield f"{path.name} has {size} bytes, {len(data)} were stored"
        path.write_bytes(data + b"0")
        yield f"{path.name} has {len(data) + 1} bytes"
        path.unlink()
        yield f"{path.name} is missing"
        path.mkdir()
        yield f"{path.name} is a folder"
        path.rmdir()
        path.write_bytes(data)


def test_any_damage_is_found_and_named(storage: FolderStorage, tmp_path: Path) -> None:
    files = {"state": b"0123456789", "timers": b"abcdef"}
    manifest = commit(storage, 3, snapshot(storage, 3, files), snapshot(storage, 3, files, task=1))
    for said in damage_each(manifest, tmp_path):
        with pytest.raises((DataError, NotFoundError), match=said) as caught:
            storage.verify(manifest)
        assert str(tmp_path) not in str(caught.value)
    storage.verify(manifest)


def test_files_of_another_checkpoint_are_found(storage: FolderStorage, tmp_path: Path) -> None:
    first = commit(storage, 1, snapshot(storage, 1, {"state": b"old"}))
    second = commit(storage, 2, snapshot(storage, 2, {"state": b"new"}))
    (one,), (two,) = stored(tmp_path, 1), stored(tmp_path, 2)
    aside = tmp_path / "aside"
    one.rename(aside), two.rename(one), aside.rename(two)
    for manifest in (first, second):
        with pytest.raises(DataError, match="state is damaged"):
            storage.verify(manifest)
        with pytest.raises(DataError, match="state is damaged"):
            storage.reader(manifest, manifest.tasks[0]).read("state")
    shutil.copy(one.parents[1] / "MANIFEST", two.parents[1] / "MANIFEST")
    with pytest.raises(InternalError, match="is of job job-1, checkpoint 1: it was moved"):
        storage.load(JOB, 2)


def test_a_manifest_that_is_not_the_committed_one(storage: FolderStorage) -> None:
    commit(storage, 1)
    with pytest.raises(DataError, match=r"MANIFEST is not the manifest that was committed"):
        storage.load(JOB, 1, Seal(5, 5))
    commit(storage, 1)  # again is fine
    with pytest.raises(InternalError, match="is there, and says another thing"):
        commit(storage, 1, TaskSnapshot("n", 0, 0, range(1)))


def test_a_folder_that_is_away(storage: FolderStorage, tmp_path: Path) -> None:
    manifest = commit(storage, 1, snapshot(storage, 1, {"a": b"1"}))
    (tmp_path / "root").rename(tmp_path / "elsewhere")
    for call in (
        lambda: storage.load(JOB, 1),
        lambda: storage.verify(manifest),
        lambda: storage.checkpoints(JOB),
        lambda: snapshot(storage, 2, {"a": b"1"}),
        lambda: storage.commit_manifest(manifest),
    ):
        with pytest.raises(StorageError, match="is not there; is its disk mounted"):
            call()
    (tmp_path / "elsewhere").rename(tmp_path / "root")
    (tmp_path / "root" / JOB).rename(tmp_path / "elsewhere")
    for call in (lambda: storage.load(JOB, 1), lambda: storage.verify(manifest)):
        with pytest.raises(StorageError, match="the job's part of it, is not there"):
            call()  # not a damage: it may come back
    (tmp_path / "elsewhere").rename(tmp_path / "root" / JOB)
    storage.verify(storage.load(JOB, 1))
    (tmp_path / "root").rename(tmp_path / "elsewhere")
    (tmp_path / "root").write_bytes(b"")
    with pytest.raises(StorageError, match="could not be written in the checkpoint folder"):
        storage.prepare(JOB)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EIO, errno.EACCES, errno.ENOSPC])
def test_a_refusal_says_why_and_leaves_nothing(tmp_path: Path, number: int) -> None:
    class Refusing(Files):
        def sync(self, path: Path) -> None:
            if path.name == "state":
                raise OSError(number, os.strerror(number))
            super().sync(path)

    storage = FolderStorage(tmp_path / "root", Refusing())
    storage.prepare(JOB)
    why = {errno.EROFS: "is read-only", errno.ENOSPC: "is full", errno.EACCES: "by this user"}
    writer = storage.writer(JOB, 1, NODE, 0, 0)
    writer.put("other", b"1")
    with pytest.raises(StorageError, match=why.get(number, "Input/output error")):
        writer.put("state", b"1")
    assert stored(tmp_path, 1) == []
    with pytest.raises(StorageError, match="was finished or abandoned"):
        writer.put("more", b"1")
    writer.abandon()


def test_a_writer_takes_each_name_once(storage: FolderStorage) -> None:
    writer = storage.writer(JOB, 1, NODE, 0, 0)
    writer.put("a", b"1")
    with pytest.raises(InternalError, match="two files a"):
        writer.put("a", b"2")
    with pytest.raises(DataError, match="can't be a file"):
        writer.put("../a", b"2")
    assert writer.finish() == (FileRecord("a", 1, crc32c(b"1")),)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB (tests run as root)."""
    with mounted(tmp_path / "disk", "size=256k") as disk:
        yield disk


def test_a_full_disk_fails_one_checkpoint_and_not_the_next(disk: Path) -> None:
    storage = FolderStorage(disk / "root")
    storage.prepare(JOB)
    kept = commit(storage, 1, snapshot(storage, 1, {"a": bytes(50_000)}))
    for checkpoint in (2, 3):
        with pytest.raises(StorageError, match="the disk of the checkpoint folder is full: job-1"):
            snapshot(storage, checkpoint, {"a": bytes(90_000), "b": bytes(200_000)})
        storage.verify(kept)
    commit(storage, 4, snapshot(storage, 4, {"a": bytes(90_000)}))
    task = snapshot(storage, 5, {"a": b"1"})
    filler = disk / "filler"
    with pytest.raises(OSError, match="No space"):
        filler.write_bytes(bytes(1 << 20))
    with pytest.raises(StorageError, match="MANIFEST was not written; make room"):
        commit(storage, 5, task)
    assert storage.checkpoints(JOB) == [1, 4]
    filler.unlink()
    storage.verify(commit(storage, 5, task))
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    with pytest.raises(StorageError, match="the checkpoint folder is read-only"):
        snapshot(storage, 6, {"a": b"1"})
    storage.verify(kept)


@settings(deadline=None, max_examples=50)  # it syncs a real disk
@given(st.data())
def test_retention_never_takes_from_what_is_kept(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Any contents shared by any checkpoints, any of them kept; against a dictionary."""
    folder = tmp_path_factory.mktemp("retain")
    storage = FolderStorage(folder / "root")
    storage.prepare(JOB)
    kept: dict[int, Manifest] = {}
    for checkpoint in range(1, data.draw(st.integers(1, 5)) + 1):
        names = data.draw(st.sets(st.integers(0, 4), max_size=3))
        sst = {f"{name}.sst": folder / f"{name}.{checkpoint}" for name in names}
        for name, path in sst.items():
            path.write_bytes(name.encode())  # a new file of the host, the same content
        task = snapshot(storage, checkpoint, {"own": b"%d" % checkpoint}, sst=sst)
        for path in sst.values():
            path.unlink()
        if data.draw(st.integers(0, 3)) == 3:
            continue  # it is never completed
        if data.draw(st.booleans()):
            storage.retain(JOB, kept, checkpoint)
        kept[checkpoint] = commit(storage, checkpoint, task)
        dropped = data.draw(st.sets(st.sampled_from(sorted(kept))))
        for old in dropped - {checkpoint}:
            del kept[old]
        storage.retain(JOB, kept, checkpoint)
        assert storage.checkpoints(JOB) == sorted(kept)
        for manifest in kept.values():
            storage.verify(manifest)
    storage.retain(JOB, kept, 100)
    found = set((folder / "root" / JOB).glob("0*/*/*.sst"))
    shared = list((folder / "root" / JOB / "shared").glob("*"))
    assert {path.stat().st_ino for path in found} == {path.stat().st_ino for path in shared}
    shutil.rmtree(folder)


def test_a_manifest_of_files_that_are_gone_is_not_written(
    storage: FolderStorage, tmp_path: Path
) -> None:
    task = snapshot(storage, 1, {"state": b"1"})
    (path,) = stored(tmp_path, 1)
    path.unlink()
    with pytest.raises(NotFoundError, match="state is missing in the checkpoint folder"):
        commit(storage, 1, task)
    assert storage.checkpoints(JOB) == []


def test_files_of_a_task_that_has_ended_are_in_every_later_checkpoint(tmp_path: Path) -> None:
    """Its last word is written once, and stands for all checkpoints that follow."""
    storage = FolderStorage(tmp_path)
    storage.prepare("j")
    writer = storage.writer("j", FINAL, "collect#result", 0, 2)
    writer.put("rows", b"abc")
    ended = TaskSnapshot("collect#result", 0, 2, range(8), writer.finish())
    for number in (4, 5):
        made = Manifest(job="j", checkpoint=number, epoch=1, run=0, wall_us=0, tasks=(ended,))
        assert storage.commit_manifest(made) == storage.commit_manifest(made)
    storage.retain("j", [5], 6)
    assert storage.checkpoints("j") == [5]
    found = storage.load("j", 5)
    storage.verify(found)
    assert storage.reader(found, ended).read("rows").to_pybytes() == b"abc"
    storage.remove_job("j")
    assert not list(tmp_path.iterdir())


def test_a_manifest_tells_of_a_checkpoint_before_it_is_complete(storage: FolderStorage) -> None:
    assert not storage.may_have_after(JOB, 0)
    commit(storage, 1, snapshot(storage, 1, {"a": b"1"}))
    two = snapshot(storage, 2, {"a": b"2"})  # nobody has committed it
    snapshot(storage, FINAL, {"a": b"3"}, task=1)
    assert [storage.may_have_after(JOB, number) for number in (0, 1)] == [True, False]
    commit(storage, 2, two)
    assert [storage.may_have_after(JOB, number) for number in (1, 2)] == [True, False]
    storage.remove(JOB, 2)
    assert not storage.may_have_after(JOB, 1)


def test_a_file_that_stays_as_it_is_is_linked_and_compared(
    storage: FolderStorage, tmp_path: Path
) -> None:
    task = snapshot(storage, 1, {"a": b"1234"})
    reader = storage.reader(commit(storage, 1, task), task)
    (path,) = stored(tmp_path, 1)
    reader.fetch("a", tmp_path / "own")
    reader.fetch("a", tmp_path / "fixed", fixed=True)
    assert not path.samefile(tmp_path / "own")
    assert path.samefile(tmp_path / "fixed")
    path.write_bytes(b"12x4")
    with pytest.raises(DataError, match="a is damaged"):
        reader.fetch("a", tmp_path / "again", fixed=True)
