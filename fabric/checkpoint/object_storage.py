"""Where snapshots lie when the checkpoint folder is the URL of an object store.

One job: `ObjectStorage`, with the methods of `FolderStorage`. A checkpoint is there when its
manifest is, and the pointer of its job has come so far; both are written conditionally, after all
that they name (`pointer.py`). Names of objects are in `object_layout.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace

from fabric.checkpoint.codec import check_seal, decode, decode_savepoint, seal_of
from fabric.checkpoint.folder import NAMES, SAVEPOINTS, SHARED, SINKS, plain, task_folder
from fabric.checkpoint.local_copies import CheckpointCopies, LocalCopies
from fabric.checkpoint.manifest import FINAL, FileRecord, Manifest, Seal, TaskSnapshot
from fabric.checkpoint.object_layout import (
    MANIFESTS,
    POINTER,
    TASKS,
    ObjectReader,
    ObjectWriter,
    check_object,
    each_at_once,
    file_key,
    manifest_key,
    parse_shared,
    shared_key,
    task_prefix,
)
from fabric.checkpoint.pointer import claim, commit, lead, read_pointer, write_pointer
from fabric.errors import DataError, InternalError, NotFoundError
from fabric.object_store import Bucket

RECORDS = f"{SAVEPOINTS}/records"
"""Below it are the records of savepoints, by their plain names."""


class ObjectStorage:
    """Checkpoints by job and number, in a bucket: numbers rise, and none is used twice.

    What is stored stays in `copies`, too, and is read from there.

    Raises `StorageError` when the store refuses or can't be reached, and `DataError` or
    `NotFoundError` when what it holds is not what was stored.
    """

    def __init__(self, bucket: Bucket, copies: LocalCopies | None = None) -> None:
        self.bucket, self._copies = bucket, copies

    def prepare(self, job: str) -> None:
        """Have refusals come here first; a store needs no folders."""
        self.bucket.names(plain(job))

    def writer(self, job: str, checkpoint: int, node: str, task: int, attempt: int) -> ObjectWriter:
        """Where a task puts its snapshot."""
        name = task_folder(node, task, attempt)
        return ObjectWriter(self.bucket, job, checkpoint, name, self._copies_of(job, checkpoint))

    def commit_manifest(self, manifest: Manifest, owner: str = "") -> Seal:
        """Make a checkpoint be there, for the job `owner`; durable when it returns, again is fine.

        Raises
        ------
        FencedError
            Another coordinator, or another start of the stream, has taken over.
        """
        self.bucket.check_conditions()
        self._check_there(manifest)
        return commit(self.bucket, manifest, owner)

    def load(self, job: str, checkpoint: int, seal: Seal | None = None) -> Manifest:
        """A manifest, which must be the one of `seal`."""
        manifest, data = self._decoded(job, checkpoint)
        if seal is not None:
            check_seal(data, seal, manifest_key(job, checkpoint))
        return manifest

    def sealed(self, job: str, checkpoint: int) -> tuple[Manifest, Seal]:
        """A manifest of which no seal is known elsewhere, and its seal."""
        manifest, data = self._decoded(job, checkpoint)
        return manifest, seal_of(data)

    def begin_again(self, job: str, owner: str = "") -> int:
        """The highest number of a checkpoint of earlier starts, complete or not; 0: there is none.

        From here on the job `owner` writes the checkpoints, and no earlier start does.
        """
        self.bucket.check_conditions()
        pointer = claim(self.bucket, job, owner)
        names = self.bucket.names(f"{plain(job)}/{TASKS}")[0]
        numbers = [int(name) for name in names if name.isdecimal()]
        found = [pointer.checkpoint, *self._manifests(job), *numbers]
        return max((number for number in found if number != FINAL), default=0)

    def lead(self, job: str, owner: str, epoch: int) -> None:
        """Have no coordinator before that of `epoch`, and no other start, write checkpoints.

        Raises
        ------
        FencedError
            A newer coordinator, or another start of the stream, has taken over.
        """
        self.bucket.check_conditions()
        lead(self.bucket, job, owner, epoch)

    def verify(self, manifest: Manifest) -> None:
        """Read every file; an error names the first that is missing or differs."""
        for _ in each_at_once(lambda pair: check_object(self.bucket, *pair), self._files(manifest)):
            pass

    def reader(self, manifest: Manifest, snapshot: TaskSnapshot) -> ObjectReader:
        """What one old task stored; call `verify` before."""
        prefix = task_prefix(manifest.job, manifest.checkpoint, snapshot)
        copies = self._copies_of(manifest.job, manifest.checkpoint)
        return ObjectReader(self.bucket, manifest.job, prefix, snapshot, copies)

    def on_complete(self, job: str, checkpoint: int) -> None:
        """Forget the local copies of older checkpoints."""
        if self._copies is not None:
            self._copies.retain(job, checkpoint)

    def checkpoints(self, job: str) -> list[int]:
        """The checkpoints that are there, rising."""
        if not (found := self._manifests(job)):
            return []
        newest = read_pointer(self.bucket, job)[0].checkpoint
        return [number for number in found if number <= newest]

    def may_have_after(self, job: str, checkpoint: int) -> bool:
        """Whether one after `checkpoint` may be complete: to look costs more than to ask."""
        return True

    def jobs(self) -> list[str]:
        """The jobs that have something there, by name."""
        return [name for name in self.bucket.names("")[0] if name not in (NAMES, SAVEPOINTS)]

    def retain(self, job: str, keep: Collection[int], below: int, owner: str = "") -> None:
        """Remove the checkpoints below `below` that are not to be kept, whole or half.

        Nothing, when another start than the job `owner` has the state now. That is read after the
        keys, and who takes the state over gives no number that is there already: so whatever it
        writes meanwhile is not among those keys.
        """
        doomed = [n for n in self._manifests(job) if n < below and n not in keep]
        half = [
            key
            for name in self.bucket.names(f"{plain(job)}/{TASKS}")[0]
            if name.isdecimal() and int(name) < below and int(name) not in keep
            for key in self.bucket.sizes(f"{plain(job)}/{TASKS}/{name}")
        ]
        pointer, tag = read_pointer(self.bucket, job)
        if pointer.is_of(owner):
            self.bucket.remove(manifest_key(job, number) for number in doomed)
            self.bucket.remove(half)
            self._remove_unnamed(job, pointer.checkpoint, tag)

    def remove(self, job: str, checkpoint: int, owner: str = "") -> None:
        """Remove one checkpoint, if it is there and the job `owner` still has the state."""
        doomed = [manifest_key(job, n) for n in self._manifests(job) if n == checkpoint]
        doomed += self.bucket.sizes(f"{plain(job)}/{TASKS}/{checkpoint:020}")
        pointer, tag = read_pointer(self.bucket, job)
        if not pointer.is_of(owner):
            return
        self.bucket.remove(doomed)
        if pointer.checkpoint == checkpoint:  # or that number could not be written again
            left = max((n for n in self._manifests(job) if n < checkpoint), default=0)
            back = replace(pointer, checkpoint=left, n_bytes=0, crc32c=0)
            tag = write_pointer(self.bucket, job, back, tag)
        self._remove_unnamed(job, pointer.checkpoint, tag)

    def remove_job(self, job: str, owner: str = "") -> None:
        """Remove all of a job but what savepoints refer to, if `owner` still has the state."""
        if not read_pointer(self.bucket, job)[0].is_of(owner):
            return
        below = plain(job)
        self.bucket.remove(manifest_key(job, number) for number in self._manifests(job))
        self.bucket.remove([f"{below}/{POINTER}"])
        for each in (TASKS, SINKS):
            self.bucket.remove(self.bucket.sizes(f"{below}/{each}"))
        self.remove_unnamed(job)

    def remove_unnamed(self, job: str) -> None:
        """Remove what is left of a job that is forgotten, but for what savepoints refer to."""
        self._remove_unnamed(job, FINAL, "")

    def savepoint_records(self) -> Iterator[tuple[str, bytes]]:
        """The record of each savepoint, by its plain name."""
        for name in self.bucket.names(RECORDS)[1]:
            with suppress(NotFoundError):  # it was deleted just now
                yield name, self.bucket.read(f"{RECORDS}/{name}")[0]

    # ---- inside

    def _copies_of(self, job: str, checkpoint: int) -> CheckpointCopies | None:
        return None if self._copies is None else self._copies.of(job, checkpoint)

    def _decoded(self, job: str, checkpoint: int) -> tuple[Manifest, bytes]:
        key = manifest_key(job, checkpoint)
        data, _ = self.bucket.read(key)
        manifest = decode(data, key)
        if (manifest.job, manifest.checkpoint) != (job, checkpoint):
            raise InternalError(
                f"{key} is of job {manifest.job}, checkpoint {manifest.checkpoint}: it was moved"
            )
        return manifest, data

    def _manifests(self, job: str) -> list[int]:
        names = self.bucket.names(f"{plain(job)}/{MANIFESTS}")[1]
        return sorted(int(name) for name in names if name.isdecimal())

    def _files(self, manifest: Manifest) -> list[tuple[str, FileRecord]]:
        job, found = manifest.job, []
        for task in manifest.tasks:
            prefix = task_prefix(job, manifest.checkpoint, task)
            found += [(file_key(job, prefix, file), file) for file in task.files]
        return found

    def _check_there(self, manifest: Manifest) -> None:
        """Refuse to name what is not there: retention may have removed what a task referred to."""
        if not (files := self._files(manifest)):
            return
        job = plain(manifest.job)
        found = self.bucket.sizes(f"{job}/{TASKS}/{manifest.checkpoint:020}")
        if any(file.is_shared for _, file in files):
            found |= self.bucket.sizes(f"{job}/{SHARED}")
        for key, file in files:
            if (n_bytes := found.get(key)) is None:
                raise NotFoundError(f"{key} is missing in {self.bucket.url}; it was stored before")
            if n_bytes != file.n_bytes:
                raise DataError(f"{key} has {n_bytes} bytes, {file.n_bytes} were stored")

    def _remove_unnamed(self, job: str, newest: int, tag: str) -> None:
        """Immutable files that no checkpoint and no savepoint has, nor one that is being made.

        What is as old as the newest checkpoint, and not in it, no task has any more.
        """
        found = self.bucket.sizes(f"{plain(job)}/{SHARED}")
        if not found:
            return
        named = {shared_key(job, file) for file in self._shared_files(job)}
        if tag and read_pointer(self.bucket, job)[1] != tag:
            return  # another coordinator is at work: it will come to them
        parsed = {key: parse_shared(key.rpartition("/")[2]) for key in found if key not in named}
        self.bucket.remove(key for key, of in parsed.items() if of is not None and of[0] <= newest)

    def _shared_files(self, job: str) -> Iterator[FileRecord]:
        """Of all manifests of a job, and of all savepoints of it."""
        manifests = [self.load(job, number) for number in self._manifests(job)]
        for name, data in self.savepoint_records():
            savepoint = decode_savepoint(data, f"{RECORDS}/{name}").manifest
            manifests += [savepoint] if savepoint.job == job else []
        for manifest in manifests:
            yield from (file for task in manifest.tasks for file in task.files if file.is_shared)
