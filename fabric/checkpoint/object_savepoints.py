"""Savepoints of a checkpoint folder that is a URL.

    .savepoints/records/<name>                                names and seals all of it
               /files/<name>/<job>-<checkpoint>/<task>/…      files of each task alone
    <job>/shared/…                                            immutable ones, referred to by name

One job: `ObjectSavepoints`, with the methods of `Savepoints`. A savepoint is there when its record
is, which is created after all that it names. Retention keeps the shared objects that a record
names, also when the job is forgotten. What another job starts from is copied by the store; of a
savepoint that lies elsewhere it is uploaded, and compared on its way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fabric.checkpoint.codec import decode_savepoint, encode_savepoint
from fabric.checkpoint.folder import SAVEPOINTS, plain, task_folder
from fabric.checkpoint.manifest import FileRecord, Manifest, NodeRecord, Seal, TaskSnapshot
from fabric.checkpoint.object_layout import (
    ObjectReader,
    as_in_folders,
    check_object,
    each_at_once,
    file_key,
    own_content,
    shared_key,
    task_prefix,
)
from fabric.checkpoint.object_storage import RECORDS, ObjectStorage
from fabric.checkpoint.pointer import read_pointer
from fabric.checkpoint.savepoint import (
    DamagedSavepoint,
    FileReader,
    Savepoint,
    check_key_groups,
    check_savepoint_name,
    moved,
)
from fabric.checkpoint.savepoints import Savepoints
from fabric.errors import ConfigError, DataError, FabricError, InternalError, NotFoundError
from fabric.object_store import Bucket
from fabric.object_urls import is_object_url

FILES = f"{SAVEPOINTS}/files"
_NAMES_SHOWN = 20


class ObjectSavepoints:
    """Those of a checkpoint folder in a bucket; errors are those of `Savepoints`."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket, self._storage = bucket, ObjectStorage(bucket)

    def write(self, savepoint: Savepoint) -> Path:
        """Keep a checkpoint that lies in the bucket; durable when it returns, again is fine.

        Raises
        ------
        ConfigError
            Another savepoint has that name.
        """
        made = savepoint.without_handles()
        key = f"{RECORDS}/{plain(check_savepoint_name(made.name))}"
        if self._there(key, made):
            return self._folder(key)
        pairs = [
            (before, f"{self._own(made, task)}/{file.name}")
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
        """Put a savepoint into a folder as well; see `Savepoints.write`."""
        Savepoints(to.parent).export(self.portable(name), to)

    def load(self, name: str) -> Savepoint:
        """The savepoint of a name, or that whose URL is given, as `Savepoint.folder` is."""
        key = self._key_in(name)
        with suppress(NotFoundError):
            found = self._read(key)
            if is_object_url(name) or found.name == name:
                return found
        raise NotFoundError(f"there is no savepoint {name!r}; there are: {self._known()}")

    def portable(self, name: str) -> Savepoint:
        """As `load`, for other places: as it is in a folder, but that its files are read here."""
        found = self.load(name)
        stored = {(task.node, task.task): task for task in found.manifest.tasks}

        def reader(task: TaskSnapshot) -> ObjectReader:
            was = stored[task.node, task.task]
            own = (file if file.is_shared else as_in_folders(file) for file in was.files)
            there = replace(was, files=tuple(own))
            return ObjectReader(self._bucket, found.manifest.job, self._own(found, was), there)

        tasks = tuple(
            replace(task, files=tuple(map(as_in_folders, task.files)))
            for task in found.manifest.tasks
        )
        return replace(found, manifest=replace(found.manifest, tasks=tasks), reader=reader)

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
        old, reader = source, None
        if isinstance(source, Savepoint):
            check_key_groups(source)
            old, reader = source.manifest, source.reader
        assert isinstance(old, Manifest)
        used = moved(old.tasks, paths, {node.path for node in nodes})
        if reader is None:  # else they are compared as they come
            self._verify(source, (task for task, _ in used))
        own, is_same = own_content(), old.job == job and reader is None
        tasks = tuple(
            replace(new, files=tuple(
                file if is_same and file.is_shared
                else _adopted(file, checkpoint, own, is_numbered=reader is None)
                for file in new.files
            ))
            for _, new in used
        )  # fmt: skip
        manifest = Manifest(
            job=job, checkpoint=checkpoint, epoch=epoch, run=0, wall_us=wall_us, tasks=tasks,
            nodes=nodes,
        )  # fmt: skip
        moves = [
            (before, file, file_key(job, _prefix(manifest, after), made))
            for (before, _), after in zip(used, tasks, strict=True)
            for file, made in zip(before.files, after.files, strict=True)
        ]
        try:
            if reader is None:
                pairs = [(self._key(source, task, file), key) for task, file, key in moves]
                self._copy([(before, after) for before, after in pairs if before != after])
            else:  # a shared file of several tasks is one object
                self._upload({key: (reader(task), file.name) for task, file, key in moves})
            return manifest, self._storage.commit_manifest(manifest, owner)
        except BaseException:
            with suppress(FabricError):  # the first error is the one to tell
                self._storage.remove(job, checkpoint, owner)
            raise

    # ---- inside

    def _key_in(self, name: str) -> str:
        """The key of a savepoint's record, by its name or its URL."""
        if not is_object_url(name):
            return f"{RECORDS}/{plain(check_savepoint_name(name))}"
        key = name.removeprefix(f"{self._bucket.url}/")
        above, _, stem = key.rpartition("/")
        if above != RECORDS or not stem:
            raise ConfigError(
                f"{name} is not the URL of a savepoint; it ends in /{RECORDS}/ and a name, as "
                "`fabric savepoints show` has it"
            )
        return key

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

    def _own(self, savepoint: Savepoint, task: TaskSnapshot) -> str:
        """What the keys of the files begin with that a task has alone."""
        manifest = savepoint.manifest
        of = f"{plain(manifest.job)}-{manifest.checkpoint}"
        folder = task_folder(task.node, task.task, task.attempt)
        return f"{FILES}/{plain(savepoint.name)}/{of}/{folder}"

    def _key(self, source: Savepoint | Manifest, task: TaskSnapshot, file: FileRecord) -> str:
        if isinstance(source, Manifest):
            return file_key(source.job, _prefix(source, task), file)
        return (
            shared_key(source.manifest.job, file)
            if file.is_shared
            else f"{self._own(source, task)}/{file.name}"
        )

    def _verify(self, source: Savepoint | Manifest, tasks: Iterable[TaskSnapshot]) -> None:
        files = [(self._key(source, task, file), file) for task in tasks for file in task.files]
        for _ in each_at_once(lambda pair: check_object(self._bucket, *pair), files):
            pass

    def _copy(self, pairs: Sequence[tuple[str, str]]) -> None:
        for _ in each_at_once(lambda pair: self._bucket.copy(*pair), pairs):
            pass

    def _upload(self, files: Mapping[str, tuple[FileReader, str]]) -> None:
        def upload(key: str) -> None:
            reader, name = files[key]
            self._bucket.put_pieces(key, reader.pieces(name))

        for _ in each_at_once(upload, files):
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


def _adopted(file: FileRecord, checkpoint: int, own: str, *, is_numbered: bool) -> FileRecord:
    """The record of a file in another job, first stored for that checkpoint.

    Its content is numbered already, unless it comes from elsewhere.
    """
    if not file.is_shared:
        return replace(file, content=own)
    content = file.content.partition("-")[2] if is_numbered else plain(file.content)
    return replace(file, content=f"{checkpoint}-{content}")
