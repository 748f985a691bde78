"""What is done with files for the core: a coordinator that verifies has the job for itself."""

from __future__ import annotations

import pytest
from obstore.store import MemoryStore

from fabric.checkpoint import places
from fabric.checkpoint.manifest import Manifest, Seal
from fabric.checkpoint.object_storage import ObjectStorage
from fabric.coordinator.core.effects import RemoveCheckpoints, RemoveJob, StorageWork, Verify, Work
from fabric.coordinator.core.events import CheckpointVerified, Event
from fabric.coordinator.runtime.checkpoint_files import CheckpointFiles
from fabric.errors import FencedError
from fabric.object_store import Bucket

JOB, STATE, FOLDER = "job-2", "job-1", "s3://data/x"


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> ObjectStorage:
    bucket = Bucket(FOLDER, store=MemoryStore())
    monkeypatch.setattr(places, "_bucket", lambda url: bucket)
    return ObjectStorage(bucket)


def committed(storage: ObjectStorage, number: int, epoch: int) -> Seal:
    made = Manifest(job=STATE, checkpoint=number, epoch=epoch, run=0, wall_us=1, tasks=())
    return storage.commit_manifest(made, JOB)


def done(job: str, epoch: int, *wanted: Work) -> list[Event]:
    said: list[Event] = []
    files = CheckpointFiles(said.append)
    for work in wanted:
        files.put(StorageWork(job, FOLDER, STATE, work, epoch))
    files.close()
    return said


def test_who_verifies_leads(storage: ObjectStorage) -> None:
    """The coordinator before it commits nothing while this one restores, or takes output back."""
    seal = committed(storage, 1, epoch=1)
    (verified,) = done(JOB, 2, Verify(1, seal))
    assert verified == CheckpointVerified(JOB, 1, (storage.load(STATE, 1), seal))
    with pytest.raises(FencedError):
        committed(storage, 2, epoch=1)
    assert storage.checkpoints(STATE) == [1]
    for job, epoch in ((JOB, 1), ("job-3", 3)):
        (refused,) = done(job, epoch, Verify(1, seal))
        assert isinstance(refused, CheckpointVerified)
        assert isinstance(refused.result, FencedError)


def test_a_deposed_start_removes_nothing(storage: ObjectStorage) -> None:
    committed(storage, 1, epoch=1)
    assert done("job-3", 3, RemoveCheckpoints((), 9), RemoveJob()) == []
    assert storage.checkpoints(STATE) == [1]
    done(JOB, 1, RemoveCheckpoints((), 9))
    assert storage.checkpoints(STATE) == []
