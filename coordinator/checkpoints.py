"""What people are told of a stream's checkpoints.

One job: statuses as protobuf, with the parts of one checkpoint from its manifest.
"""

from __future__ import annotations

from collections.abc import Iterable

from fabric.checkpoint.manifest import TaskSnapshot
from fabric.checkpoint.storage import SnapshotStorage
from fabric.control import control_pb2 as pb
from fabric.coordinator.core.checkpoint_flight import CheckpointStatus
from fabric.errors import NotFoundError


def listed(
    found: Iterable[CheckpointStatus], request: pb.CheckpointsRequest, storage: SnapshotStorage
) -> pb.CheckpointList:
    """All of `found`; of the one that is asked for, what each task has in it.

    Raises
    ------
    NotFoundError
        There is no checkpoint of that number.
    DataError, StorageError
        The checkpoint is complete, and its manifest is damaged, or can't be read.
    """
    told = [_status(status) for status in found]
    if not request.checkpoint:
        return pb.CheckpointList(checkpoints=told)
    known = [status for status in told if status.checkpoint == request.checkpoint]
    if not known:
        numbers = ", ".join(str(status.checkpoint) for status in told) or "there are none"
        raise NotFoundError(
            f"job {request.job_id} has no checkpoint {request.checkpoint}; known are: {numbers}",
            job=request.job_id,
        )
    if known[0].state not in {"under way", "aborted"}:
        manifest = storage.load(request.job_id, request.checkpoint)
        known[0].parts.extend(_part(task) for task in manifest.tasks)
    return pb.CheckpointList(checkpoints=known)


def _status(status: CheckpointStatus) -> pb.CheckpointStatus:
    return pb.CheckpointStatus(
        checkpoint=status.checkpoint,
        state=status.state,
        begun_s=status.begun_us / 1e6,
        seconds=status.seconds,
        bytes=status.n_bytes,
        files=status.n_files,
        reason=status.reason,
    )


def _part(task: TaskSnapshot) -> pb.CheckpointPart:
    return pb.CheckpointPart(
        node_path=task.node,
        task=task.task,
        attempt=task.attempt,
        files=len(task.files),
        bytes=task.n_bytes,
        splits=len(task.positions),
        handles=len(task.handles),
    )
