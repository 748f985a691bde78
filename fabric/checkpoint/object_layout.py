"""Names of the objects of a checkpoint folder that is a URL, and one task's snapshot there.

    <job>/POINTER                                    the newest checkpoint, who may write the next
         /manifests/00000000000000000007             names all of checkpoint 7
         /tasks/00000000000000000007/<node>.3.1.<random>/…   files of task 3, attempt 1, alone
         /shared/7-<content>-<bytes>-<crc32c>        immutable files, first stored for checkpoint 7
    .names/…                                         named streams, see `object_names.py`
    .savepoints/…                                    see `object_savepoints.py`

Each start of a stream counts its attempts anew, and one that was taken for dead may still store. So
what a task has alone lies below a random name, which is part of its `content` in the manifest:
nobody writes over, or removes, what another one has stored.

A store has no hard links: what would be a link is a reference by name. The number in the name of a
shared object, which is part of its `content` in the manifest, says since when it can be referred
to. So an object that no manifest names and that is older than the newest checkpoint is garbage,
and what a checkpoint under way has stored is not.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, TypeVar

import pyarrow as pa
from typing_extensions import Buffer

from fabric._cython.shuffle.checksum import RunningCrc32c, crc32c
from fabric.checkpoint.folder import SHARED, plain, task_folder
from fabric.checkpoint.local_copies import CheckpointCopies
from fabric.checkpoint.manifest import FINAL, OWN, FileRecord, TaskSnapshot, check_file_name
from fabric.errors import DataError, FabricError, InternalError, NotFoundError, StorageError
from fabric.object_store import Bucket

POINTER, MANIFESTS, TASKS = "POINTER", "manifests", "tasks"
AT_ONCE = 8
"""Requests of one snapshot, or of one check, at a time."""
_PENDING_MAX = 4 * AT_ONCE
_OWN = re.compile(OWN + "([0-9a-f]{16})")
_CONTENT = re.compile(r"\d{1,19}-[a-z0-9_~\-]{1,128}")
_NAME = re.compile(r"(\d{1,19})-(.+)-(\d+)-([0-9a-f]{8})")
_PIECE = 4 << 20
T = TypeVar("T")
R = TypeVar("R")


def manifest_key(job: str, checkpoint: int) -> str:
    """The key of a checkpoint's manifest; names sort as numbers do."""
    return f"{plain(job)}/{MANIFESTS}/{checkpoint:020}"


def task_prefix(job: str, checkpoint: int, task: TaskSnapshot) -> str:
    """What the keys of the files begin with that a task has stored for one checkpoint alone."""
    folder = task_folder(task.node, task.task, task.attempt)
    return f"{plain(job)}/{TASKS}/{checkpoint:020}/{folder}"


def shared_key(job: str, record: FileRecord) -> str:
    """The key of an immutable file; `DataError` when its content is not one of a store."""
    if not _CONTENT.fullmatch(record.content):
        raise DataError(f"{record.content[:80]!r} is not the content of an object of a store")
    return f"{plain(job)}/{SHARED}/{record.content}-{record.n_bytes}-{record.crc32c:08x}"


def file_key(job: str, prefix: str, record: FileRecord) -> str:
    """Where a file of a snapshot is; the keys of those of one task alone begin with `prefix`."""
    if record.is_shared:
        return shared_key(job, record)
    if not record.content:
        return f"{prefix}/{record.name}"
    if (found := _OWN.fullmatch(record.content)) is None:
        raise DataError(f"{record.content[:80]!r} is not the content of an object of a store")
    return f"{prefix}.{found[1]}/{record.name}"


def own_content() -> str:
    """The content of files of one snapshot alone, which no other one has."""
    return f"{OWN}{secrets.token_hex(8)}"


def parse_shared(name: str) -> tuple[int, str, int, int] | None:
    """Number, content, bytes and checksum in the name of a shared object.

    >>> parse_shared("7-db1-000012-5-00000007")
    (7, 'db1-000012', 5, 7)
    """
    found = _NAME.fullmatch(name)
    return (int(found[1]), found[2], int(found[3]), int(found[4], 16)) if found else None


def each_at_once(do: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """`do` each, some at a time; results and errors come in the order of `items`."""
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="objects") as pool:
        begun = [pool.submit(do, item) for item in items]
        try:
            for future in begun:
                yield future.result()
        finally:
            for future in begun:
                future.cancel()


def as_in_folders(record: FileRecord) -> FileRecord:
    """The same where there are hard links: a content has no number there, and own files have none.

    >>> as_in_folders(FileRecord("x", 5, 7, "7-db1-000012")).content
    'db1-000012'
    """
    return replace(record, content=record.content.partition("-")[2] if record.is_shared else "")


def checked_pieces(bucket: Bucket, key: str, record: FileRecord) -> Iterator[Buffer]:
    """An object; at its end `DataError` when it is not as recorded."""
    crc, n_bytes = RunningCrc32c(), 0
    for piece in bucket.pieces(key):
        crc.update(piece)
        n_bytes += memoryview(piece).nbytes
        yield piece
    compare(key, record, n_bytes, crc.value)


def check_object(bucket: Bucket, key: str, record: FileRecord) -> None:
    """Read an object; `DataError` or `NotFoundError` when it is not as recorded."""
    for _ in checked_pieces(bucket, key, record):
        pass


def compare(key: str, record: FileRecord, n_bytes: int, crc: int) -> None:
    """Refuse an object with other bytes than recorded."""
    if n_bytes != record.n_bytes:
        raise DataError(f"{key} has {n_bytes} bytes, {record.n_bytes} were stored")
    if crc != record.crc32c:
        raise DataError(f"{key} is damaged: its checksum is not that of what was stored")


class ObjectWriter:
    """Takes the files of one task's snapshot of one node; one thread at a time.

    Uploads go on beside the caller. After an error nothing of the task alone is left, and nothing
    more is taken.
    """

    def __init__(
        self, bucket: Bucket, job: str, checkpoint: int, name: str, copies: CheckpointCopies | None
    ) -> None:
        self._bucket, self._job, self._checkpoint, self._name = bucket, job, checkpoint, name
        self._copies = copies
        self._prefix = f"{plain(job)}/{TASKS}/{checkpoint:020}/{self._name}"
        self._own = own_content()
        self._records: dict[str, FileRecord | Future[FileRecord]] = {}
        self._known: dict[str, FileRecord] | None = None
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix=f"objects {self._name}")
        self._open = True

    def put(self, name: str, data: bytes | pa.Buffer) -> None:
        """Store one file."""
        self._check(name)
        view = memoryview(data).cast("B")
        # What a task that has ended leaves is in all later checkpoints, so it is shared.
        is_final = self._checkpoint == FINAL
        content = f"{FINAL}-{secrets.token_hex(8)}" if is_final else self._own
        record = FileRecord(name, len(view), crc32c(view), content)
        key = file_key(self._job, self._prefix, record)
        self._add(name, lambda: self._stored(key, view, record))

    def link(self, name: str, path: Path, content: str) -> None:
        """Store an immutable file of this host, see `fabric.state.backend.SnapshotWriter`."""
        if not content:
            raise InternalError(f"file {name} has no content to be known by; use put")
        self._check(name)
        try:
            file = path.open("rb")  # the task may remove it meanwhile
            size = path.stat().st_size
        except OSError as error:
            self.abandon()
            why = error.strerror or type(error).__name__
            raise StorageError(f"{path.name} can't be stored in a checkpoint: {why}") from error
        try:
            known = self._contents().get(plain(content))
        except BaseException:
            file.close()
            self.abandon()
            raise
        held = None if self._copies is None else self._copies.hold(path)
        if known is None:
            self._add(name, lambda: self._upload(name, file, content, held))
            return
        file.close()
        if size != known.n_bytes:
            self.abandon()
            raise InternalError(
                f"{path.name} has {size} bytes, the content {content!r} has {known.n_bytes}: it "
                "changed"
            )
        record = FileRecord(name, known.n_bytes, known.crc32c, known.content)
        self._copied(held, record)
        self._records[name] = record

    def finish(self) -> tuple[FileRecord, ...]:
        """All files, in order of their names; they are durable when it returns."""
        if not self._open:
            raise StorageError(f"the snapshot {self._name} was finished or abandoned")
        try:
            found = [self._record(name) for name in sorted(self._records)]
        except BaseException:
            self.abandon()
            raise
        self._close()
        return tuple(found)

    def abandon(self) -> None:
        """Remove what was written; again is fine."""
        if self._open or self._records:
            self._close()
            own = [FileRecord(name, 0, 0, self._own) for name in self._records]
            keys = [file_key(self._job, self._prefix, record) for record in own]
            self._records.clear()
            with suppress(FabricError):  # what can't be removed now goes with its checkpoint
                self._bucket.remove(keys)

    # ---- inside

    def _check(self, name: str) -> None:
        if not self._open:
            raise StorageError(f"the snapshot {self._name} was finished or abandoned")
        check_file_name(name)
        if name in self._records:
            raise InternalError(f"a snapshot has two files {name}")

    def _add(self, name: str, store: Callable[[], FileRecord]) -> None:
        """Begin an upload, and wait for older ones where many are under way."""
        pending = [one for one in self._records.values() if isinstance(one, Future)]
        self._records[name] = self._pool.submit(store)
        if len(pending) >= _PENDING_MAX:
            try:
                for older in list(self._records)[: -_PENDING_MAX // 2]:
                    self._record(older)
            except BaseException:
                self.abandon()
                raise

    def _record(self, name: str) -> FileRecord:
        found = self._records[name]
        if isinstance(found, Future):
            found = self._records[name] = found.result()
        return found

    def _close(self) -> None:
        self._open = False
        self._pool.shutdown(cancel_futures=True)

    def _stored(self, key: str, data: memoryview, record: FileRecord) -> FileRecord:
        self._bucket.put(key, data)
        if self._copies is not None:
            self._copies.put(key, data)
        return record

    def _copied(self, held: Path | None, record: FileRecord) -> None:
        if self._copies is not None and held is not None:
            self._copies.name(held, shared_key(self._job, record))

    def _upload(self, name: str, file: IO[bytes], content: str, held: Path | None) -> FileRecord:
        with file:
            crc, n_bytes = RunningCrc32c(), 0
            while piece := file.read(_PIECE):
                crc.update(piece)
                n_bytes += len(piece)
            file.seek(0)
            known = f"{self._checkpoint}-{plain(content)}"
            record = FileRecord(name, n_bytes, crc.value, known)
            self._bucket.put(shared_key(self._job, record), file)
        self._copied(held, record)
        return record

    def _contents(self) -> dict[str, FileRecord]:
        """The immutable files there are, as of the first look."""
        if self._known is None:
            names = self._bucket.names(f"{plain(self._job)}/{SHARED}")[1]
            found = sorted(filter(None, map(parse_shared, names)))
            self._known = {
                content: FileRecord(content[:1], n_bytes, crc, f"{number}-{content}")
                for number, content, n_bytes, crc in found
            }
        return self._known


class ObjectReader:
    """Gives the files of one task's snapshot of one node; from `copies` what is there."""

    def __init__(
        self,
        bucket: Bucket,
        job: str,
        prefix: str,
        snapshot: TaskSnapshot,
        copies: CheckpointCopies | None = None,
    ) -> None:
        self._bucket, self._job, self._prefix, self._copies = bucket, job, prefix, copies
        self._records = {file.name: file for file in snapshot.files}
        self.key_groups = snapshot.key_groups

    def names(self) -> list[str]:
        """The files, sorted."""
        return sorted(self._records)

    def read(self, name: str) -> pa.Buffer:
        """The bytes of a file."""
        record = self._record(name)
        key = file_key(self._job, self._prefix, record)
        if self._copies is not None and (found := self._copies.read(key, record)) is not None:
            return found
        data, _ = self._bucket.read(key)
        compare(key, record, len(data), crc32c(data))
        return pa.py_buffer(data)

    def fetch(self, name: str, to: Path, *, fixed: bool = False) -> None:
        """Put a copy of a file at `to`; each is compared."""
        record = self._record(name)
        key = file_key(self._job, self._prefix, record)
        try:
            if self._copies is not None and self._copies.fetch(key, record, to):
                return
            with to.open("xb", buffering=0) as out:
                for piece in self.pieces(name):
                    left = memoryview(piece).cast("B")
                    while left:
                        left = left[out.write(left) :]
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise StorageError(f"{name} can't be written on this host: {why}") from error

    def pieces(self, name: str) -> Iterator[Buffer]:
        """A file, some megabytes at a time; at its end it is compared."""
        record = self._record(name)
        return checked_pieces(self._bucket, file_key(self._job, self._prefix, record), record)

    def _record(self, name: str) -> FileRecord:
        if (record := self._records.get(name)) is None:
            known = ", ".join(self.names()) or "it has none"
            raise NotFoundError(f"the snapshot has no file {name[:80]!r}; files: {known}")
        return record
