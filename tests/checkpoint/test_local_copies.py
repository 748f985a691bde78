"""Files that an agent keeps of its last checkpoint: read in place of the store, or not at all."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from fabric.checkpoint.local_copies import LocalCopies
from fabric.checkpoint.manifest import Manifest, TaskSnapshot
from fabric.checkpoint.object_storage import ObjectStorage
from fabric.errors import NotFoundError
from fabric.object_store import Bucket
from tests.checkpoint.test_object_storage import JOB, commit, snapshot

STATE = {"rows": b"abc" * 1000, "empty": b""}


@pytest.fixture
def bucket() -> Bucket:
    return Bucket("s3://data/x", store=MemoryStore())


@pytest.fixture
def copies(tmp_path: Path) -> LocalCopies:
    return LocalCopies(tmp_path / "copies")


def stored(storage: ObjectStorage, checkpoint: int, host: Path) -> tuple[Manifest, TaskSnapshot]:
    one = snapshot(storage, checkpoint, STATE, sst={"1.sst": b"x" * 100}, host=host)
    return commit(storage, checkpoint, one), one


def read(storage: ObjectStorage, manifest: Manifest, one: TaskSnapshot, to: Path) -> list[bytes]:
    reader = storage.reader(manifest, one)
    found = []
    for name in reader.names():
        path = to / f"{time.monotonic_ns()}"
        reader.fetch(name, path)
        assert path.read_bytes() == reader.read(name).to_pybytes()
        found.append(path.read_bytes())
    return found


def files(copies: LocalCopies) -> list[Path]:
    return [path for path in copies.folder.rglob("*") if path.is_file()]


def test_a_task_restores_without_its_objects(
    bucket: Bucket, copies: LocalCopies, tmp_path: Path
) -> None:
    storage = ObjectStorage(bucket, copies)
    for checkpoint in (1, 2):  # the second one refers to the object of the first
        manifest, one = stored(storage, checkpoint, tmp_path)
        storage.on_complete(JOB, checkpoint)
    assert [path.name for path in (copies.folder / JOB).iterdir()] == [f"{2:020}"]
    expected = read(ObjectStorage(bucket), manifest, one, tmp_path)
    bucket.remove(bucket.sizes(""))
    assert read(storage, manifest, one, tmp_path) == expected
    with pytest.raises(NotFoundError):
        read(ObjectStorage(bucket), manifest, one, tmp_path)


@pytest.mark.parametrize("damage", ["changed", "cut", "removed"])
def test_what_is_missing_or_damaged_comes_from_the_store(
    bucket: Bucket, copies: LocalCopies, tmp_path: Path, damage: str
) -> None:
    storage = ObjectStorage(bucket, copies)
    manifest, one = stored(storage, 1, tmp_path)
    expected = read(storage, manifest, one, tmp_path)
    for path in files(copies):
        if damage == "removed":
            path.unlink()
        elif path.stat().st_size:
            data = path.read_bytes()
            path.unlink()  # what was fetched is linked to it
            path.write_bytes(data[:-1] if damage == "cut" else data[:-1] + b"?")
    assert read(storage, manifest, one, tmp_path) == expected


def test_a_file_that_its_task_may_change_is_copied(
    bucket: Bucket, copies: LocalCopies, tmp_path: Path
) -> None:
    storage = ObjectStorage(bucket, copies)
    manifest, one = stored(storage, 1, tmp_path)
    reader = storage.reader(manifest, one)
    for name in ("rows", "1.sst"):
        reader.fetch(name, tmp_path / f"{name}-fetched")
    assert (tmp_path / "rows-fetched").stat().st_nlink == 1
    assert (tmp_path / "1.sst-fetched").stat().st_nlink == 2


def test_a_full_disk_does_not_fail_a_checkpoint(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "copies").write_text("no folder can be made here")
    storage = ObjectStorage(bucket, LocalCopies(tmp_path / "copies"))
    manifest, one = stored(storage, 1, tmp_path)
    storage.on_complete(JOB, 1)
    assert len(read(storage, manifest, one, tmp_path)) == 3


def test_copies_of_streams_that_are_over_are_swept(
    bucket: Bucket, copies: LocalCopies, tmp_path: Path
) -> None:
    stored(ObjectStorage(bucket, copies), 1, tmp_path)
    copies.sweep(3600.0)
    assert len(files(copies)) == 3
    os.utime(copies.folder / JOB, (0, 0))
    copies.sweep(3600.0)
    assert not files(copies)
