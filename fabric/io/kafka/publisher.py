"""Publishes the records of complete checkpoints to Kafka, each exactly once.

    init_transactions   fences earlier publishers of the subtask and aborts their transactions
      -> markers        how far the subtask is published
      -> begin, newer records, marker, commit

One job: `Publisher`. Any agent may publish, repeatedly, and concurrently with an agent that was
presumed dead: the later publisher aborts the other's transaction, and the marker, which is part of
that transaction, says whether it had been committed. A commit whose response was lost is looked up
the same way. A producer is kept for the next checkpoint: until it is fenced, the marker that it
wrote last is the newest.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from fabric import failpoints
from fabric.errors import (
    AuthError,
    BrokerError,
    ExternalError,
    FabricError,
    NotFoundError,
    ProducerFencedError,
    StorageError,
)
from fabric.io.kafka.library import client
from fabric.io.kafka.markers import NONE, Marker, Markers, key_of, partition_of, record_arrays
from fabric.io.kafka.producers import (
    CONNECT_S,
    Facts,
    Session,
    Subtask,
    check_sizes,
    close,
    fenced,
    producer_settings,
    send_batch,
)
from fabric.io.kafka.refusals import Admission
from fabric.io.kafka.settings import configuration
from fabric.io.kafka.staging import Stored
from fabric.plan.targets import KafkaTarget
from fabric.telemetry.logs import logger

IDLE_S, FLUSH_S = 30.0, 3.0
"""How long an idle producer is kept: three checkpoints at the default interval, as a new one takes
a tenth of a second, and an idle one costs threads and memory; how long a flush waits until the
brokers are asked whether they reject the client."""
MISSING_S = 30.0
"""How long a topic must be missing until that is an error: restarting brokers list few topics."""
AT_ONCE = 4
"""How many subtasks are published concurrently."""
T = TypeVar("T")
U = TypeVar("U")
_log = logger("fabric.kafka")


class Publisher:
    """Publishes portions; one per process. `close` closes all of its producers.

    A timer closes producers that have been idle for `idle_s`: an agent may publish once, for
    another agent that was away, and never again.
    """

    def __init__(self, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._sessions: dict[tuple[str, Subtask], Session] = {}
        self._locks: WeakValueDictionary[Subtask, threading.Lock] = WeakValueDictionary()
        """Of subtasks that are being published, or wait for that."""
        self._guard = threading.Lock()
        self._missing_since_s: dict[Subtask, float] = {}
        self._timer: threading.Timer | None = None
        """Runs while there is any producer."""
        self._admissions: dict[tuple[str, int], Admission] = {}
        """Of sinks whose last publication failed."""

    def publish(self, target: KafkaTarget, portions: Sequence[Facts]) -> None:
        """Publish these portions of one sink, each exactly once; may be repeated.

        Raises
        ------
        FabricError
            Not all portions are known to be published. If `retryable`, call it again.
        """
        by_task: dict[Subtask, list[Facts]] = defaultdict(list)
        for facts in sorted(portions, key=_place):
            by_task[facts["job"], facts["stage"], facts["task"]].append(facts)
        with ExitStack() as stack:
            for task in sorted(by_task):
                stack.enter_context(self._lock_of(task))
            try:
                self._publish_all(target, by_task)
            except ProducerFencedError as error:
                raise ExternalError(
                    f"another publisher took over the transaction ({error.message}); the next "
                    "attempt reads the markers to see what was published"
                ) from error
            except NotFoundError as error:
                raise self._missing(min(by_task), error) from error
            except AuthError as error:
                self._admission(target, min(by_task)).heard(error)
                raise ExternalError(error.message) from error
            except ExternalError as error:
                self._admission(target, min(by_task)).ask(())  # else nobody reports one that lasts
                if isinstance(error, BrokerError):  # a new producer reads the marker and continues
                    raise ExternalError(
                        f"publishing to Kafka at {target.servers} failed: {error.message}"
                    ) from error
                raise
            finally:
                self._close_later()

    def _publish_all(self, target: KafkaTarget, by_task: Mapping[Subtask, list[Facts]]) -> None:
        tasks = sorted(by_task)
        sessions = self._opened(target, tasks, [f for task in tasks for f in by_task[task]])
        _together(lambda t: self._publish(target, sessions[t], t, by_task[t]), tasks, {})
        for task in tasks:
            self._missing_since_s.pop(task, None)
            self._admissions.pop(task[:2], None)

    def _missing(self, task: Subtask, error: NotFoundError) -> FabricError:
        """The error for a missing topic; retryable at first, since restarting brokers list few."""
        since_s = self._missing_since_s.setdefault(task, time.monotonic())
        if time.monotonic() - since_s > MISSING_S:
            return error
        return ExternalError(error.message)

    def _admission(self, target: KafkaTarget, task: Subtask) -> Admission:
        return self._admissions.setdefault(task[:2], Admission(target))

    def end(self, job: str, stage: int) -> None:
        """Close the producers of a sink whose job has ended."""
        with self._guard:
            mine = [key for key in self._sessions if key[1][:2] == (job, stage)]
            gone = [self._sessions.pop(key) for key in mine]
        self._admissions.pop((job, stage), None)
        for session in gone:
            session.writer.close()
        self._stop_timer()

    def close(self) -> None:
        """Close all producers that are not in use."""
        self._close_unused(-1.0)
        self._stop_timer()

    # ---- inside

    def _lock_of(self, task: Subtask) -> threading.Lock:
        with self._guard:
            if (lock := self._locks.get(task)) is None:
                lock = self._locks[task] = threading.Lock()
            return lock

    def _is_at_work(self, task: Subtask) -> bool:
        lock = self._locks.get(task)
        return lock is not None and lock.locked()

    def _close_unused(self, idle_s: float) -> None:
        """Close producers that have been idle for `idle_s`."""
        before_s = time.monotonic() - idle_s
        with self._guard:
            old = [k for k, s in self._sessions.items() if s.used_s <= before_s]
            free = [key for key in old if not self._is_at_work(key[1])]
            gone = [self._sessions.pop(key) for key in free]
        for session in gone:
            session.writer.close()

    def _close_later(self) -> None:
        """Look when the first producer may have been idle for long enough."""
        with self._guard:
            if not self._sessions or self._timer is not None:
                return
            due_s = min(session.used_s for session in self._sessions.values()) + self._idle_s
            wait_s = max(self._idle_s / 10, due_s - time.monotonic())
            self._timer = threading.Timer(wait_s, self._on_time)
            self._timer.name, self._timer.daemon = "kafka-idle", True
            self._timer.start()

    def _stop_timer(self) -> None:
        """Unless there is something to look for."""
        with self._guard:
            if self._sessions or self._timer is None:
                return
            timer, self._timer = self._timer, None
        timer.cancel()
        timer.join()

    def _on_time(self) -> None:
        """In the timer's thread."""
        with self._guard:
            if self._timer is not threading.current_thread():  # closed meanwhile
                return
            self._timer = None
        self._close_unused(self._idle_s)
        self._close_later()

    def _opened(
        self, target: KafkaTarget, tasks: list[Subtask], portions: list[Facts]
    ) -> dict[Subtask, Session]:
        """A session for each subtask: all are fenced before any marker is read.

        A transaction left open by a dead publisher of one subtask would block reading the markers
        of the others.
        """
        servers = target.servers
        with self._guard:
            known = {t: self._sessions.pop((servers, t), None) for t in tasks}
        sessions = {task: session for task, session in known.items() if session is not None}
        new = [task for task in tasks if task not in sessions]
        try:
            if new:
                self._open(target, new, portions, sessions)
        except BaseException:
            for session in sessions.values():
                close(session)
            raise
        return sessions

    def _open(
        self,
        target: KafkaTarget,
        tasks: list[Subtask],
        portions: list[Facts],
        sessions: dict[Subtask, Session],
    ) -> None:
        markers, job = Markers(configuration(target), target.markers), tasks[0][0]
        if target.transactional_prefix:
            markers.claim(target.transactional_prefix, job)
        topics = sorted({name for facts in portions for name in facts["topics"]})
        _together(lambda task: fenced(target, task, topics), tasks, sessions)
        found = markers.of_job(job, target.publish_timeout_s)
        for task in tasks:
            sessions[task].marker = _newest(found, task)

    def _publish(
        self, target: KafkaTarget, session: Session, task: Subtask, portions: list[Facts]
    ) -> None:
        """Publish the portions of one subtask; the session is kept unless an error occurs."""
        try:
            newer = [facts for facts in portions if _place(facts)[1:] > session.marker.place]
            if newer:
                check_sizes(session.writer, target, newer)
                marker = _follow(session.marker, newer)
                if target.guarantee == "at_most_once":
                    self._claim_then_send(target, session, task, newer, marker)
                else:
                    self._transact(target, session, task, newer, marker)
                session.marker = marker
            for facts in portions:
                Stored(facts).remove()
        except BaseException as error:
            if isinstance(error, FabricError) and not error.retryable:
                with suppress(FabricError):  # no later publisher would abort its transaction
                    session.writer.abort(CONNECT_S)
            close(session)
            if isinstance(error, StorageError) and _published(target, task, portions):
                raise ProducerFencedError(
                    "another publisher published and deleted the staged records"
                ) from error
            raise
        session.used_s = time.monotonic()
        with self._guard:
            self._sessions[target.servers, task] = session

    def _transact(
        self,
        target: KafkaTarget,
        session: Session,
        task: Subtask,
        portions: list[Facts],
        marker: Marker,
    ) -> None:
        """Write records and marker in one transaction."""
        writer, deadline_s = session.writer, time.monotonic() + target.publish_timeout_s
        mark = self._marking(target, session, task, marker)
        writer.begin()
        failpoints.reach("kafka.begun")
        for facts in portions:
            send(writer, target, Stored(facts), deadline_s)
        mark(deadline_s)
        self._flush(target, task, writer, deadline_s)
        failpoints.reach("kafka.flushed")
        writer.commit(_left(target, deadline_s))
        failpoints.reach("kafka.committed")

    def _flush(self, target: KafkaTarget, task: Subtask, writer: Any, deadline_s: float) -> None:
        """Wait until brokers have all; who is kept out hears that before the time is over."""
        while True:
            try:
                writer.flush(min(FLUSH_S, _left(target, deadline_s)))
            except BrokerError as error:
                if not error.retryable or writer.failures:
                    raise
                self._admission(target, task).ask(())
            else:
                return

    def _claim_then_send(
        self,
        target: KafkaTarget,
        session: Session,
        task: Subtask,
        portions: list[Facts],
        marker: Marker,
    ) -> None:
        """Commit the marker first, so that no publisher sends the records again after a crash."""
        deadline_s = time.monotonic() + target.publish_timeout_s
        mark = self._marking(target, session, task, marker)
        session.writer.begin()
        mark(deadline_s)
        session.writer.commit(_left(target, deadline_s))
        failpoints.reach("kafka.committed")
        try:
            with client().Writer(producer_settings(target)) as plain:
                for facts in portions:
                    send(plain, target, Stored(facts), deadline_s)
                plain.flush(_left(target, deadline_s))
        except FabricError as error:
            _log.warning("records were lost, as at_most_once allows", job=task[0], error=str(error))

    def _marking(
        self, target: KafkaTarget, session: Session, task: Subtask, marker: Marker
    ) -> Callable[[float], None]:
        """A function that writes the marker before a deadline; its partition is requested now.

        Once records are queued, that request would wait in line with them.
        """
        writer, topic = session.writer, target.markers
        partition = partition_of(task[0], writer.partitions(topic))
        keys, values, partitions = record_arrays([(key_of(*task), marker.encode())], partition)

        def mark(deadline_s: float) -> None:
            timeout_s = _left(target, deadline_s)
            writer.write(topic, keys, values, partitions=partitions, timeout_s=timeout_s)

        return mark


def send(writer: Any, target: KafkaTarget, stored: Stored, deadline_s: float) -> None:
    """Pass all records of a portion to a producer."""
    for batch in stored.batches():
        send_batch(writer, target, batch, lambda: _left(target, deadline_s))


def _published(target: KafkaTarget, task: Subtask, portions: Sequence[Facts]) -> bool:
    """Whether another publisher has published all portions, and so deleted their files."""
    found = Markers(configuration(target), target.markers).of_job(task[0], CONNECT_S)
    return _place(portions[-1])[1:] <= _newest(found, task).place


def _newest(found: Mapping[bytes, bytes], task: Subtask) -> Marker:
    """The newest marker of a subtask, given those of its job; `NONE` before its first portion."""
    value = found.get(key_of(*task))
    return Marker.decode(value) if value else NONE


def _follow(marker: Marker, portions: Sequence[Facts]) -> Marker:
    run, number = _place(portions[-1])[1:]
    rows = marker.rows + sum(facts["rows"] for facts in portions)
    return Marker(run, number, marker.transaction + 1, rows)


def _left(target: KafkaTarget, deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise ExternalError(
            f"publishing took longer than publish_timeout={target.publish_timeout_s:g} s and is "
            "retried; if the brokers are slow, increase publish_timeout="
        )
    return left_s


def _place(facts: Facts) -> tuple[int, int, int]:
    return facts["task"], facts["run"], facts["number"]


def _together(call: Callable[[T], U], items: Sequence[T], found: dict[T, U]) -> None:
    """Call for several items at once, store the results in `found`, then raise the first error."""
    if len(items) == 1:
        found[items[0]] = call(items[0])
        return
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="kafka-publish") as pool:
        futures = {item: pool.submit(call, item) for item in items}
    for item, future in futures.items():
        if future.exception() is None:
            found[item] = future.result()
    for future in futures.values():
        future.result()
