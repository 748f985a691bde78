"""Savepoints of a checkpoint folder that is a URL.

    .savepoints/records/<name>                                names and seals all of it
               /files/<name>/<job>-<checkpoint>/<task>/…      files of each task alone
    <job>/shared/…                                            immutable ones, referred to by name

One job: `ObjectSavepoints`, with the methods of `Savepoints`. A savepoint is there when its record
is, which is created after all that it names. Retention keeps the shared objects that a record
names, also when the job is forgotten. What another job starts from is copied by the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fabric._cython.kernels.hash import N_KEY_GROUPS
from fabric.checkpoint.codec import decode_savepoint, encode_savepoint
from fabric.checkpoint.folder import SAVEPOINTS, plain, task_folder
from fabric.checkpoint.manifest import (
    FileRecord,
    Manifest,
    NodeRecord,
    Savepoint,
    Seal,
    TaskSnapshot,
    check_savepoint_name,
)
from fabric.checkpoint.object_layout import (
    check_object,
    each_at_once,
    file_key,
    own_content,
    shared_key,
    task_prefix,
)
from fabric.checkpoint.object_storage import RECORDS, ObjectStorage
from fabric.checkpoint.pointer import read_pointer
from fabric.checkpoint.savepoints import DamagedSavepoint, moved
from fabric.errors import ConfigError, DataError, FabricError, InternalError, NotFoundError
from fabric.object_store import Bucket

FILES = f"{SAVEPOINTS}/files"
_NAMES_SHOWN = 20


class ObjectSavepoints:
    """Those of a checkpoint folder in a bucket; errors are those of `Savepoints`."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket, self._storage = bucket, ObjectStorage(bucket)

    def write(self, savepoint: Savepoint, to: str = "") -> Path:
        """Keep a checkpoint that lies in the bucket; durable when it returns, again is fine.

        Raises
        ------
        ConfigError
            Another savepoint has that name, or `to` names a folder.
        """
        if to:
            raise ConfigError(not_exported(to))
        made = savepoint.without_handles()
        key = f"{RECORDS}/{plain(check_savepoint_name(made.name))}"
        if self._there(key, made):
            return self._folder(key)
        pairs = [
            (before, self._own(made, task, file))
            for task in made.manifest.tasks
            for file in task.files
            if not file.is_shared
            for before in [file_key(made.manifest.job, _prefix(made.manifest, task), file)]
        ]
        self._copy(pairs)
        if self._bucket.create(key, encode_savepoint(made)) is None and not self._there(key, made):
            raise InternalError(f"{key} was there and is not")
        try:
            self._check_shared(made.manifest)
        except FabricError:  # it was removed before the record named it
            self._bucket.remove([key])
            raise
        return self._folder(key)

    def export(self, name: str, to: Path) -> None:
        """Refuse: a savepoint of a store lies there alone."""
        self.load(name)
        raise ConfigError(not_exported(str(to)))

    def load(self, name: str) -> Savepoint:
        """The savepoint of a name."""
        if Path(name).is_absolute() or "://" in name:
            raise ConfigError(not_exported(name))
        key = f"{RECORDS}/{plain(check_savepoint_name(name))}"
        with suppress(NotFoundError):
            found = self._read(key)
            if found.name == name:
                return found
        raise NotFoundError(f"there is no savepoint {name!r}; there are: {self._known()}")

    def verify(self, savepoint: Savepoint | str) -> None:
        """Read every file; the error names the first that is missing or differs."""
        found = self.load(savepoint) if isinstance(savepoint, str) else savepoint
        self._verify(found, found.manifest.tasks)

    def list(self) -> list[Savepoint | DamagedSavepoint]:
        """All of them, the oldest first; damaged ones before them."""
        good: list[Savepoint] = []
        bad: list[DamagedSavepoint] = []
        for name, data in self._storage.savepoint_records():
            key = f"{RECORDS}/{name}"
            try:
                found = decode_savepoint(data, key)
                if plain(found.name) != name:
                    raise DataError(f"{name} is the savepoint {found.name!r}: it was moved")
                good.append(replace(found, folder=self._folder(key)))
            except FabricError as error:
                bad.append(DamagedSavepoint(name, self._folder(key), error))
        return [*bad, *sorted(good, key=lambda one: (one.created_us, one.name))]

    def delete(self, name: str) -> None:
        """Remove a savepoint, also a damaged one by that of its object."""
        check_savepoint_name(name)
        names = self._bucket.names(RECORDS)[1]
        if (stem := name if name in names else plain(name)) not in names:
            raise NotFoundError(f"there is no savepoint {name!r}; there are: {self._known()}")
        job = ""
        with suppress(DataError):
            job = self._read(f"{RECORDS}/{stem}").manifest.job
        self._bucket.remove([f"{RECORDS}/{stem}"])
        self._bucket.remove(self._bucket.sizes(f"{FILES}/{stem}"))
        if job:  # what only the savepoint had
            if read_pointer(self._bucket, job)[1]:
                self._storage.retain(job, (), 0)
            else:
                self._storage.remove_unnamed(job)

    def adopt(
        self,
        source: Savepoint | Manifest,
        paths: Mapping[str, str | None],
        *,
        job: str,
        checkpoint: int,
        nodes: tuple[NodeRecord, ...],
        epoch: int = 0,
        wall_us: int,
        owner: str = "",
    ) -> tuple[Manifest, Seal]:
        """Make a checkpoint of a job out of another or a savepoint; see `Savepoints.adopt`.

        The job `owner` starts from it. `FencedError`: another start has the state now, and nothing
        of that is removed.
        """
        if isinstance(source, Savepoint) and source.key_groups != N_KEY_GROUPS:
            raise DataError(
                f"the savepoint {source.name!r} has {source.key_groups} key groups, this Fabric "
                f"has {N_KEY_GROUPS}; use the release that wrote it, {source.release}"
            )
        old = source if isinstance(source, Manifest) else source.manifest
        used = moved(old.tasks, paths, {node.path for node in nodes})
        self._verify(source, (task for task, _ in used))
        own, is_same = own_content(), old.job == job
        tasks = tuple(
            replace(new, files=tuple(
                file if is_same and file.is_shared else _adopted(file, checkpoint, own)
                for file in new.files
            ))
            for _, new in used
        )  # fmt: skip
        manifest = Manifest(
            job=job, checkpoint=checkpoint, epoch=epoch, run=0, wall_us=wall_us, tasks=tasks,
            nodes=nodes,
        )  # fmt: skip
        pairs = [
            (self._key(source, before, file), file_key(job, _prefix(manifest, after), made))
            for (before, _), after in zip(used, tasks, strict=True)
            for file, made in zip(before.files, after.files, strict=True)
        ]
        try:
            self._copy([(before, after) for before, after in pairs if before != after])
            return manifest, self._storage.commit_manifest(manifest, owner)
        except BaseException:
            with suppress(FabricError):  # the first error is the one to tell
                self._storage.remove(job, checkpoint, owner)
            raise

    # ---- inside

    def _there(self, key: str, made: Savepoint) -> bool:
        """Whether it is there already; `ConfigError` when another one is."""
        try:
            there = self._read(key)
        except NotFoundError:
            return False
        if (there.name, there.manifest) != (made.name, made.manifest):
            raise ConfigError(
                f"there is a savepoint {made.name!r} already: {there.name!r}, checkpoint "
                f"{there.manifest.checkpoint} of job {there.manifest.job}; delete it, or use "
                "another name"
            )
        return True

    def _read(self, key: str) -> Savepoint:
        found = decode_savepoint(self._bucket.read(key)[0], key)
        return replace(found, folder=self._folder(key))

    def _folder(self, key: str) -> Path:
        return Path(f"{self._bucket.url}/{key}")

    def _known(self) -> str:
        names = [repr(one.name) for one in self.list()]
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        return ", ".join(names[:_NAMES_SHOWN]) + more if names else "none"

    def _own(self, savepoint: Savepoint, task: TaskSnapshot, file: FileRecord) -> str:
        manifest = savepoint.manifest
        of = f"{plain(manifest.job)}-{manifest.checkpoint}"
        folder = task_folder(task.node, task.task, task.attempt)
        return f"{FILES}/{plain(savepoint.name)}/{of}/{folder}/{file.name}"

    def _key(self, source: Savepoint | Manifest, task: TaskSnapshot, file: FileRecord) -> str:
        if isinstance(source, Manifest):
            return file_key(source.job, _prefix(source, task), file)
        return (
            shared_key(source.manifest.job, file)
            if file.is_shared
            else self._own(source, task, file)
        )

    def _verify(self, source: Savepoint | Manifest, tasks: Iterable[TaskSnapshot]) -> None:
        files = [(self._key(source, task, file), file) for task in tasks for file in task.files]
        for _ in each_at_once(lambda pair: check_object(self._bucket, *pair), files):
            pass

    def _copy(self, pairs: Sequence[tuple[str, str]]) -> None:
        for _ in each_at_once(lambda pair: self._bucket.copy(*pair), pairs):
            pass

    def _check_shared(self, manifest: Manifest) -> None:
        files = [file for task in manifest.tasks for file in task.files if file.is_shared]
        wanted = {shared_key(manifest.job, file) for file in files}
        if wanted:
            there = self._bucket.sizes(next(iter(wanted)).rpartition("/")[0])
            if missing := wanted.difference(there):
                raise NotFoundError(f"{min(missing)} is missing in {self._bucket.url}")


def _prefix(manifest: Manifest, task: TaskSnapshot) -> str:
    return task_prefix(manifest.job, manifest.checkpoint, task)


def _adopted(file: FileRecord, checkpoint: int, own: str) -> FileRecord:
    """The record of a file in another job, first stored for that checkpoint."""
    if not file.is_shared:
        return replace(file, content=own)
    content = file.content.partition("-")[2]
    return replace(file, content=f"{checkpoint}-{content}")


def not_exported(place: str | Path) -> str:
    """Why a savepoint of a store is neither written to nor read from a folder."""
    return (
        f"{str(place)!r} can't be used here: savepoints of a checkpoint folder that is a URL "
        "lie in that store; name one by its name, and copy objects with the store's "
        "own tools"
    )
