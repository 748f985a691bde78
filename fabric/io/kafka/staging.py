"""Records that are staged in files until their checkpoint is complete.

    <checkpoints>/<job>/sinks/3-00001-000002-000007    stage 3, task 1, run 2, portion 7

One job: `RecordFile`, which a task writes and makes durable, and `Stored`, which the publisher
reads back and verifies by length and checksum. A file name is never reused, so a file is either
complete or referenced by no checkpoint. Where the checkpoint folder is a URL they are objects.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from fabric._cython.shuffle.checksum import RunningCrc32c, crc32c
from fabric.checkpoint.folder import SINKS, plain, sinks_folder
from fabric.errors import DataError, FabricError, NotFoundError, StorageError
from fabric.ids import TaskId
from fabric.io.local_files import writing
from fabric.io.object_files import Upload, facts, place_of
from fabric.io.sinks.stream_folders import synced
from fabric.object_urls import is_object_url
from fabric.plan.targets import KafkaTarget

GATHERED_ROWS, GATHERED_BYTES = 16_384, 4 << 20
"""Smaller batches are concatenated up to this size: a batch per row would inflate the file."""
Place = tuple[int, int]
"""The run and number of a portion; both grow, so a task's later portions compare greater."""


class RecordFile:
    """The file with the records of one portion; `place` is the portion's run and number."""

    def __init__(self, folder: str, task: TaskId, place: Place, schema: pa.Schema) -> None:
        self._task, self._place, self._schema = task, place, schema
        self.path = f"{made_folder(folder, task.job)}/{_name(task, place)}"
        self._file = _Checked(self.path)
        self._writer = pa.ipc.new_stream(self._file, schema)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = self.rows = 0
        self.topics: dict[str, list[int]] = {}
        """By topic: size in bytes and row of the largest record, and the highest partition."""

    def write(self, records: pa.RecordBatch, topic: str) -> None:
        """Stage records; without a ``topic`` column all of them go to `topic`."""
        if not records.num_rows:
            return
        self._measure(records, topic)
        self.rows += records.num_rows
        self._waiting.append(records)
        self._waiting_rows += records.num_rows
        self._waiting_bytes += records.get_total_buffer_size()
        if self._waiting_rows >= GATHERED_ROWS or self._waiting_bytes >= GATHERED_BYTES:
            self._gather()

    @property
    def n_bytes(self) -> int:
        """Bytes written so far; the newest batches may still be in memory."""
        return self._file.n_bytes

    def finish(self) -> dict[str, Any]:
        """Make the file durable; returns the facts that a handle carries about it."""
        with writing(self.path):
            self._gather()
            self._writer.close()
            self._file.finish()
        run, number = self._place
        return {
            "job": self._task.job, "stage": self._task.stage, "task": self._task.task,
            "run": run, "number": number, "path": self.path, "rows": self.rows,
            "bytes": self._file.n_bytes, "crc32c": self._file.crc32c, "topics": self.topics,
        }  # fmt: skip

    def abandon(self) -> None:
        """Delete the file; safe to call from any thread, and repeatedly."""
        self._file.abandon()

    def _gather(self) -> None:
        if not self._waiting:
            return
        first = self._waiting[0]
        joined = first if len(self._waiting) == 1 else pa.concat_batches(self._waiting)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        with writing(self.path):
            self._writer.write_batch(joined)

    def _measure(self, records: pa.RecordBatch, topic: str) -> None:
        """Record the extremes per topic, which the publisher checks against the topic's limits."""
        sizes = sizes_of(records)
        names = records.schema.names
        if "topic" not in names:
            self._remember(topic, records, sizes, None)
            return
        topics = records.column("topic")
        for name in pc.unique(topics).to_pylist():
            self._remember(name, records, sizes, pc.equal(topics, name))

    def _remember(
        self, topic: str, records: pa.RecordBatch, sizes: pa.Array, chosen: pa.Array | None
    ) -> None:
        own = sizes if chosen is None else pc.if_else(chosen, sizes, -1)
        known = self.topics.setdefault(topic, [-1, 0, -1])
        largest = pc.max(own).as_py()
        if largest > known[0]:
            known[:2] = [largest, self.rows + pc.index(own, largest).as_py()]
        if "partition" in records.schema.names:
            partitions = records.column("partition")
            if chosen is not None:
                partitions = partitions.filter(chosen)
            known[2] = max(known[2], pc.max(partitions).as_py())


class Stored:
    """The staged records that a handle's facts describe."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts = facts

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All staged records, in order.

        Raises
        ------
        StorageError
            The file is missing, or cannot be read.
        DataError
            The file's length or checksum is not what was written.
        """
        path, facts = self._facts["path"], self._facts
        try:
            with self._here() as here, pa.memory_map(here) as file:
                data = file.read_buffer()
                if (data.size, crc32c(memoryview(data).cast("B"))) != (
                    facts["bytes"],
                    facts["crc32c"],
                ):
                    raise DataError(
                        f"the staged records in {path} are corrupt: the file has {data.size} bytes "
                        f"and the checkpoint recorded {facts['bytes']}, or the checksum does not "
                        "match; the records cannot be published"
                    )
                yield from pa.ipc.open_stream(data)
        except (FileNotFoundError, NotFoundError) as error:
            raise StorageError(
                f"the staged records of a complete checkpoint are missing: {path} does not exist; "
                "was the file deleted by hand?"
            ) from error
        except OSError as error:
            raise StorageError(f"the staged records in {path} cannot be read: {error}") from error

    @contextmanager
    def _here(self) -> Iterator[str]:
        """The file, or a copy of the object on this machine."""
        path = self._facts["path"]
        if not is_object_url(path):
            yield path
            return
        bucket, key = place_of(path)
        with tempfile.NamedTemporaryFile(prefix="fabric-kafka-") as copy:
            for piece in bucket.pieces(key):
                copy.write(piece)
            copy.flush()
            yield copy.name

    def remove(self) -> None:
        """Delete the file, once its records are published or never will be; idempotent."""
        with suppress(OSError, FabricError):
            _remove(self._facts["path"])


def is_staged(path: str) -> bool:
    """Whether a file with staged records is still there."""
    if not is_object_url(path):
        return Path(path).exists()
    with suppress(NotFoundError):
        facts(path)  # as of a moment ago: who waits asks again and again
        return True
    return False


def _remove(path: str) -> None:
    if is_object_url(path):
        bucket, key = place_of(path)
        bucket.remove([key])
    else:
        Path(path).unlink(missing_ok=True)


def sizes_of(records: pa.RecordBatch) -> pa.Array:
    """The size of each record's key and value together, in bytes; int32, no nulls."""
    sizes = pc.coalesce(pc.binary_length(records.column("value")), 0)
    if "key" in records.schema.names:
        sizes = pc.add(sizes, pc.coalesce(pc.binary_length(records.column("key")), 0))
    return sizes


def made_folder(folder: str, job: str) -> str:
    """Where the sinks of a job stage records: a folder that exists now, or a URL."""
    if is_object_url(folder):
        return f"{folder}/{plain(job)}/{SINKS}"
    path = sinks_folder(Path(folder), job)
    with writing(str(path)):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return str(path)


def remove_earlier(folder: str, task: TaskId, n_tasks: int, run: int) -> None:
    """Delete files of earlier runs: a run starts only after complete checkpoints are published.

    An earlier run may have had more tasks, so each of `n_tasks` deletes its share.
    """
    path = made_folder(folder, task.job)
    with writing(path):
        for name in _staged_in(path, task.stage):
            _, number, earlier, _ = name.split("-")
            if int(number) % n_tasks == task.task and int(earlier) < run:
                _remove(f"{path}/{name}")


def remove_all(folder: str, job: str, stage: int) -> None:
    """Delete all records that a sink of a job staged; idempotent."""
    if is_object_url(folder):
        url = made_folder(folder, job)
        for name in _staged_in(url, stage):
            _remove(f"{url}/{name}")
        return
    path = sinks_folder(Path(folder), job)
    with writing(str(path)):
        for name in _staged_in(str(path), stage):
            _remove(f"{path}/{name}")
    for empty in (path, path.parent):  # a job without checkpoints has no other files here
        with suppress(OSError):
            empty.rmdir()


def _staged_in(folder: str, stage: int) -> list[str]:
    """The names of the files that a stage has staged."""
    if is_object_url(folder):
        bucket, key = place_of(folder)
        return [name for name in bucket.names(key)[1] if name.startswith(f"{stage}-")]
    return [path.name for path in Path(folder).glob(f"{stage}-*")]


def topics_of(target: KafkaTarget, records: pa.RecordBatch) -> list[tuple[str, pa.RecordBatch]]:
    """Records grouped by the topic they go to, in their original order."""
    if "topic" not in records.schema.names:
        return [(target.topic, records)]
    topics = records.column("topic")
    found = pc.unique(topics).to_pylist()
    if len(found) == 1:
        return [(found[0], records)]
    return [(name, records.filter(pc.equal(topics, name))) for name in found]


def _name(task: TaskId, place: Place) -> str:
    return f"{task.stage}-{task.task:05d}-{place[0]:06d}-{place[1]:06d}"


class _Checked:
    """A new file or object that keeps a running checksum of what was written to it."""

    closed = False

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: Any = Upload(path) if is_object_url(path) else _new_file(path)
        self._crc, self.n_bytes = RunningCrc32c(), 0

    @property
    def crc32c(self) -> int:
        return self._crc.value

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        self._crc.update(left)
        self.n_bytes += size
        while left:
            left = left[self._file.write(left) :]
        return size

    def flush(self) -> None:
        """Do nothing: writes are unbuffered, and an object is there once it is closed."""

    def finish(self) -> None:
        if not isinstance(self._file, Upload):
            os.fsync(self._file.fileno())
        self._file.close()
        if not isinstance(self._file, Upload):
            synced(Path(self._path).parent)

    def abandon(self) -> None:
        if isinstance(self._file, Upload):
            self._file.abandon()
            return
        self._file.close()
        Path(self._path).unlink(missing_ok=True)


def _new_file(path: str) -> BinaryIO:
    with writing(path):
        return Path(path).open("xb", buffering=0)
