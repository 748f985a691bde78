"""Savepoints: checkpoints that have a name, are kept until they are deleted, and start other jobs.

    <root>/.savepoints/before_may/SAVEPOINT               names and seals all of it, see `codec.py`
                                 /window_2.3.1/state      the files of each task, as in a checkpoint
    /elsewhere/before_may/...                             the same in a folder of the user's choice

One job: `Savepoints`. A savepoint is there when its ``SAVEPOINT`` is, and that is renamed into
place after everything it names was forced to the disk. Before that the same record lies aside: so
it is known which files of a half-written one may be removed, also in a folder that is a user's.

Files are hard links where the file system has them, and copies elsewhere. So a savepoint takes no
room as long as the checkpoint lies there, too, and neither can take files from the other. Those of
a savepoint in an object store are fetched, some at once, and compared on their way. Nothing
is restored from a savepoint itself: `adopt` makes a checkpoint of it, with nodes that may have
other paths, and a job restores that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fabric.checkpoint.codec import decode_savepoint, encode_savepoint
from fabric.checkpoint.files import OURS, Files, reading, writing
from fabric.checkpoint.folder import (
    MANIFEST,
    SAVEPOINTS,
    SHARED,
    FolderReader,
    check_file,
    checkpoint_folder,
    compare,
    link_or_copy,
    plain,
    share,
    task_folder,
)
from fabric.checkpoint.manifest import FileRecord, Manifest, NodeRecord, Seal, TaskSnapshot
from fabric.checkpoint.object_layout import each_at_once
from fabric.checkpoint.savepoint import (
    DamagedSavepoint,
    FileReader,
    Readers,
    Savepoint,
    check_key_groups,
    check_savepoint_name,
    moved,
)
from fabric.checkpoint.storage import FolderStorage
from fabric.errors import ConfigError, DataError, FabricError, NotFoundError

RECORD, ASIDE, LAST, LOCK = (f"SAVEPOINT{end}" for end in ("", ".new", ".last", ".lock"))
_RECORD_BYTES_MAX = 256 << 20
_NAMES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class _Place:
    """A folder with the files of a checkpoint; errors name paths from `root` on, in `text`."""

    root: Path
    folder: Path
    text: str = OURS

    @property
    def is_ours(self) -> bool:
        """Whether it is in the checkpoint folder, where others write nothing."""
        return self.text == OURS


class Savepoints:
    """Those of the checkpoint folder `root`, and those in other folders.

    Raises `StorageError` when the world refuses (full, read-only, not there), and `DataError` or
    `NotFoundError` when what lies there is not what was stored.
    """

    def __init__(self, root: Path, files: Files | None = None) -> None:
        self._root, self._files = root, files or Files()
        self._storage = FolderStorage(root, self._files)

    def write(self, savepoint: Savepoint, to: str = "") -> Path:
        """Keep a checkpoint that lies under the root; durable when it returns, again is fine.

        Its handles are left out, as they are published. With `to`, the absolute path of a folder
        that is empty or not there, it lies there.

        Returns
        -------
        Path
            The folder with the savepoint.

        Raises
        ------
        ConfigError
            Another savepoint has that name or folder, or somebody writes it just now.
        """
        manifest = savepoint.manifest
        folder = checkpoint_folder(self._root, manifest.job, manifest.checkpoint)
        place = self._place(to or savepoint.name, must_be_folder=bool(to))
        self._put(savepoint.without_handles(), _Place(self._root, folder), place)
        return place.folder

    def export(self, savepoint: Savepoint | str, to: Path) -> None:
        """Verify a savepoint, wherever it was loaded, and put it into a folder; see `write`."""
        found = self.load(savepoint) if isinstance(savepoint, str) else savepoint
        source, _ = self._source(found)
        if isinstance(source, _Place):
            self._verify(source, found.manifest.tasks)
        self._put(found, source, self._place(str(to), must_be_folder=True))

    def load(self, name: str) -> Savepoint:
        """The savepoint of a name, or that in a folder whose absolute path is given.

        Raises
        ------
        NotFoundError
            There is none; it names those that there are.
        DataError
            Its record is damaged, or of a newer version.
        """
        place = self._place(name)
        if RECORD in self._names(place):
            found = self._read(place)
            if not place.is_ours or found.name == name:
                return found
        raise NotFoundError(
            f"there is no savepoint {name!r}; there are: {self._known()}"
            if place.is_ours
            else f"there is no savepoint in the folder {place.folder}: it has no file {RECORD}"
        )

    def portable(self, name: str) -> Savepoint:
        """As `load`, for a place of another kind, which reads its files piece by piece."""
        found = self.load(name)
        place = self._place(name)

        def reader(task: TaskSnapshot) -> FolderReader:
            folder = place.folder / task_folder(task.node, task.task, task.attempt)
            return FolderReader(place.root, folder, task, self._files, place.text)

        return replace(found, reader=reader)

    def verify(self, savepoint: Savepoint | str) -> None:
        """Read every file; the error names the first that is missing or differs."""
        found = self.load(savepoint) if isinstance(savepoint, str) else savepoint
        place, manifest = self._source(found)
        assert isinstance(place, _Place)
        self._verify(place, manifest.tasks)

    def list(self) -> list[Savepoint | DamagedSavepoint]:
        """Those in the checkpoint folder, the oldest first; damaged ones before them."""
        good: list[Savepoint] = []
        bad: list[DamagedSavepoint] = []
        for name in self._names(_Place(self._root, self._root / SAVEPOINTS)):
            place = _Place(self._root, self._root / SAVEPOINTS / name)
            try:
                if RECORD not in self._names(place):
                    continue
                found = self._read(place)
                if plain(found.name) != name:
                    raise DataError(f"{name} is the savepoint {found.name!r}: it was moved")
                good.append(found)
            except FabricError as error:
                bad.append(DamagedSavepoint(name, place.folder, error))
        return [*bad, *sorted(good, key=lambda one: (one.created_us, one.name))]

    def delete(self, name: str) -> None:
        """Remove a savepoint of the checkpoint folder, also a damaged one by that of its folder."""
        check_savepoint_name(name)
        place, job = self._place(name), ""
        there = _Place(self._root, self._root / SAVEPOINTS)
        if not self._names(place) and name in self._names(there):  # see `DamagedSavepoint`
            place = replace(there, folder=there.folder / name)
        names = self._names(place)
        if RECORD in names:
            with suppress(DataError):
                found = self._read(place)
                job = found.manifest.job
                names = names if name in (found.name, place.folder.name) else []
        if not names:
            raise NotFoundError(f"there is no savepoint {name!r}; there are: {self._known()}")
        with self._holding(place):
            if RECORD in self._files.names(place.folder):  # from here on it is half-written
                self._files.rename(place.folder / RECORD, place.folder / ASIDE)
                self._files.sync(place.folder)
            self._clear(place)
        if job:  # what only the savepoint had beside `shared`
            self._storage.retain(job, (), 0)

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
        """Make a checkpoint of a job out of a savepoint, or of a checkpoint under the root.

        All files are read and compared before one is used. Handles are left out. So are
        rows that wait for whoever collects them: they are the result of the other job.

        Parameters
        ----------
        source
            What `load` returned, or `portable` of another place, or a manifest.
        paths
            For the path of each node that has put something into it, the path that the node has
            now, or None: that node is dropped, and its files are not read.
        job, checkpoint, nodes, epoch, wall_us
            Those of the new manifest; its `run` is 0.

        Raises
        ------
        DataError, NotFoundError
            A file is damaged or missing, or the engine had another number of key groups.
        InternalError
            `paths` lacks a node, gives two of them one path, or a path that is not in `nodes`.
        """
        if isinstance(source, Savepoint):
            check_key_groups(source)
        place, old = self._source(source)
        used = moved(old.tasks, paths, {node.path for node in nodes})
        if isinstance(place, _Place):  # else they are compared as they come
            self._verify(place, (task for task, _ in used))
        manifest = Manifest(
            job=job, checkpoint=checkpoint, epoch=epoch, run=0, wall_us=wall_us,
            tasks=tuple(task for _, task in used), nodes=nodes,
        )  # fmt: skip
        self._storage.prepare(job)
        target = _Place(self._root, checkpoint_folder(self._root, job, checkpoint))
        try:
            with writing(self._root, target.folder):
                self._files.make_folder(target.folder)
                if MANIFEST not in self._files.names(target.folder):
                    self._take(used, place, target)
                    self._share(manifest, target)
            return manifest, self._storage.commit_manifest(manifest)
        except BaseException:
            with suppress(FabricError):  # the first error is the one to tell
                self._storage.retain(job, self._storage.checkpoints(job), checkpoint + 1)
            raise

    # ---- inside

    def _place(self, name: str, *, must_be_folder: bool = False) -> _Place:
        """Where a savepoint lies that is called so, or that lies in a folder called so."""
        folder = Path(name)
        if folder.is_absolute() and folder.name and ".." not in folder.parts:
            return _Place(folder.parent, folder, f"the folder {folder.parent}")
        if must_be_folder:
            raise ConfigError(f"{name!r} is not the absolute path of a folder for a savepoint")
        folder = self._root / SAVEPOINTS / plain(check_savepoint_name(name))
        return _Place(self._root, folder)

    def _source(self, source: Savepoint | Manifest) -> tuple[_Place | Readers, Manifest]:
        """A folder with the files, or how they are read where they are."""
        if isinstance(source, Manifest):
            folder = checkpoint_folder(self._root, source.job, source.checkpoint)
            return _Place(self._root, folder), source
        if source.reader is not None:
            return source.reader, source.manifest
        ours = self._place(source.name)
        if source.folder is None or source.folder == ours.folder:
            return ours, source.manifest
        return self._place(str(source.folder)), source.manifest

    def _names(self, place: _Place) -> Sequence[str]:
        """What is in a folder that may not be there."""
        with reading(self._files, place.root, place.folder, place.text):
            try:
                return self._files.names(place.folder)
            except (FileNotFoundError, NotADirectoryError):
                return []

    def _known(self) -> str:
        names = [repr(one.name) for one in self.list()]
        if not names:
            above = _Place(self._root.parent, self._root.parent)
            is_there = self._root.name in self._names(above)
            return "none" if is_there else "none, and the checkpoint folder is not there yet"
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        return ", ".join(names[:_NAMES_SHOWN]) + more

    def _read(self, place: _Place, record: str = RECORD) -> Savepoint:
        path = place.folder / record
        where = str(path.relative_to(place.root))
        with reading(self._files, place.root, path, place.text):
            if (n_bytes := self._files.size(path)) > _RECORD_BYTES_MAX:
                raise DataError(f"{where} is damaged: it has {n_bytes} bytes")
            data = self._files.read(path)
        return replace(decode_savepoint(data, where), folder=place.folder)

    def _verify(self, place: _Place, tasks: Iterable[TaskSnapshot]) -> None:
        for task in tasks:
            folder = place.folder / task_folder(task.node, task.task, task.attempt)
            for file in task.files:
                check_file(place.root, folder / file.name, file, self._files, place.text)

    def _put(self, made: Savepoint, source: _Place | Readers, to: _Place) -> None:
        with writing(to.root, to.folder, to.text):
            if to.is_ours:
                for folder in (self._root, self._root / SAVEPOINTS):
                    self._files.make_folder(folder)
            self._files.make_folder(to.folder)
            for folder in (to.folder.parent, to.root):
                self._files.sync(folder)
        if RECORD in self._names(to):
            self._check_same(made, to)
            return
        self._check_free(to)
        with self._holding(to):
            if RECORD in self._files.names(to.folder):  # by who had the lock before
                self._check_same(made, to)
                return
            self._clear(to)
            self._check_free(to)
            try:
                self._fill(made, source, to)
            except BaseException:
                with suppress(OSError, FabricError):  # the first error is the one to tell
                    self._clear(to)
                raise

    def _fill(self, made: Savepoint, source: _Place | Readers, to: _Place) -> None:
        """The record aside, then what it names, then the record in its place."""
        data = encode_savepoint(made)
        for name in (ASIDE, LAST):
            self._files.write(to.folder / name, data)
            self._files.sync(to.folder / name)
            self._files.sync(to.folder)
            if name == ASIDE:
                self._take([(task, task) for task in made.manifest.tasks], source, to)
        self._files.rename(to.folder / LAST, to.folder / RECORD)
        self._files.sync(to.folder)
        self._files.remove_file(to.folder / ASIDE)

    def _check_same(self, made: Savepoint, to: _Place) -> None:
        there = self._read(to)
        if (there.name, there.manifest) != (made.name, made.manifest):
            where = f"in the folder {to.folder}" if not to.is_ours else repr(made.name)
            raise ConfigError(
                f"there is a savepoint {where} already: {there.name!r}, checkpoint "
                f"{there.manifest.checkpoint} of job {there.manifest.job}; delete it, or use "
                "another name"
            )
        with writing(to.root, to.folder, to.text):
            self._files.sync(to.folder)  # whoever renamed it may not have come so far

    def _check_free(self, to: _Place) -> None:
        """Refuse a user's folder that has other files than those of a half-written savepoint."""
        names = set(self._names(to)) - {LOCK}
        if names and not to.is_ours and ASIDE not in names:
            raise ConfigError(
                f"the folder {to.folder} has other files, such as {min(names)!r}; a savepoint "
                "needs a folder of its own, which is empty or not there"
            )

    @contextmanager
    def _holding(self, place: _Place) -> Iterator[None]:
        """Let nobody else write a savepoint; an empty folder of ours is removed in the end."""
        try:
            with writing(place.root, place.folder, place.text):
                try:
                    with self._files.locked(place.folder / LOCK):
                        yield
                except BlockingIOError as error:
                    raise ConfigError(
                        f"somebody writes or deletes the savepoint {place.folder.name} just now; "
                        "wait for that, or use another name"
                    ) from error
        finally:
            if place.is_ours:
                with suppress(OSError):
                    self._files.remove_folder(place.folder)

    def _clear(self, place: _Place) -> None:
        """Remove what is half-written; of a user's folder, only what a record says is ours."""
        names = self._files.names(place.folder)
        for task, files in self._leftovers(place, names):
            folder = place.folder / task
            with suppress(FileNotFoundError, NotADirectoryError):
                for file in set(files).intersection(self._files.names(folder)):
                    self._files.remove_file(folder / file)
                self._files.remove_folder(folder)
        for name in (LAST, ASIDE):
            if name in names:
                self._files.sync(place.folder)
                self._files.remove_file(place.folder / name)
        self._files.sync(place.folder)

    def _leftovers(
        self, place: _Place, names: Sequence[str]
    ) -> Iterator[tuple[str, Sequence[str]]]:
        """The folders of tasks, with their files."""
        if place.is_ours:
            for name in set(names) - {RECORD, ASIDE, LAST, LOCK}:
                yield name, self._names(replace(place, folder=place.folder / name))
        elif ASIDE in names:
            with suppress(DataError):  # it is cut off: nothing was written after it
                for task in self._read(place, ASIDE).manifest.tasks:
                    files = [file.name for file in task.files]
                    yield task_folder(task.node, task.task, task.attempt), files

    def _take(
        self,
        tasks: Iterable[tuple[TaskSnapshot, TaskSnapshot]],
        source: _Place | Readers,
        to: _Place,
    ) -> None:
        """Link, copy or fetch the files of tasks; durable when it returns."""
        coming: list[tuple[FileReader, str, Path]] = []
        folders: list[Path] = []
        for old, new in tasks:
            if not old.files:
                continue
            after = to.folder / task_folder(new.node, new.task, new.attempt)
            self._files.make_folder(after)
            there = set(self._files.names(after))
            for file in old.files:
                if file.name in there:  # of an attempt that did not get further
                    self._files.remove_file(after / file.name)
            folders.append(after)
            if isinstance(source, _Place):
                before = source.folder / task_folder(old.node, old.task, old.attempt)
                for file in old.files:
                    self._take_file(file, replace(source, folder=before), replace(to, folder=after))
            else:
                reader = source(old)
                coming += [(reader, file.name, after / file.name) for file in old.files]
        for _ in each_at_once(lambda one: self._fetch(*one, to), coming):
            pass
        for folder in (*folders, to.folder):
            self._files.sync(folder)

    def _fetch(self, reader: FileReader, name: str, made: Path, to: _Place) -> None:
        reader.fetch(name, made)
        with writing(to.root, made, to.text):
            self._files.sync(made)

    def _take_file(self, file: FileRecord, source: _Place, to: _Place) -> None:
        path, made = source.folder / file.name, to.folder / file.name
        with reading(self._files, source.root, path, source.text):
            n_bytes = self._files.size(path)
        compare(source.root, path, file, n_bytes, file.crc32c)
        with writing(to.root, made, to.text):
            copied = link_or_copy(self._files, path, made)
            if copied is not None:
                compare(source.root, path, file, *copied)
            elif not source.is_ours:  # nobody knows whether what a user put there is durable
                self._files.sync(made)

    def _share(self, manifest: Manifest, place: _Place) -> None:
        """Let later checkpoints of the job find the immutable files."""
        shared = self._root / plain(manifest.job) / SHARED
        for task in manifest.tasks:
            folder = place.folder / task_folder(task.node, task.task, task.attempt)
            for file in task.files:
                if file.content:
                    share(self._files, folder / file.name, shared, file)
