"""Kafka as a sink: the writers of tasks, and publishing or discarding what they prepared.

One job: the writers, and `publish`, `take_back`, `abandon`, `drop` and `discard`. With
"exactly_once" and "at_most_once" a task needs no broker: encoded records are staged in files of the
checkpoint and published once it is complete (`staging.py`, `publisher.py` of `io/kafka`); a task
that stages faster than the brokers accept records is blocked. With "at_least_once" records are sent
as they come (`direct.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pyarrow as pa

from fabric.checkpoint.manifest import FINAL
from fabric.errors import (
    CancelledError,
    FabricError,
    InternalError,
    PlanError,
)
from fabric.ids import TaskId
from fabric.io.kafka.direct import PAUSE_S, Direct
from fabric.io.kafka.markers import Markers
from fabric.io.kafka.publisher import Publisher
from fabric.io.kafka.records import Records
from fabric.io.kafka.settings import configuration
from fabric.io.kafka.staging import (
    RecordFile,
    Stored,
    is_staged,
    remove_all,
    remove_earlier,
)
from fabric.io.sinks.protocol import (
    Epochs,
    Handle,
    SinkStart,
    SinkWriter,
    portions,
    whole_or_none,
)
from fabric.plan.targets import KafkaTarget, Target
from fabric.telemetry.logs import logger

KIND = "kafka"
PATIENCE_S = 300.0
"""How long a bounded job waits for unreachable brokers."""
WAIT_S, TOLD_S = 0.01, 10.0
"""How often a blocked task checks the brokers' progress, and how often it logs that it is blocked.
"""
AHEAD_BYTES = 64 << 20
"""Bytes that may always be staged while earlier records are being published. Staging is faster than
publishing: with a long lag each epoch would be larger than the one before.
"""
PUBLISHER = Publisher()
"""The publisher of this process."""
_log = logger("fabric.kafka")


def open_stream(
    target: KafkaTarget, schema: pa.Schema, task: TaskId, n_tasks: int, start: SinkStart
) -> SinkWriter:
    """One task's writer of a stream."""
    records = Records(target, schema)
    if target.guarantee == "at_least_once":
        return Direct(target, records)
    remove_earlier(start.folder, task, n_tasks, start.run)
    numbers = count(1)
    return Bounded(lambda: Portion(target, records, start.folder, task, (start.run, next(numbers))))


def open_sink(
    target: KafkaTarget, schema: pa.Schema, task: TaskId, n_tasks: int, start: SinkStart
) -> SinkWriter:
    """One task's writer of a bounded input, which is one portion."""
    records = Records(target, schema)
    if target.guarantee == "at_least_once":
        return Direct(target, records)
    place = start.run, task.attempt + 1
    return Portion(target, records, start.folder, task, place, number=1, bounded=True)


class Portion(SinkWriter):
    """See `SinkWriter`: a file of staged records, created with the first record."""

    def __init__(
        self,
        target: KafkaTarget,
        records: Records,
        folder: str,
        task: TaskId,
        place: tuple[int, int],
        **facts: Any,
    ) -> None:
        self._target, self._records, self._facts = target, records, facts
        self._open: Callable[[], RecordFile] = lambda: RecordFile(
            folder, task, place, records.schema
        )
        self._file: RecordFile | None = None
        self._guard, self._abandoned = threading.Lock(), False

    def write(self, batch: pa.RecordBatch) -> None:
        """See `SinkWriter.write`; on an error the portion's file is deleted."""
        with whole_or_none(self):
            made = self._records.made(batch)
            if made.num_rows:
                self._opened().write(made, self._target.topic)

    @property
    def n_bytes(self) -> int:
        """Bytes written to the portion's file."""
        return self._file.n_bytes if self._file is not None else 0

    @property
    def path(self) -> str | None:
        """The portion's file, if it has one."""
        return self._file.path if self._file is not None else None

    def prepare(self, checkpoint: int = FINAL) -> bytes:
        """See `SinkWriter.prepare`."""
        if self._file is None:
            return portions([])
        with whole_or_none(self):
            facts = self._file.finish()
        return Handle(KIND, {**facts, **self._facts}).encode()

    def abandon(self) -> None:
        """See `SinkWriter.abandon`."""
        with self._guard:
            self._abandoned = True
            file = self._file
        if file is not None:
            file.abandon()

    def _opened(self) -> RecordFile:
        with self._guard:
            if self._abandoned:
                raise CancelledError("writing to the Kafka sink was cancelled")
            if self._file is None:
                self._file = self._open()
            return self._file


class Bounded(Epochs):
    """`Epochs` whose portions grow no larger than a complete portion that is not published yet.

    This keeps epochs from growing while brokers are slower than the task, or unreachable. It waits
    only for the files of complete checkpoints, whose publishing needs no task.
    """

    def __init__(self, open_portion: Callable[[], Portion]) -> None:
        super().__init__(lambda since: self._begun(open_portion()))
        self._current: Portion | None = None
        self._sizes: list[tuple[int, str, int]] = []
        """Checkpoint, file and bytes of the portions that were prepared and may be unpublished."""
        self._complete = 0
        self._interrupted = threading.Event()
        self.waits = False
        """Whether `write` is blocked by unpublished records now."""

    def write(self, batch: pa.RecordBatch) -> None:
        """See `SinkWriter.write`; blocks as the class describes."""
        if self._current is not None and self._current.n_bytes >= AHEAD_BYTES:
            self._wait(self._current.n_bytes)
        super().write(batch)

    def prepare(self, checkpoint: int = FINAL) -> bytes:
        """See `SinkWriter.prepare`."""
        handle, portion = super().prepare(checkpoint), self._current
        if portion is not None and portion.path is not None:
            self._sizes.append((checkpoint, portion.path, portion.n_bytes))
        self._current = None
        return handle

    def on_complete(self, checkpoint: int) -> None:
        """See `SinkWriter.on_complete`."""
        super().on_complete(checkpoint)
        self._complete = checkpoint
        self._forget_published()

    def interrupt(self) -> None:
        """See `SinkWriter.interrupt`."""
        self._interrupted.set()

    def abandon(self) -> None:
        """See `SinkWriter.abandon`."""
        self._interrupted.set()
        super().abandon()

    def _begun(self, portion: Portion) -> Portion:
        self._current = portion
        return portion

    def _wait(self, n_bytes: int) -> None:
        """Wait until complete portions are published, or the largest is more than `n_bytes`."""
        since_s = time.monotonic()
        try:
            while self._unpublished() > 0 and n_bytes >= self._unpublished():
                self.waits = True
                if self._interrupted.wait(WAIT_S):
                    raise CancelledError("writing to the Kafka sink was cancelled")
                if time.monotonic() - since_s >= TOLD_S:
                    since_s = time.monotonic()
                    _log.warning(
                        "a task is blocked: it writes faster than Kafka accepts records",
                        n_bytes=n_bytes,
                    )
        finally:
            self.waits = False

    def _unpublished(self) -> int:
        """The bytes of the largest complete portion that is not published; 0 if there is none."""
        self._forget_published()
        return max((n_bytes for id, _, n_bytes in self._sizes if id <= self._complete), default=0)

    def _forget_published(self) -> None:
        """Publishing removes a portion's file; a task that never waits has to forget it, too."""
        done = self._complete
        self._sizes = [one for one in self._sizes if one[0] > done or is_staged(one[1])]


def publish(handles: Sequence[Handle], target: Target | None) -> None:
    """Publish the records of these handles exactly once; may be repeated, see `Publisher`."""
    kafka, facts = _known(target), [handle.facts for handle in handles]
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            PUBLISHER.publish(kafka, facts)
        except FabricError as error:
            waits = all(fact.get("bounded") for fact in facts)  # a stream is retried by its job
            if not (waits and error.retryable and time.monotonic() < deadline_s):
                raise
            _log.warning("publishing to Kafka failed, retrying", error=error.message)
            time.sleep(PAUSE_S)
        else:
            break
    if kafka.transactional_prefix and all(fact.get("bounded") for fact in facts):
        PUBLISHER.end(facts[0]["job"], facts[0]["stage"])
        _released(kafka, facts[0]["job"])


def take_back(handles: Sequence[Handle], target: Target | None) -> None:
    """Refuse to undo: consumers may have read the records already."""
    topics = sorted({topic for handle in handles for topic in handle.facts["topics"]})
    raise PlanError(
        f"records committed to {', '.join(topics)} can't be taken back: a Kafka transaction is "
        "final once it is committed"
    )


def abandon(handles: Sequence[Handle], target: Target | None = None) -> None:
    """Delete the staged records of these handles; published records stay in Kafka."""
    for handle in handles:
        Stored(handle.facts).remove()


drop = abandon


def discard(target: KafkaTarget, job: str, stage: int, folder: str, *, published: bool) -> None:
    """Clean up after a job: delete staged records, close producers, release the prefix."""
    if target.guarantee == "at_least_once":
        return
    remove_all(folder, job, stage)
    PUBLISHER.end(job, stage)
    if not (published or target.transactional_prefix):
        return
    _released(target, job, stage if published else None)  # one that failed may be restarted


def _released(target: KafkaTarget, job: str, stage: int | None = None) -> None:
    """Release the prefix and delete the markers of `stage`, if the brokers answer."""
    try:
        markers = Markers(configuration(target), target.markers)
        if stage is not None:
            markers.forget(job, stage)
        if target.transactional_prefix:
            markers.release(target.transactional_prefix, job)
    except FabricError as error:
        _log.warning(
            "the markers of a finished job could not be deleted", job=job, error=error.message
        )


def _known(target: Target | None) -> KafkaTarget:
    if not isinstance(target, KafkaTarget):
        raise InternalError("staged Kafka records have no target to publish them to")
    return target
