"""A checkpoint folder: the names in it, and one task's snapshot written there and read again.

    <root>/<job>/00000000000000000007/MANIFEST                  names and seals all of checkpoint 7
                                     /window_2.3.1/state        node window_2, task 3, attempt 1
                /shared/<content>-<bytes>-<crc32c>              immutable files by their content
                /sinks/...                                      what sinks have to publish
    <root>/.names/...                                           named streams, see `names.py`
          /.savepoints/...                                      see `savepoints.py`

Jobs, nodes and contents may be any text, folders may not: what has a letter that some file system
treats as another one gets a digest of itself appended.

`FolderWriter` stores immutable files once: as another name of the file that an earlier snapshot
stored under the same content, or else of the host's own file, or copied. They are known by what
their shared names say, so nobody reads them again. `FolderReader` checks what is read or copied
once more on the way; what is linked was checked by `check_file` before.
"""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from fabric._cython.shuffle.checksum import RunningCrc32c, crc32c
from fabric.checkpoint.files import OURS, Files, reading, writing
from fabric.checkpoint.manifest import FileRecord, TaskSnapshot, check_file_name
from fabric.errors import DataError, InternalError, NotFoundError, StorageError

MANIFEST, ASIDE, SHARED, SINKS = "MANIFEST", "MANIFEST.new", "shared", "sinks"
NAMES, SAVEPOINTS = ".names", ".savepoints"
_PLAIN = re.compile(r"[a-z0-9_\-]{1,100}")
_OTHER = re.compile(r"[^a-z0-9_\-]")
_SHARED = re.compile(r"(.+)-(\d+)-([0-9a-f]{8})")
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES, errno.ENOSYS)


def plain(text: str) -> str:
    """A name for a folder that no other text gets.

    >>> plain("window_2"), plain("Enrich/Join")
    ('window_2', 'enrich_join~dc3c816e479a12e0')
    """
    if _PLAIN.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{_OTHER.sub('_', text.lower())[:80]}~{digest}"


def checkpoint_folder(root: Path, job: str, checkpoint: int) -> Path:
    """The folder of one checkpoint; names sort as numbers do."""
    return root / plain(job) / f"{checkpoint:020}"


def sinks_folder(root: Path, job: str) -> Path:
    """Where sinks put aside what a complete checkpoint publishes: files of theirs alone."""
    return root / plain(job) / SINKS


def task_folder(node: str, task: int, attempt: int) -> str:
    """The name of a task's folder in that of a checkpoint."""
    return f"{plain(node)}.{task}.{attempt}"


def checkpoints_among(names: list[str]) -> list[int]:
    """The checkpoints whose folders are among `names`, rising."""
    return sorted(int(name) for name in names if len(name) == 20 and name.isdecimal())


def shared_name(content: str, n_bytes: int, crc32c: int) -> str:
    """The name of an immutable file; it says what is in it."""
    return f"{plain(content)}-{n_bytes}-{crc32c:08x}"


def parse_shared(name: str) -> tuple[str, int, int] | None:
    """The plain content, bytes and checksum of a name that `shared_name` made.

    >>> parse_shared(shared_name("db1-000012", 5, 7))
    ('db1-000012', 5, 7)
    """
    found = _SHARED.fullmatch(name)
    return (found[1], int(found[2]), int(found[3], 16)) if found else None


class FolderWriter:
    """Takes the files of one task's snapshot of one node; one thread at a time.

    After an error nothing is left, and nothing more is taken. `own` is the folder of the task's
    files.
    """

    def __init__(
        self, root: Path, own: Path, shared: Path, files: Files, above: tuple[Path, ...] = ()
    ) -> None:
        self._root, self._own, self._shared, self._files = root, own, shared, files
        self._above = above
        """Folders that no manifest of their own will have synced."""
        self._records: dict[str, FileRecord] = {}
        self._known: dict[str, tuple[int, int]] | None = None
        self._open = True
        self._began = False

    def put(self, name: str, data: bytes | pa.Buffer) -> None:
        """Store one file."""
        with self._adding(name) as path:
            view = memoryview(data).cast("B")
            self._files.write(path, view)
            self._files.sync(path)
            self._records[name] = FileRecord(name, len(view), crc32c(view))

    def link(self, name: str, path: Path, content: str) -> None:
        """Store an immutable file of this host, see `fabric.state.backend.SnapshotWriter`."""
        if not content:
            raise InternalError(f"file {name} has no content to be known by; use put")
        size = self._size_of(path)
        with self._adding(name) as to:
            found = self._reuse(path, size, to, content)
            if found is None:
                found = self._take(path, to)
                self._files.sync(to)
                self._share(to, content, *found)
            self._records[name] = FileRecord(name, *found, content)

    def finish(self) -> tuple[FileRecord, ...]:
        """All files, in order of their names; they are durable when it returns.

        Folders above are synced by `commit_manifest`, once for all.
        """
        self._check_open()
        with self._undoing():
            for folder in (self._own, *self._above) if self._began else ():
                self._files.sync(folder)
            self._open = False
        return tuple(self._records[name] for name in sorted(self._records))

    def abandon(self) -> None:
        """Remove what was written; again is fine."""
        self._open = False
        with suppress(OSError):  # what can't be removed now goes with its checkpoint
            for name in self._files.names(self._own):
                self._files.remove_file(self._own / name)
            self._files.remove_folder(self._own)

    # ---- inside

    @contextmanager
    def _adding(self, name: str) -> Iterator[Path]:
        """The path of a new file."""
        self._check_open()
        check_file_name(name)
        if name in self._records:
            raise InternalError(f"a snapshot has two files {name}")
        with self._undoing():
            if not self._began:
                self._files.make_folder(self._own.parent)
                self._files.make_folder(self._own)
                self._began = True
            yield self._own / name

    @contextmanager
    def _undoing(self) -> Iterator[None]:
        """After an error nothing is left: on a full disk, others need the room."""
        try:
            with writing(self._root, self._own):
                yield
        except BaseException:
            self.abandon()
            raise

    def _check_open(self) -> None:
        if not self._open:
            raise StorageError(f"the snapshot {self._own.name} was finished or abandoned")

    def _size_of(self, path: Path) -> int:
        """The bytes of a file of this host."""
        try:
            return self._files.size(path)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise StorageError(f"{path.name} can't be stored in a checkpoint: {why}") from error

    def _reuse(self, path: Path, size: int, to: Path, content: str) -> tuple[int, int] | None:
        """Link what is there of the same content; its bytes and checksum, or None."""
        known = self._contents().get(plain(content))
        if known is None:
            return None
        if size != known[0]:
            raise InternalError(
                f"{path.name} has {size} bytes, the content {content!r} has {known[0]}: it changed"
            )
        try:
            self._files.link(self._shared / shared_name(content, *known), to)
        except OSError as error:
            if not isinstance(error, FileNotFoundError) and error.errno not in _NO_LINKS:
                raise
            return None  # it was removed just now, or has as many names as a file may have
        return known

    def _take(self, path: Path, to: Path) -> tuple[int, int]:
        """Link or copy a file of this host."""
        return link_or_copy(self._files, path, to) or self._files.checksum(to)

    def _share(self, to: Path, content: str, n_bytes: int, crc: int) -> None:
        """Let later snapshots find it; where that can't be they copy."""
        share(self._files, to, self._shared, FileRecord(to.name, n_bytes, crc, content))
        self._contents()[plain(content)] = (n_bytes, crc)

    def _contents(self) -> dict[str, tuple[int, int]]:
        """The immutable files there are, as of the first look."""
        if self._known is None:
            try:
                names = self._files.names(self._shared)
            except FileNotFoundError:
                names = []
            found = filter(None, map(parse_shared, names))
            self._known = {content: (n_bytes, crc) for content, n_bytes, crc in found}
        return self._known


def link_or_copy(files: Files, source: Path, to: Path) -> tuple[int, int] | None:
    """Give a file another name, or copy it where that can't be: then its bytes and checksum."""
    try:
        files.link(source, to)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        copied = files.copy(source, to)
        files.sync(to)
        return copied
    return None


def share(files: Files, path: Path, shared: Path, record: FileRecord) -> None:
    """Let later snapshots find an immutable file; where that can't be they copy."""
    files.make_folder(shared)
    try:
        files.link(path, shared / shared_name(record.content, record.n_bytes, record.crc32c))
    except FileExistsError:
        pass  # another task stored the same
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise


class FolderReader:
    """Gives the files of one task's snapshot of one node."""

    def __init__(
        self, root: Path, folder: Path, snapshot: TaskSnapshot, files: Files, place: str = OURS
    ) -> None:
        self._root, self._folder, self._files, self._place = root, folder, files, place
        self._records = {file.name: file for file in snapshot.files}
        self.key_groups = snapshot.key_groups

    def names(self) -> list[str]:
        """The files, sorted."""
        return sorted(self._records)

    def read(self, name: str) -> pa.Buffer:
        """The bytes of a file."""
        record = self._record(name)
        path = self._folder / name
        with reading(self._files, self._root, path, self._place):
            data = self._files.read(path)
        compare(self._root, path, record, len(data), crc32c(data))
        return pa.py_buffer(data)

    def fetch(self, name: str, to: Path, *, fixed: bool = False) -> None:
        """Put a file at `to`, linked or copied. Only what never changes is linked."""
        record = self._record(name)
        path = self._folder / name
        with reading(self._files, self._root, path, self._place):
            is_linked = False
            if record.content or fixed:
                # Any refusal of a link is answered by a copy, and that says what is wrong.
                with suppress(OSError):
                    self._files.link(path, to)
                    is_linked = True
            if is_linked and not fixed:
                return
            found = self._files.checksum(to) if is_linked else self._files.copy(path, to)
        compare(self._root, path, record, *found)

    def pieces(self, name: str) -> Iterator[bytes]:
        """A file, some megabytes at a time; at its end it is compared."""
        record, path = self._record(name), self._folder / name
        crc, n_bytes = RunningCrc32c(), 0
        with reading(self._files, self._root, path, self._place):
            for piece in self._files.pieces(path):
                crc.update(piece)
                n_bytes += len(piece)
                yield piece
        compare(self._root, path, record, n_bytes, crc.value)

    def _record(self, name: str) -> FileRecord:
        if (record := self._records.get(name)) is None:
            known = ", ".join(self.names()) or "it has none"
            raise NotFoundError(f"the snapshot has no file {name[:80]!r}; files: {known}")
        return record


def check_file(root: Path, path: Path, record: FileRecord, files: Files, place: str = OURS) -> None:
    """Read a file; `DataError` or `NotFoundError` when it is not as recorded."""
    with reading(files, root, path, place):
        found = files.checksum(path)
    compare(root, path, record, *found)


def compare(root: Path, path: Path, record: FileRecord, n_bytes: int, crc: int) -> None:
    """Refuse a file with other bytes than recorded."""
    where = path.relative_to(root)
    if n_bytes != record.n_bytes:
        raise DataError(f"{where} has {n_bytes} bytes, {record.n_bytes} were stored")
    if crc != record.crc32c:
        raise DataError(f"{where} is damaged: its checksum is not that of what was stored")
