"""What people are told of a stream's checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.checkpoint.manifest import Manifest, TaskSnapshot
from fabric.checkpoint.storage import FolderStorage
from fabric.control import control_pb2 as pb
from fabric.coordinator.runtime.checkpoint_files import listed
from fabric.errors import NotFoundError

TASK = TaskSnapshot("made", 0, 2, range(10), positions=(("split-0", b"\0"), ("split-1", b"\7")))


def status(state: str) -> pb.CheckpointStatus:
    return pb.CheckpointStatus(checkpoint=3, state=state, begun_s=1.5, seconds=0.25)


def asked(
    found: list[pb.CheckpointStatus], folder: Path, checkpoint: int
) -> list[pb.CheckpointStatus]:
    request = pb.CheckpointsRequest(job_id="j", checkpoint=checkpoint)
    return list(listed(found, request, "j", FolderStorage(folder)).checkpoints)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Checkpoint 3 of job `j` lies there: positions of a source, and no file at all."""
    storage = FolderStorage(tmp_path)
    storage.prepare("j")
    storage.commit_manifest(
        Manifest(job="j", checkpoint=3, epoch=1, run=1, wall_us=7, tasks=(TASK,))
    )
    return tmp_path


@pytest.mark.parametrize("state", ["complete", "published"])
def test_a_checkpoint_without_files_has_parts_too(folder: Path, state: str) -> None:
    (one,) = asked([status(state)], folder, 3)
    (part,) = one.parts
    assert (part.node_path, part.task, part.attempt, part.splits) == ("made", 0, 2, 2)
    assert (part.files, part.bytes, part.handles) == (0, 0, 0)


@pytest.mark.parametrize("state", ["under way", "aborted"])
def test_a_checkpoint_that_is_not_complete_has_no_parts(tmp_path: Path, state: str) -> None:
    (one,) = asked([status(state)], tmp_path, 3)
    assert (one.state, one.begun_s, one.seconds, list(one.parts)) == (state, 1.5, 0.25, [])


def test_parts_are_read_for_the_one_that_is_asked_for(folder: Path) -> None:
    (one,) = asked([status("complete")], folder, 0)
    assert list(one.parts) == []


def test_a_checkpoint_that_is_not_known_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="job j has no checkpoint 4; known are: 3"):
        asked([status("complete")], tmp_path, 4)
    with pytest.raises(NotFoundError, match="no checkpoint 4; known are: there are none"):
        asked([], tmp_path, 4)
