"""One task's snapshot on its way into a checkpoint folder.

One job: `FolderWriter`. Immutable files are stored once: as another name of the file that an
earlier snapshot stored under the same content, or else of the host's own file, or copied. They are
known by what their shared names say, so nobody reads them again.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from fabric._cython.shuffle.checksum import crc32c
from fabric.checkpoint.faults import writing
from fabric.checkpoint.files import Files
from fabric.checkpoint.layout import parse_shared, plain, shared_name
from fabric.checkpoint.manifest import FileRecord, check_file_name
from fabric.errors import InternalError, StorageError

_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES, errno.ENOSYS)


class FolderWriter:
    """See `fabric.checkpoint.storage.TaskWriter`; `own` is the folder of the task's files."""

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
        """See `TaskWriter.put`."""
        with self._adding(name) as path:
            view = memoryview(data).cast("B")
            self._files.write(path, view)
            self._files.sync(path)
            self._records[name] = FileRecord(name, len(view), crc32c(view))

    def link(self, name: str, path: Path, content: str) -> None:
        """See `TaskWriter.link`."""
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
        """See `TaskWriter.finish`. Folders above are synced by `commit_manifest`, once for all."""
        self._check_open()
        with self._undoing():
            for folder in (self._own, *self._above) if self._began else ():
                self._files.sync(folder)
            self._open = False
        return tuple(self._records[name] for name in sorted(self._records))

    def abandon(self) -> None:
        """See `TaskWriter.abandon`."""
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
        self._files.make_folder(self._shared)
        try:
            self._files.link(to, self._shared / shared_name(content, n_bytes, crc))
        except FileExistsError:
            pass  # another task stored the same
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
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
