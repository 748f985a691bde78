"""The checkpoints of streams in their storage, in a thread of its own.

One job: write, verify and remove what the core asks for, one after the other, and say how it went.
The core waits for no disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

from fabric import failpoints
from fabric.checkpoint.storage import FolderStorage
from fabric.coordinator.core.checkpoint_effects import (
    RemoveCheckpoints,
    RemoveJob,
    Verify,
    WriteManifest,
)
from fabric.coordinator.core.effects import StorageWork
from fabric.coordinator.core.events import CheckpointVerified, Event, ManifestWritten
from fabric.errors import FabricError, InternalError
from fabric.telemetry.logs import logger

_log = logger("fabric.coordinator")


class Keeper:
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
        job_id, storage = work.job_id, FolderStorage(Path(work.folder))
        match work.work:
            case WriteManifest(manifest=manifest):
                failpoints.reach("checkpoint.acknowledged")
                seal = storage.commit_manifest(manifest)
                failpoints.reach("checkpoint.stored")
                return ManifestWritten(job_id, manifest.checkpoint, seal)
            case Verify(checkpoint=number, seal=seal):
                manifest = storage.load(job_id, number, seal)
                storage.verify(manifest)
                failpoints.reach("checkpoint.verified")
                return CheckpointVerified(job_id, number, (manifest, seal))
            case RemoveCheckpoints(keep=keep, below=below):
                failpoints.reach("checkpoint.removing")
                storage.retain(job_id, keep, below)
            case RemoveJob():
                storage.remove_job(job_id)
        return None


def _failed(work: StorageWork, error: Exception) -> Event | None:
    known = error if isinstance(error, FabricError) else InternalError(repr(error))
    match work.work:
        case WriteManifest(manifest=manifest):
            return ManifestWritten(work.job_id, manifest.checkpoint, error=known)
        case Verify(checkpoint=number):
            return CheckpointVerified(work.job_id, number, error=known)
        case RemoveCheckpoints() | RemoveJob():
            _log.warning("old checkpoints stay", job=work.job_id, error=str(known))
    return None
