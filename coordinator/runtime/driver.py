"""The core at work: under a lock, with a thread, a store and the links of agents.

`CoreDriver` moves the core under its lock; what the core wants done goes through an `Outbox` in one
thread ("coordinator"), which also lets time pass. A change returns once it is written down.
"""

from __future__ import annotations

import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from fabric import failpoints
from fabric.clock import Clock, SystemClock
from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED
from fabric.control.link import OnMessage
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.core.core import CoordinatorCore
from fabric.coordinator.core.effects import (
    DatasetAnswered,
    Disconnect,
    Effect,
    Hear,
    JobChanged,
    Note,
    Persist,
    Rescale,
    Send,
    StorageWork,
)
from fabric.coordinator.core.events import AgentAttached, AgentDetached, AgentSaid, Event, Tick
from fabric.coordinator.metadata.memory import MemoryStore
from fabric.coordinator.metadata.store import MetadataStore
from fabric.coordinator.runtime.checkpoint_files import CheckpointFiles
from fabric.coordinator.runtime.links import (
    AgentLink,
    AgentLinks,
    OnDisconnect,
    Watchers,
    forget,
    reach_received,
)
from fabric.coordinator.runtime.log import Log
from fabric.coordinator.runtime.outbox import Outbox
from fabric.coordinator.submit.stream_names import StreamNames
from fabric.errors import FabricError, InternalError, NotLeaderError, StorageError
from fabric.ids import check_name
from fabric.security.callers import who

WRITTEN_S = 20.0
"""How long a call waits for a metadata store that is away."""
AWAY_S = 0.2
"""The pause before such a store is tried again."""
WATCH_S = 1.0
"""A watcher hears at least this often."""
TICK_S = 0.1


class CoreDriver(ABC):
    """`start` it, `close` it, or use it as a context manager."""

    def __init__(
        self,
        store: MetadataStore | None,
        clock: Clock | None,
        config: CoordinatorConfig | None,
        log: Log | None,
        *,
        embedded: bool,
        epoch: int,
    ) -> None:
        """`epoch` was begun for `store` already; 0: begin one."""
        self._store: MetadataStore = store if store is not None else MemoryStore()
        self._clock = clock or SystemClock()
        self._config = config or CoordinatorConfig()
        self._log: Log = log or (lambda event, fields: None)
        self._core = CoordinatorCore(
            self._config, epoch or self._store.next_epoch(), embedded=embedded
        )
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._outbox = Outbox(self._store, self._wake)
        self._checkpoint_files = CheckpointFiles(self._stored)
        self._names = StreamNames()
        self._links = AgentLinks()
        self._watchers = Watchers()
        self._n_sessions = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="coordinator", daemon=True)
        with self._lock:
            now, wall_s = self._clock.monotonic_s(), self._clock.wall_s()
            restored = self._core.restore(self._store, wall_s, now)
            failpoints.reach("coordinator.restoring")
            self._outbox.put(restored)
            for job in self._core.registry.active():
                if job.origin is not None:
                    self._names.resume(job.job_id, job.checkpoint, job.origin.name)

    # ---- life

    @property
    def epoch(self) -> int:
        """The number of this coordinator among all that used its store."""
        return self._core.epoch

    @property
    def refused(self) -> dict[str, int]:
        """How many agents' messages were not taken, by reason."""
        with self._lock:
            return dict(self._core.refused)

    @property
    def broken(self) -> FabricError | None:
        """Why this coordinator can't go on: its store refuses writes, or its thread failed."""
        return self._outbox.broken

    def check(self) -> None:
        """Raise what every call would be refused with."""
        with self._lock:
            self._check_open()

    def start(self) -> None:
        """Begin to send messages and to let time pass."""
        self._thread.start()

    def close(self) -> None:
        """Stop; watchers are told that the coordinator is gone. May be called again."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            links = self._links.all()
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self._checkpoint_files.close()
        self._names.close()
        self._watchers.notify_all()
        for link in links:
            link.disconnect("the coordinator was stopped")
        self._store.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def tick(self) -> None:
        """Let the core notice that time has passed; the thread does it by itself."""
        with self._lock:
            if not self._closed:
                self._handle(Tick(self._clock.wall_s()))

    def flush(self) -> None:
        """Wait until every message so far was handed to its link."""
        with self._lock:
            self._outbox.wait_done(lambda: self._closed or self.broken is not None)

    def _settle(self) -> None:
        """Wait until all that follows from what has happened is done; refuse while it can't be."""
        with self._lock:
            self._check_open()
            if self._outbox.away is not None:
                raise self._outbox.away
        if self._thread.is_alive():
            self.flush()

    # ---- agents

    def attach(
        self,
        agent_id: str,
        hello: pb.Hello,
        send: OnMessage,
        disconnect: OnDisconnect | None = None,
    ) -> int:
        """See `AgentPort.attach`; `disconnect` is told when the coordinator gives the link up."""
        check_name(agent_id, "agent id")
        if hello.agent_id != agent_id:
            raise InternalError(f"agent {agent_id} said hello as {hello.agent_id[:128]!r}")
        with self._lock:
            self._check_open()
            self._n_sessions += 1
            session = self._n_sessions
            self._handle(AgentAttached(session, hello))  # or it refuses, and nothing has changed
            old = self._links.put(agent_id, AgentLink(session, send, disconnect or forget))
        if old is not None:
            old.disconnect(f"agent {agent_id} attached again")
        return session

    def receive(self, agent_id: str, message: pb.AgentMessage, session: int | None = None) -> None:
        """See `AgentPort.receive`."""
        with self._lock:
            if self._closed:
                return
            reach_received(message)
            number = self._links.session(agent_id) if session is None else session
            self._handle(AgentSaid(agent_id, number, message))

    def detach(self, agent_id: str, reason: str, session: int | None = None) -> None:
        """See `AgentPort.detach`."""
        with self._lock:
            number = self._links.session(agent_id) if session is None else session
            self._links.take(agent_id, number)
            if not self._closed:
                self._handle(AgentDetached(agent_id, number, reason))

    # ---- asking and changing the core

    @contextmanager
    def _reading(self, *, settled: bool = False) -> Iterator[tuple[CoordinatorCore, float]]:
        """The core and the time now, under the lock.

        `settled`: once all that the core would say is written down, so that nobody is told what a
        crash would undo. While the store is away, what runs can still be looked at.
        """
        with self._lock:
            self._check_open()
            if settled and self._thread.is_alive() and self._outbox.away is None:
                self._outbox.wait_written(WRITTEN_S)
            yield self._core, self._clock.monotonic_s()

    @contextmanager
    def _changed(self, event: Event) -> Iterator[tuple[list[Effect], float]]:
        """What came of an event that somebody asked for, once it is written down; locked."""
        with self._lock:
            self._check_open()
            if self._outbox.away is not None:
                raise self._outbox.away
            effects = self._handle(event, who())
            if self._thread.is_alive():
                self._outbox.wait_written(WRITTEN_S)
            yield effects, self._clock.monotonic_s()

    def _check_open(self) -> None:
        if self.broken is not None:
            raise type(self.broken)(self.broken.message)
        if self._closed:
            raise NotLeaderError("the coordinator was stopped")

    def _handle(self, event: Event, who: str = "") -> list[Effect]:
        """Move the core; the lock is held."""
        effects = self._core.handle(event, self._clock.monotonic_s(), who)
        for effect in effects:
            if isinstance(effect, Hear):
                link = self._links.get(effect.agent_id, effect.session)
                if link is not None:
                    link.send(effect.message)
        self._outbox.put([effect for effect in effects if not isinstance(effect, Hear)])
        return effects

    # ---- the thread

    def _run(self) -> None:
        try:
            self._turn()
        except Exception as error:  # without this thread it would answer, and never do a thing
            self._log("coordinator failed", {"error": repr(error), "trace": traceback.format_exc()})
            self._outbox.fail(error)

    def _turn(self) -> None:
        period_s = min(TICK_S, self._config.heartbeat_s / 2)
        due_s = self._clock.monotonic_s() + period_s
        answers = True
        while True:
            with self._lock:
                pause_s = max(0.0, min(period_s, due_s - self._clock.monotonic_s()))
                if not answers:
                    self._wake.wait_for(lambda: self._closed, AWAY_S)
                elif not self._outbox.waiting and not self._closed:
                    self._wake.wait(pause_s)
                if self._closed and not (self._outbox.waiting and answers):
                    return
            was_away, answers = self._outbox.away, self._outbox.step(self._perform)
            self._say_away(was_away)
            if self._clock.monotonic_s() >= due_s and self.broken is None:
                due_s = self._clock.monotonic_s() + period_s
                self.tick()

    def _say_away(self, before: StorageError | None) -> None:
        away = self._outbox.away
        if away is not None and before is None:
            self._log("metadata store away", {"error": str(away)})
        elif away is None and before is not None:
            self._log("metadata store is back", {})

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send(agent_id=agent_id, session=session, message=message):
                if (why := self._links.send(agent_id, session, message)) is not None:
                    self._log("link failed", {"agent": agent_id, "error": repr(why)})
                    self.detach(agent_id, f"its link failed ({type(why).__name__})", session)
            case Disconnect(agent_id=agent_id, session=session, reason=reason):
                if (link := self._links.take(agent_id, session)) is not None:
                    link.disconnect(reason)
            case JobChanged(job_id=job_id, state=state, by_itself=by_itself):
                if state in ENDED:
                    self._ended(job_id, by_itself=by_itself)
                self._watchers.notify(job_id)
            case Note(event=event, fields=fields):
                self._log(event, dict(fields))
            case StorageWork():
                self._checkpoint_files.put(effect)
            case Rescale():  # to cut a plan may take long, and ask servers
                threading.Thread(
                    target=self._rescale, args=(effect,), name=f"rescale {effect.job_id}",
                    daemon=True,
                ).start()  # fmt: skip
            case DatasetAnswered() | Persist() | Hear():
                pass

    def _rescale(self, wanted: Rescale) -> None:
        """A stream follows the slots there are; if it can't now, the core asks again."""
        try:
            self._replan(wanted.job_id, wanted.parallelism, reactive=True)
        except FabricError as error:
            self._log("stream not rescaled", {"job": wanted.job_id, "error": str(error)})

    @abstractmethod
    def _replan(self, job_id: str, parallelism: int, *, reactive: bool) -> None:
        """Cut the plan of a stream anew, and have it go on so."""

    def _ended(self, job_id: str, *, by_itself: bool) -> None:
        """Release the name of a stream that has ended."""
        try:
            self._names.ended(job_id, by_itself=by_itself)
        except FabricError as error:
            self._log("end of a stream not written down", {"job": job_id, "error": str(error)})

    def _stored(self, event: Event) -> None:
        """How something went with a checkpoint's files; in the keeper's thread."""
        with self._lock:
            if not self._closed:
                self._handle(event)

    def subscribe(self, job_id: str, notify: Callable[[], None]) -> Callable[[], None]:
        """Call `notify` (which must not block) after each change; returns what ends that."""
        return self._watchers.add(job_id, notify)

    def watching(self, job_id: str, look: Callable[[], pb.JobStatus]) -> Iterator[pb.JobStatus]:
        """What `look` says of a job, after each change and now and then, until it has ended."""
        changed = threading.Event()
        end = self.subscribe(job_id, changed.set)
        try:
            while True:
                changed.clear()
                status = look()
                yield status
                if status.state in ENDED:
                    return
                changed.wait(WATCH_S)
        finally:
            end()
