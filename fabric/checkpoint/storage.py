"""Where snapshots lie: written by tasks, sealed by a manifest, read again after a failure.

One job: `FolderStorage`, for a folder that all hosts see. A checkpoint is there when its
``MANIFEST`` is, and that is renamed into place after everything it names was forced to the disk:
whoever crashes, and whatever the disk forgets, leaves the checkpoints before it whole, and this one
whole or none. No state is used before `verify` has read all files of a checkpoint.

Each checkpoint's folder holds all of its files, those that have not changed as further names (hard
links) of the same ones. So the file system counts who refers to a file, and removing a checkpoint
never takes from another one, not even from one that is just being made. Where there are no hard
links, files are copied.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from fabric import failpoints
from fabric.checkpoint.codec import check_seal, decode, encode, seal_of
from fabric.checkpoint.files import Files, reading, writing
from fabric.checkpoint.folder import (
    ASIDE,
    MANIFEST,
    NAMES,
    SAVEPOINTS,
    SHARED,
    SINKS,
    FolderReader,
    FolderWriter,
    check_file,
    checkpoint_folder,
    checkpoints_among,
    link_or_copy,
    plain,
    task_folder,
)
from fabric.checkpoint.manifest import FINAL, Manifest, Seal, TaskSnapshot
from fabric.errors import InternalError


class FolderStorage:
    """Checkpoints by job and number, in a folder: numbers rise, and none is used twice.

    `root` is the same folder for all agents and the coordinator. A folder can't tell whether the
    job that is an `owner` may still write: the lock of its name and the metadata store do. Raises
    `StorageError` when the world refuses (full, read-only, not there), and `DataError` or
    `NotFoundError` when what it holds is not what was stored.
    """

    def __init__(self, root: Path, files: Files | None = None) -> None:
        self._root = root
        self._files = files or Files()

    def prepare(self, job: str) -> None:
        """Make room for a job's checkpoints, in a place that is there; refusals come here first."""
        folder = self._root / plain(job)
        with writing(self._root, folder):
            for path in (self._root, folder):
                self._files.make_folder(path)
            for path in (folder, self._root, self._root.parent):
                self._files.sync(path)

    def writer(self, job: str, checkpoint: int, node: str, task: int, attempt: int) -> FolderWriter:
        """Where a task puts its snapshot."""
        folder = checkpoint_folder(self._root, job, checkpoint)
        own = folder / task_folder(node, task, attempt)
        above = (folder, folder.parent) if checkpoint == FINAL else ()
        return FolderWriter(self._root, own, folder.parent / SHARED, self._files, above)

    def commit_manifest(self, manifest: Manifest, owner: str = "") -> Seal:
        """Make a checkpoint be there; durable when it returns, again is fine."""
        folder = checkpoint_folder(self._root, manifest.job, manifest.checkpoint)
        data = encode(manifest)
        with writing(self._root, folder / MANIFEST):
            self._files.make_folder(folder)  # a checkpoint without any file
            self._gather(manifest, folder)
            names = self._files.names(folder)
            if MANIFEST in names:
                self._check_same(folder / MANIFEST, data)
            else:
                self._commit(folder, data, aside=ASIDE in names)
            self._files.sync(folder)
            self._files.sync(folder.parent)
        return seal_of(data)

    def load(self, job: str, checkpoint: int, seal: Seal | None = None) -> Manifest:
        """A manifest, which must be the one of `seal`."""
        manifest, data = self._decoded(job, checkpoint)
        if seal is not None:
            check_seal(data, seal, self._where(job, checkpoint))
        return manifest

    def sealed(self, job: str, checkpoint: int) -> tuple[Manifest, Seal]:
        """A manifest of which no seal is known elsewhere, and its seal."""
        manifest, data = self._decoded(job, checkpoint)
        return manifest, seal_of(data)

    def begin_again(self, job: str, owner: str = "") -> int:
        """The highest number of a checkpoint of earlier starts, complete or not; 0: there is none.

        The files of tasks that had ended are removed: each checkpoint has links of its own to them,
        and the tasks of this start will write there.
        """
        folder = self._root / plain(job)
        found = checkpoints_among(self._names(folder))
        if FINAL in found:
            with writing(self._root, folder):
                self._remove_checkpoint(checkpoint_folder(self._root, job, FINAL))
        return max((number for number in found if number != FINAL), default=0)

    def lead(self, job: str, owner: str, epoch: int) -> None:
        """Nothing: a coordinator that was deposed is kept off by the metadata store alone."""

    def _where(self, job: str, checkpoint: int) -> str:
        path = checkpoint_folder(self._root, job, checkpoint) / MANIFEST
        return str(path.relative_to(self._root))

    def _decoded(self, job: str, checkpoint: int) -> tuple[Manifest, bytes]:
        path = checkpoint_folder(self._root, job, checkpoint) / MANIFEST
        with reading(self._files, self._root, path):
            data = self._files.read(path)
        where = self._where(job, checkpoint)
        manifest = decode(data, where)
        if (manifest.job, manifest.checkpoint) != (job, checkpoint):
            raise InternalError(
                f"{where} is of job {manifest.job}, checkpoint {manifest.checkpoint}: it was moved"
            )
        return manifest, data

    def verify(self, manifest: Manifest) -> None:
        """Read every file; an error names the first that is missing or differs."""
        for task in manifest.tasks:
            folder = self._folder_of(manifest, task)
            for file in task.files:
                check_file(self._root, folder / file.name, file, self._files)

    def reader(self, manifest: Manifest, snapshot: TaskSnapshot) -> FolderReader:
        """What one old task stored; call `verify` before."""
        folder = self._folder_of(manifest, snapshot)
        return FolderReader(self._root, folder, snapshot, self._files)

    def on_complete(self, job: str, checkpoint: int) -> None:
        """Nothing: of a folder an agent keeps no local copies."""

    def checkpoints(self, job: str) -> list[int]:
        """The checkpoints that have a manifest, rising."""
        folder = self._root / plain(job)
        return [
            checkpoint
            for checkpoint in checkpoints_among(self._names(folder))
            if MANIFEST in self._names(checkpoint_folder(self._root, job, checkpoint))
        ]

    def may_have_after(self, job: str, checkpoint: int) -> bool:
        """Whether one after `checkpoint` may be complete; costs less than to ask the coordinator.

        A manifest is there before its checkpoint is complete.
        """
        folder = self._root / plain(job)
        found = checkpoints_among(self._names(folder))
        return any(
            MANIFEST in self._names(checkpoint_folder(self._root, job, number))
            for number in found
            if checkpoint < number < FINAL
        )

    def jobs(self) -> list[str]:
        """The jobs that have a folder, by name."""
        with reading(self._files, self._root, self._root):
            names = self._files.names(self._root)
        apart = (NAMES, SAVEPOINTS)
        return [name for name in names if name not in apart and (self._root / name).is_dir()]

    def retain(self, job: str, keep: Collection[int], below: int, owner: str = "") -> None:
        """Remove the checkpoints below `below` that are not to be kept, whole or half."""
        folder = self._root / plain(job)
        with writing(self._root, folder):
            for checkpoint in checkpoints_among(self._names(folder)):
                if checkpoint < below and checkpoint not in keep:
                    self._remove_checkpoint(checkpoint_folder(self._root, job, checkpoint))
            self._remove_unshared(folder / SHARED)

    def remove(self, job: str, checkpoint: int, owner: str = "") -> None:
        """Remove one checkpoint, if it is there."""
        folder = self._root / plain(job)
        with writing(self._root, folder):
            path = checkpoint_folder(self._root, job, checkpoint)
            if path.name in self._names(folder):
                self._remove_checkpoint(path)
            self._remove_unshared(folder / SHARED)

    def remove_job(self, job: str, owner: str = "") -> None:
        """Remove all of a job."""
        folder = self._root / plain(job)
        with writing(self._root, folder), suppress(FileNotFoundError):
            for checkpoint in checkpoints_among(self._names(folder)):
                self._remove_checkpoint(checkpoint_folder(self._root, job, checkpoint))
            for inner in (SHARED, SINKS):
                for name in self._names(folder / inner):
                    self._files.remove_file(folder / inner / name)
                if inner in self._names(folder):
                    self._files.remove_folder(folder / inner)
            self._files.remove_folder(folder)

    # ---- inside

    def _commit(self, folder: Path, data: bytes, *, aside: bool) -> None:
        if aside:  # of a coordinator that did not get further
            self._files.remove_file(folder / ASIDE)
        self._files.sync(folder)  # the names of the tasks' folders, before who says that they exist
        try:
            self._files.write(folder / ASIDE, data)
            self._files.sync(folder / ASIDE)
            self._files.rename(folder / ASIDE, folder / MANIFEST)
        except OSError:
            with suppress(OSError):  # the first error is the one to tell
                self._files.remove_file(folder / ASIDE)
            raise

    def _gather(self, manifest: Manifest, folder: Path) -> None:
        """Have the files of all tasks there: each checkpoint has names of its own for all of them.

        Those of tasks that have ended lie apart, as they were written once for all checkpoints.
        """
        finals = checkpoint_folder(self._root, manifest.job, FINAL)
        for task in manifest.tasks:
            name = task_folder(task.node, task.task, task.attempt)
            there = {file.name for file in task.files}
            missing = there.difference(self._names(folder / name))
            if not missing:
                continue
            self._files.make_folder(folder / name)
            for file in sorted(missing):
                with reading(self._files, self._root, folder / name / file):
                    link_or_copy(self._files, finals / name / file, folder / name / file)
            self._files.sync(folder / name)

    def _check_same(self, path: Path, data: bytes) -> None:
        if self._files.read(path) != data:
            raise InternalError(f"{path.relative_to(self._root)} is there, and says another thing")

    def _folder_of(self, manifest: Manifest, task: TaskSnapshot) -> Path:
        folder = checkpoint_folder(self._root, manifest.job, manifest.checkpoint)
        return folder / task_folder(task.node, task.task, task.attempt)

    def _names(self, folder: Path) -> list[str]:
        """What is in a folder that may not be there."""
        with reading(self._files, self._root, folder):
            try:
                return self._files.names(folder)
            except (FileNotFoundError, NotADirectoryError):
                if folder.parent == self._root:
                    self._files.names(self._root)  # it is not a job that is missing, but the disk
                return []

    def _remove_checkpoint(self, folder: Path) -> None:
        """The manifest first: what is half removed is not there. Others may remove it, too."""
        names = self._files.names(folder)
        for name in sorted(names, key=lambda name: name != MANIFEST):
            with suppress(FileNotFoundError):
                if name in (MANIFEST, ASIDE):
                    self._files.remove_file(folder / name)
                    self._files.sync(folder)
                    failpoints.reach("checkpoint.half-removed")
                else:
                    self._remove_task(folder / name)
        with suppress(FileNotFoundError, OSError):  # a task that nobody waits for may still write
            self._files.remove_folder(folder)

    def _remove_task(self, folder: Path) -> None:
        for name in self._files.names(folder):
            with suppress(FileNotFoundError):
                self._files.remove_file(folder / name)
        with suppress(OSError):
            self._files.remove_folder(folder)

    def _remove_unshared(self, shared: Path) -> None:
        """Immutable files that no checkpoint has, nor one that is being made, nor a savepoint.

        A job that was started from another one's state shares files with it, under one content.
        """
        names = set(self._names(shared))
        others = [
            self._root / job / SHARED
            for job in (self._names(self._root) if names else ())
            if job != shared.parent.name and not job.startswith(".")
        ]
        elsewhere = [(other, names.intersection(self._names(other))) for other in others]
        for name in names:
            with suppress(FileNotFoundError):
                n_links = self._files.n_links(shared / name)
                n_shared = 1 + sum(
                    self._files.is_same(shared / name, other / name)
                    for other, held in elsewhere
                    if n_links > 1 and name in held
                )
                if n_links == n_shared:
                    self._files.remove_file(shared / name)
