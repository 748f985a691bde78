"""A start of a stream that was taken for dead takes nothing from the one that has its state now."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from obstore.store import MemoryStore

from fabric.checkpoint.manifest import Manifest, NodeRecord, TaskSnapshot
from fabric.checkpoint.object_savepoints import ObjectSavepoints
from fabric.checkpoint.object_storage import ObjectStorage
from fabric.errors import FencedError
from fabric.object_store import Bucket
from tests.checkpoint.test_object_storage import JOB, NODE, snapshot

OLD, NEW = "job-a", "job-b"


class Interrupted(Bucket):
    """A store in which something happens once, right before names are listed."""

    meanwhile: Callable[[], object] | None = None

    def names(self, prefix: str) -> tuple[list[str], list[str]]:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return super().names(prefix)


@pytest.fixture
def bucket() -> Interrupted:
    return Interrupted("s3://data/x", store=MemoryStore())


@pytest.fixture
def storage(bucket: Interrupted) -> ObjectStorage:
    return ObjectStorage(bucket)


def commit(storage: ObjectStorage, owner: str, number: int, *tasks: TaskSnapshot) -> Manifest:
    nodes = (NodeRecord(NODE, "kind", "text"),)
    manifest = Manifest(
        job=JOB, checkpoint=number, epoch=1, run=0, wall_us=1, tasks=tasks, nodes=nodes
    )
    storage.commit_manifest(manifest, owner)
    return manifest


def test_what_it_stores_late_is_not_what_the_new_one_stored(storage: ObjectStorage) -> None:
    """Both count from the same checkpoint, and the attempts of their tasks from 0."""
    commit(storage, OLD, 7)
    assert storage.begin_again(JOB, NEW) == 7
    made = commit(storage, NEW, 8, snapshot(storage, 8, {"rows": b"new"}))
    late = snapshot(storage, 8, {"rows": b"old, of another size"})
    storage.verify(made)
    assert storage.reader(made, made.tasks[0]).read("rows").to_pybytes() == b"new"
    with pytest.raises(FencedError):
        commit(storage, OLD, 8, late)
    writer = storage.writer(JOB, 8, NODE, 0, 0)
    writer.put("rows", b"more")
    writer.abandon()
    storage.verify(made)


def test_it_removes_nothing(storage: ObjectStorage) -> None:
    commit(storage, OLD, 7, snapshot(storage, 7, {"rows": b"7"}))
    storage.begin_again(JOB, NEW)
    made = commit(storage, NEW, 8, snapshot(storage, 8, {"rows": b"8"}))
    storage.retain(JOB, [7], 9, OLD)
    storage.remove(JOB, 8, OLD)
    storage.remove_job(JOB, OLD)
    assert storage.checkpoints(JOB) == [7, 8]
    storage.verify(made)
    storage.retain(JOB, [8], 9, NEW)
    assert storage.checkpoints(JOB) == [8]


def test_it_removes_nothing_when_it_is_deposed_meanwhile(
    storage: ObjectStorage, bucket: Interrupted
) -> None:
    commit(storage, OLD, 7)

    def taken_over() -> None:
        storage.begin_again(JOB, NEW)
        commit(storage, NEW, 8, snapshot(storage, 8, {"rows": b"8"}))

    for remove in (
        lambda: storage.retain(JOB, [7], 9, OLD),
        lambda: storage.remove(JOB, 8, OLD),
    ):
        storage.remove(JOB, 8)
        storage.begin_again(JOB, OLD)
        bucket.meanwhile = taken_over
        remove()
        assert storage.checkpoints(JOB) == [7, 8]
        storage.verify(storage.load(JOB, 8))


def test_what_it_would_go_on_from_is_not_made(storage: ObjectStorage) -> None:
    before = commit(storage, OLD, 7, snapshot(storage, 7, {"rows": b"7"}))
    storage.begin_again(JOB, NEW)
    savepoints = ObjectSavepoints(storage.bucket)

    def adopt(owner: str) -> Manifest:
        return savepoints.adopt(
            before, {NODE: NODE}, job=JOB, checkpoint=8, nodes=before.nodes, wall_us=1, owner=owner
        )[0]

    made = adopt(NEW)
    with pytest.raises(FencedError):
        adopt(OLD)
    assert storage.checkpoints(JOB) == [7, 8]
    storage.verify(made)
