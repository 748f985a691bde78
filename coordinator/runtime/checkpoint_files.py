"""The files of checkpoints: written, verified, removed and listed.

`CheckpointFiles` does in a thread of its own what the core asks for, one after the other, and says
how it went: the core waits for no disk. `listed` makes the answer to whoever asks for a job's
checkpoints, with the parts of one of them from its manifest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from queue import SimpleQueue

from fabric import failpoints
from fabric.checkpoint.manifest import TaskSnapshot
from fabric.checkpoint.places import Storage, storage_at
from fabric.control import control_pb2 as pb
from fabric.coordinator.core.effects import (
    ExportSavepoint,
    RemoveCheckpoints,
    RemoveJob,
    StorageWork,
    Verify,
    WriteManifest,
)
from fabric.coordinator.core.events import (
    CheckpointVerified,
    Event,
    ManifestWritten,
    SavepointWritten,
)
from fabric.coordinator.runtime.savepoints import Keeper
from fabric.errors import FabricError, InternalError, NotFoundError
from fabric.telemetry.logs import logger

_log = logger("fabric.coordinator")


class CheckpointFiles:
    """Does `StorageWork`; `say` is told what came of it. The thread starts with the first work."""

    def __init__(self, say: Callable[[Event], None]) -> None:
        self._say = say
        self._queue: SimpleQueue[StorageWork | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, work: StorageWork) -> None:
        """Do it after all that was put before; called from one thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)
            self._thread.start()
        self._queue.put(work)

    def close(self) -> None:
        """Do what was put, then stop."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                said = self._do(work)
            except Exception as error:
                said = _failed(work, error)
            if said is not None:
                self._say(said)

    def _do(self, work: StorageWork) -> Event | None:
        job_id, state, storage = work.job_id, work.state, storage_at(work.folder)
        match work.work:
            case WriteManifest(manifest=manifest):
                failpoints.reach("checkpoint.acknowledged")
                seal = storage.commit_manifest(manifest, job_id)
                failpoints.reach("checkpoint.stored")
                return ManifestWritten(job_id, manifest.checkpoint, seal)
            case Verify(checkpoint=number, seal=seal):
                storage.lead(state, job_id, work.epoch)
                manifest = storage.load(state, number, seal)
                storage.verify(manifest)
                failpoints.reach("checkpoint.verified")
                return CheckpointVerified(job_id, number, (manifest, seal))
            case ExportSavepoint(name=name, checkpoint=number):
                kept = Keeper(work.folder).keep(work.work, state)
                return SavepointWritten(job_id, number, name, kept)
            case RemoveCheckpoints(keep=keep, below=below):
                failpoints.reach("checkpoint.removing")
                storage.retain(state, keep, below, job_id)
            case RemoveJob():
                storage.remove_job(state, job_id)
        return None


def _failed(work: StorageWork, error: Exception) -> Event | None:
    known = error if isinstance(error, FabricError) else InternalError(repr(error))
    match work.work:
        case WriteManifest(manifest=manifest):
            return ManifestWritten(work.job_id, manifest.checkpoint, known)
        case Verify(checkpoint=number):
            return CheckpointVerified(work.job_id, number, known)
        case ExportSavepoint(name=name, checkpoint=number):
            return SavepointWritten(work.job_id, number, name, known)
        case RemoveCheckpoints() | RemoveJob():
            _log.warning("old checkpoints stay", job=work.job_id, error=str(known))
    return None


def listed(
    found: Iterable[pb.CheckpointStatus],
    request: pb.CheckpointsRequest,
    state: str,
    storage: Storage,
) -> pb.CheckpointList:
    """All of `found`; of the one that is asked for, what each task has in it.

    Its manifest is one of the job `state`.

    Raises
    ------
    NotFoundError
        There is no checkpoint of that number.
    DataError, StorageError
        The checkpoint is complete, and its manifest is damaged, or can't be read.
    """
    told = list(found)
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
        manifest = storage.load(state, request.checkpoint)
        known[0].parts.extend(_part(task) for task in manifest.tasks)
    return pb.CheckpointList(checkpoints=known)


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
