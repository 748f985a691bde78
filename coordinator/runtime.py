"""The coordinator at work: the core's decisions carried out with a lock, a thread and a store.

One job: `CoordinatorRuntime`, which answers `ControlApi` and takes agents' links. Any thread may
call it. The core is moved under a lock, and what must be written down is written before the call
returns; messages go out in order in one thread ("coordinator"), which also lets time pass. Embedded
and in a process of its own it is the same object.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import TracebackType

from fabric.clock import Clock, SystemClock
from fabric.config import AdaptiveConfig
from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED
from fabric.control.link import OnMessage
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.core.core import CoordinatorCore
from fabric.coordinator.core.effects import (
    DatasetAnswered,
    Disconnect,
    Effect,
    JobChanged,
    Note,
    Persist,
    Send,
)
from fabric.coordinator.core.events import (
    AgentAttached,
    AgentDetached,
    AgentSaid,
    DatasetAsked,
    Event,
    JobCancelled,
    JobReleased,
    JobSubmitted,
    Tick,
)
from fabric.coordinator.metadata.memory import MemoryStore
from fabric.coordinator.metadata.store import MetadataStore
from fabric.coordinator.preparation import Prepared, Surroundings, prepare
from fabric.errors import InternalError, PeerLostError, PlanError, StorageError
from fabric.ids import check_name, new_id
from fabric.security.tokens import Signer

Log = Callable[[str, Mapping[str, str | int]], None]
OnDisconnect = Callable[[str], None]

WATCH_S = 1.0
"""A watcher hears at least this often."""


@dataclass(frozen=True, slots=True)
class _Line:
    """How to reach an agent on one session."""

    session: int
    send: OnMessage
    disconnect: OnDisconnect


class CoordinatorRuntime:
    """A running coordinator; `start` it, `close` it, or use it as a context manager.

    >>> with CoordinatorRuntime(embedded=True) as runtime:
    ...     len(runtime.list_agents(pb.ListRequest()).agents)
    0
    """

    def __init__(
        self,
        store: MetadataStore | None = None,
        clock: Clock | None = None,
        embedded: bool = False,
        *,
        config: CoordinatorConfig | None = None,
        log: Log | None = None,
        signer: Signer | None = None,
    ) -> None:
        self._signer = signer
        self._store: MetadataStore = store if store is not None else MemoryStore()
        self._clock = clock or SystemClock()
        self._config = config or CoordinatorConfig()
        self._embedded = embedded
        self._log: Log = log or _say_nothing
        self._core = CoordinatorCore(self._config, self._store.next_epoch(), embedded=embedded)
        self._lock = threading.Lock()
        self._outbox: deque[Effect] = deque()
        self._wake = threading.Condition(self._lock)
        self._lines: dict[str, _Line] = {}
        self._watchers: dict[str, list[Callable[[], None]]] = {}
        self._n_sessions = 0
        self._busy = False
        self._closed = False
        self._broken: StorageError | None = None
        self._thread = threading.Thread(target=self._run, name="coordinator", daemon=True)
        with self._lock:
            self._carry(self._core.restore(self._store))

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
    def broken(self) -> StorageError | None:
        """Why this coordinator can't go on, when its store has refused a write."""
        return self._broken

    def start(self) -> None:
        """Begin to send messages and to let time pass."""
        self._thread.start()

    def close(self) -> None:
        """Stop; watchers are told that the coordinator is gone. May be called again."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            watchers = [notify for each in self._watchers.values() for notify in each]
            lines = list(self._lines.values())
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        for notify in watchers:
            notify()
        for line in lines:
            line.disconnect("the coordinator was stopped")
        self._store.close()

    def __enter__(self) -> CoordinatorRuntime:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

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
            # the line changes first: what was queued for the old session finds no line any more
            old = self._lines.get(agent_id)
            self._lines[agent_id] = _Line(session, send, disconnect or _forget)
            self._handle(AgentAttached(session, hello))
        if old is not None:
            old.disconnect(f"agent {agent_id} attached again")
        return session

    def receive(self, agent_id: str, message: pb.AgentMessage, session: int | None = None) -> None:
        """See `AgentPort.receive`."""
        with self._lock:
            if self._closed:
                return
            number = self._session(agent_id) if session is None else session
            self._handle(AgentSaid(agent_id, number, message))

    def detach(self, agent_id: str, reason: str, session: int | None = None) -> None:
        """See `AgentPort.detach`."""
        with self._lock:
            number = self._session(agent_id) if session is None else session
            if number == self._session(agent_id):
                self._lines.pop(agent_id, None)
            if not self._closed:
                self._handle(AgentDetached(agent_id, number, reason))

    # ---- ControlApi

    def submit(self, request: pb.SubmitRequest) -> pb.JobStatus:
        """See `ControlApi.submit`."""
        with self._lock:
            self._check_open()
            known = self._core.job_of_key(request.client_key)
            if known is not None:
                return self._core.status(known, self._clock.monotonic_s())
        adaptive = self._adaptive(request)
        prepared = self._prepare(request)
        event = JobSubmitted(
            job_id=new_id("job"),
            name=request.name[:256] or "job",
            client_key=request.client_key,
            graph=prepared.graph,
            fragments=prepared.fragments(),
            schema=bytes(prepared.schema.serialize()),
            wall_s=self._clock.wall_s(),
            adaptive=adaptive,
        )
        with self._lock:
            self._check_open()
            self._handle(event)
            job_id = self._core.job_of_key(request.client_key) or event.job_id
            return self._core.status(job_id, self._clock.monotonic_s())

    def explain(self, request: pb.SubmitRequest) -> pb.ExplainReply:
        """See `ControlApi.explain`."""
        return self._prepare(request).explain()

    def watch(self, request: pb.JobRequest) -> Iterator[pb.JobStatus]:
        """See `ControlApi.watch`."""
        self.status(request)  # an unknown job is refused here, not at the first step
        return self._watch(request)

    def cancel(self, request: pb.JobRequest) -> pb.JobStatus:
        """See `ControlApi.cancel`."""
        return self._ask(request, JobCancelled(request.job_id, "the job was cancelled"))

    def release(self, request: pb.JobRequest) -> pb.JobStatus:
        """See `ControlApi.release`."""
        return self._ask(request, JobReleased(request.job_id))

    def status(self, request: pb.JobRequest) -> pb.JobStatus:
        """One job's status now; `NotFoundError` when it is unknown."""
        with self._lock:
            self._check_open()
            return self._core.status(request.job_id, self._clock.monotonic_s())

    def list_jobs(self, request: pb.ListRequest) -> pb.JobList:
        """See `ControlApi.list_jobs`."""
        with self._lock:
            self._check_open()
            return pb.JobList(jobs=self._core.jobs(self._clock.monotonic_s()))

    def list_agents(self, request: pb.ListRequest) -> pb.AgentList:
        """See `ControlApi.list_agents`."""
        with self._lock:
            self._check_open()
            return pb.AgentList(agents=self._core.agents(self._clock.monotonic_s()))

    def locate(self, request: pb.LocateRequest) -> pb.Locations:
        """See `ControlApi.locate`."""
        with self._lock:
            self._check_open()
            return self._core.locate(request)

    def dataset(self, request: pb.DatasetRequest) -> pb.DatasetReply:
        """See `ControlApi.dataset`."""
        with self._lock:
            self._check_open()
            event = DatasetAsked(request, new_id("tx"), self._clock.wall_s())
            effects = self._handle(event)
        (reply,) = (effect.reply for effect in effects if isinstance(effect, DatasetAnswered))
        return reply

    # ---- watching

    def subscribe(self, job_id: str, notify: Callable[[], None]) -> Callable[[], None]:
        """Call `notify` (which must not block) after each change; returns what ends that."""
        with self._lock:
            self._watchers.setdefault(job_id, []).append(notify)

        def end() -> None:
            with self._lock:
                left = [other for other in self._watchers.get(job_id, []) if other is not notify]
                if left:
                    self._watchers[job_id] = left
                else:
                    self._watchers.pop(job_id, None)

        return end

    def _watch(self, request: pb.JobRequest) -> Iterator[pb.JobStatus]:
        changed = threading.Event()
        end = self.subscribe(request.job_id, changed.set)
        try:
            while True:
                changed.clear()
                status = self.status(request)
                yield status
                if status.state in ENDED:
                    return
                changed.wait(WATCH_S)
        finally:
            end()

    # ---- inside

    def tick(self) -> None:
        """Let the core notice that time has passed; the thread does it by itself."""
        with self._lock:
            if not self._closed:
                self._handle(Tick(self._clock.wall_s()))

    def drain(self) -> None:
        """Wait until every message so far was handed to its link."""
        with self._lock:
            self._wake.wait_for(lambda: self._closed or not (self._outbox or self._busy))

    def _prepare(self, request: pb.SubmitRequest) -> Prepared:
        with self._lock:
            self._check_open()
            agents = self._core.agent_hellos()
            around = Surroundings(
                parallelism=1 if self._embedded else max(1, len(agents)),
                n_cpus=max(1, sum(hello.cpus for hello in agents)),
                embedded=self._embedded,
                datasets={found.name: found for found in self._core.datasets.all()},
                agents=frozenset(hello.agent_id for hello in agents),
                broadcast_bytes=self._adaptive(request).broadcast_bytes,
            )
        try:
            return prepare(request, around, self._config.plan_bytes_max, self._signer)
        except RecursionError:
            raise PlanError(
                "the plan nests too deeply; compute parts of it in earlier steps"
            ) from None

    def _adaptive(self, request: pb.SubmitRequest) -> AdaptiveConfig:
        """The coordinator's settings and what the session has changed of them."""
        given = {field.name: value for field, value in request.adaptive.ListFields()}
        return replace(self._config.adaptive, **given)

    def _ask(self, request: pb.JobRequest, event: Event) -> pb.JobStatus:
        with self._lock:
            self._check_open()
            self._handle(event)
            return self._core.status(request.job_id, self._clock.monotonic_s())

    def _check_open(self) -> None:
        if self._broken is not None:
            raise StorageError(self._broken.message)
        if self._closed:
            raise PeerLostError("the coordinator was stopped")

    def _session(self, agent_id: str) -> int:
        line = self._lines.get(agent_id)
        return line.session if line is not None else -1

    def _handle(self, event: Event) -> list[Effect]:
        """Move the core; the lock is held."""
        effects = self._core.handle(event, self._clock.monotonic_s())
        self._carry(effects)
        return effects

    def _carry(self, effects: list[Effect]) -> None:
        """Write down what must be, queue the rest; the lock is held."""
        for effect in effects:
            if not isinstance(effect, Persist):
                self._outbox.append(effect)
                continue
            try:
                self._store.apply(effect.writes)
            except StorageError as error:
                # what follows would promise more than is written down: this coordinator is over
                self._broken = error
                self._log("coordinator broken", {"error": str(error)})
                raise
        self._wake.notify_all()

    def _run(self) -> None:
        period_s = min(0.5, self._config.heartbeat_s / 2)
        due_s = self._clock.monotonic_s() + period_s
        while True:
            with self._lock:
                self._busy = False
                self._wake.notify_all()
                if not self._outbox and not self._closed:
                    self._wake.wait(max(0.0, min(period_s, due_s - self._clock.monotonic_s())))
                effects, lines = list(self._outbox), dict(self._lines)
                self._outbox.clear()
                self._busy = bool(effects)
                if self._closed and not effects:
                    return
            for effect in effects:
                self._perform(effect, lines)
            if self._clock.monotonic_s() >= due_s and self._broken is None:
                due_s = self._clock.monotonic_s() + period_s
                self._tick_or_break()

    def _tick_or_break(self) -> None:
        try:
            self.tick()
        except StorageError:
            return  # `_carry` has said so; every later call is refused

    def _perform(self, effect: Effect, lines: Mapping[str, _Line]) -> None:
        match effect:
            case Send(agent_id=agent_id, session=session, message=message):
                line = lines.get(agent_id)
                if line is not None and line.session == session:
                    self._send(agent_id, line, message)
            case Disconnect(agent_id=agent_id, session=session, reason=reason):
                line = lines.get(agent_id)
                if line is not None and line.session == session:
                    self._forget_line(agent_id, session)
                    line.disconnect(reason)
            case JobChanged(job_id=job_id):
                with self._lock:
                    watchers = list(self._watchers.get(job_id, ()))
                for notify in watchers:
                    notify()
            case Note(event=event, fields=fields):
                self._log(event, dict(fields))
            case DatasetAnswered() | Persist():
                pass

    def _forget_line(self, agent_id: str, session: int) -> None:
        with self._lock:
            if self._session(agent_id) == session:
                del self._lines[agent_id]

    def _send(self, agent_id: str, line: _Line, message: pb.CoordinatorMessage) -> None:
        try:
            line.send(message)
        except Exception as error:  # a link's fault must not stop the others
            self._log("link failed", {"agent": agent_id, "error": repr(error)})
            self.detach(agent_id, f"its link failed ({type(error).__name__})", line.session)


def _say_nothing(event: str, fields: Mapping[str, str | int]) -> None:
    """The log of an embedded coordinator."""


def _forget(reason: str) -> None:
    """The disconnect of a link that has none."""
