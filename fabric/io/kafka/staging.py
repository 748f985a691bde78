"""Records that are staged in files until their checkpoint is complete.

    <checkpoints>/<job>/sinks/3-00001-000002-000007    stage 3, task 1, run 2, portion 7

One job: `RecordFile`, which a task writes and makes durable, and `Stored`, which the publisher
reads back and verifies by length and checksum. A file name is never reused, so a file is either
complete or referenced by no checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fabric._cython.shuffle.checksum import RunningCrc32c, crc32c
from fabric.checkpoint.folder import sinks_folder
from fabric.errors import ConfigError, DataError, StorageError
from fabric.ids import TaskId
from fabric.io.local_files import writing
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
        self.path = made_folder(folder, task.job) / _name(task, place)
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
        with writing(str(self.path)):
            self._gather()
            self._writer.close()
            self._file.finish()
            synced(self.path.parent)
        run, number = self._place
        return {
            "job": self._task.job, "stage": self._task.stage, "task": self._task.task,
            "run": run, "number": number, "path": str(self.path), "rows": self.rows,
            "bytes": self._file.n_bytes, "crc32c": self._file.crc32c, "topics": self.topics,
        }  # fmt: skip

    def abandon(self) -> None:
        """Delete the file; safe to call from any thread, and repeatedly."""
        self._file.abandon()
        self.path.unlink(missing_ok=True)

    def _gather(self) -> None:
        if not self._waiting:
            return
        first = self._waiting[0]
        joined = first if len(self._waiting) == 1 else pa.concat_batches(self._waiting)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        with writing(str(self.path)):
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
            with pa.memory_map(path) as file:
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
        except FileNotFoundError as error:
            raise StorageError(
                f"the staged records of a complete checkpoint are missing: {path} does not exist; "
                "was the file deleted by hand?"
            ) from error
        except OSError as error:
            raise StorageError(f"the staged records in {path} cannot be read: {error}") from error

    def remove(self) -> None:
        """Delete the file, once its records are published or never will be; idempotent."""
        with suppress(OSError):
            os.unlink(self._facts["path"])


def sizes_of(records: pa.RecordBatch) -> pa.Array:
    """The size of each record's key and value together, in bytes; int32, no nulls."""
    sizes = pc.coalesce(pc.binary_length(records.column("value")), 0)
    if "key" in records.schema.names:
        sizes = pc.add(sizes, pc.coalesce(pc.binary_length(records.column("key")), 0))
    return sizes


def made_folder(folder: str, job: str) -> Path:
    """The folder in which the sinks of a job stage records; created if it does not exist."""
    if is_object_url(folder):
        raise ConfigError(
            f"a Kafka sink stages its records in the checkpoint folder, which is {folder}: an "
            "object store can't hold them yet; name a folder that all agents see"
        )
    path = sinks_folder(Path(folder), job)
    with writing(str(path)):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def remove_earlier(folder: str, task: TaskId, n_tasks: int, run: int) -> None:
    """Delete files of earlier runs: a run starts only after complete checkpoints are published.

    An earlier run may have had more tasks, so each of `n_tasks` deletes its share.
    """
    path = made_folder(folder, task.job)
    with writing(str(path)):
        for found in path.glob(f"{task.stage}-*"):
            _, number, earlier, _ = found.name.split("-")
            if int(number) % n_tasks == task.task and int(earlier) < run:
                found.unlink(missing_ok=True)


def remove_all(folder: str, job: str, stage: int) -> None:
    """Delete all records that a sink of a job staged; idempotent."""
    path = sinks_folder(Path(folder), job)
    with suppress(FileNotFoundError), writing(str(path)):
        for found in path.glob(f"{stage}-*"):
            found.unlink(missing_ok=True)
    for empty in (path, path.parent):  # a job without checkpoints has no other files here
        with suppress(OSError):
            empty.rmdir()


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
    """A new file that keeps a running checksum of what was written to it."""

    closed = False

    def __init__(self, path: Path) -> None:
        with writing(str(path)):
            self._file = path.open("xb", buffering=0)
        self._crc, self.n_bytes, self._abandoned = RunningCrc32c(), 0, False

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
        """Do nothing: writes are unbuffered."""

    def finish(self) -> None:
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        self._file.close()
