"""A Kafka sink that sends records as they come: the guarantee "at_least_once".

One job: `Direct`, a writer without staged files. A barrier waits until the brokers have
acknowledged what was sent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa

from fabric.checkpoint.manifest import FINAL
from fabric.errors import (
    AuthError,
    CancelledError,
    ExternalError,
    FabricError,
)
from fabric.io.kafka.library import client
from fabric.io.kafka.producers import producer_settings, send_batch
from fabric.io.kafka.records import Records
from fabric.io.kafka.refusals import MENDABLE, REFUSED_S, Admission
from fabric.io.sinks.protocol import SinkWriter, portions
from fabric.plan.targets import KafkaTarget
from fabric.telemetry.logs import logger

if TYPE_CHECKING:
    from fabric.io.kafka.library import Writer


TRY_S, PAUSE_S = 1.0, 0.5
"""The time-out of one call; the pause between attempts."""
SENT_ROWS = 4_096
"""Records passed to a producer at once, and again if its queue had no room for all of them."""
_log = logger("fabric.kafka")


class Direct(SinkWriter):
    """See `SinkWriter`: sends records as they come; a barrier waits for acknowledgements.

    It retries while no broker accepts records, so records in flight may be sent twice. If brokers
    keep rejecting it, the task fails. Rejected rows are lost to the producer, so if the right is
    granted again, the task restarts from its checkpoint.
    """

    def __init__(self, target: KafkaTarget, records: Records) -> None:
        self._target, self._records = target, records
        self._topics = {target.topic} - {""}
        self._admission = Admission(target)
        self._writer: Writer | None = None
        self._working, self._interrupted = threading.Lock(), threading.Event()
        self._abandoned = False

    def write(self, batch: pa.RecordBatch) -> None:
        """Pass records to the producer; waits while its queue is full."""
        made = self._records.made(batch)
        if not self._target.topic:
            self._topics.update(made.column("topic").unique().to_pylist())
        with self._at_work():
            for begin in range(0, made.num_rows, SENT_ROWS):
                writer, part = self._opened(), made.slice(begin, SENT_ROWS)
                self._until(writer, partial(send_batch, writer, self._target, part, lambda: TRY_S))

    def prepare(self, checkpoint: int = FINAL) -> bytes:
        """Wait for the acknowledgements; a rejected record fails the task, which sends it again."""
        with self._at_work():
            if self._writer is not None:
                self._until(self._writer, partial(self._writer.flush, TRY_S))
        return portions([])

    def interrupt(self) -> None:
        """See `SinkWriter.interrupt`."""
        self._interrupted.set()

    def abandon(self) -> None:
        """See `SinkWriter.abandon`."""
        self._abandoned = True
        self._interrupted.set()
        self._close()

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Keep the producer open meanwhile."""
        try:
            with self._working:
                self._check()
                yield
        finally:
            if self._abandoned:
                self._close()

    def _close(self) -> None:
        """Close the producer, unless it is in use: `_at_work` closes it then."""
        if self._working.acquire(blocking=False):
            writer, self._writer = self._writer, None
            self._working.release()
            if writer is not None:
                writer.close()

    def _opened(self) -> Writer:
        """The producer; retries to create it while no broker answers."""
        topics = [self._target.topic] if self._target.topic else []
        settings = {**producer_settings(self._target), "message.timeout.ms": "0"}
        while self._writer is None:
            self._check()
            try:
                self._writer = client().Writer(settings, topics)
            except FabricError as error:
                if not (error.retryable or isinstance(error, AuthError)):
                    raise
                if isinstance(error, AuthError):
                    self._admission.heard(error)
                else:
                    self._admission.ask((), self._check)
                _log.warning("Kafka is unreachable, retrying", error=error.message)
                self._interrupted.wait(PAUSE_S)
        return self._writer

    def _until(self, writer: Writer, call: Callable[[], object]) -> None:
        """Repeat `call` until it succeeds or the task is cancelled."""
        while True:
            self._check()
            try:
                call()
            except AuthError as error:
                self._on_refused(error)
            except FabricError as error:
                if not error.retryable or writer.failures:
                    raise
                self._admission.ask((), self._check)
            else:
                self._admission.settle()
                return

    def _on_refused(self, error: AuthError) -> NoReturn:
        """Rows were refused, or under way when we were: wait whether that is mended."""
        if not any(name in error.message for name in MENDABLE):
            raise error
        self._admission.settle()
        end_s = time.monotonic() + 2 * REFUSED_S
        while not self._admission.ask(self._topics, self._check) and time.monotonic() < end_s:
            self._interrupted.wait(PAUSE_S)
        raise ExternalError(
            f"{error.message}; what was written since the last checkpoint is written again"
        ) from error

    def _check(self) -> None:
        if self._interrupted.is_set():
            raise CancelledError("writing to the Kafka sink was cancelled")
