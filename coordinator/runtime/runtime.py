"""The coordinator at work: the core's decisions carried out with a lock, a thread and a store.

One job: `CoordinatorRuntime`, which answers `ControlApi` and takes agents' links. Any thread may
call it. The core is moved under a lock; what it wants done goes through an `Outbox` in one thread
("coordinator"), which also lets time pass. A call returns once what it changed is written down.
Embedded and in a process of its own it is the same object.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType

from fabric import failpoints
from fabric.checkpoint.storage import FolderStorage
from fabric.clock import Clock, SystemClock
from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED
from fabric.control.link import OnMessage
from fabric.coordinator.config import CoordinatorConfig, chosen
from fabric.coordinator.core.core import CoordinatorCore
from fabric.coordinator.core.effects import (
    DatasetAnswered,
    Disconnect,
    Effect,
    Hear,
    JobChanged,
    Note,
    Persist,
    Send,
    StorageWork,
)
from fabric.coordinator.core.events import (
    AgentAttached,
    AgentDetached,
    AgentDrained,
    AgentSaid,
    DatasetAsked,
    Event,
    JobCancelled,
    JobReleased,
    JobRestarted,
    JobSubmitted,
    Tick,
)
from fabric.coordinator.metadata.memory import MemoryStore
from fabric.coordinator.metadata.store import MetadataStore
from fabric.coordinator.planner.picture import explain
from fabric.coordinator.runtime.checkpoint_files import Keeper, listed
from fabric.coordinator.runtime.job_pages import page
from fabric.coordinator.runtime.links import (
    Line,
    OnDisconnect,
    forget,
    reach_received,
    reach_sending,
)
from fabric.coordinator.runtime.outbox import Outbox
from fabric.coordinator.runtime.watchers import Watchers
from fabric.coordinator.submit.preparation import Prepared, Surroundings, prepare
from fabric.errors import FabricError, InternalError, NotLeaderError, PlanError, StorageError
from fabric.ids import check_name, new_id
from fabric.security.callers import who
from fabric.security.tokens import Signer

Log = Callable[[str, Mapping[str, str | int]], None]

WATCH_S = 1.0
"""A watcher hears at least this often."""
WRITTEN_S = 20.0
"""How long a call waits for a metadata store that is away."""
AWAY_S = 0.2
"""The pause before such a store is tried again."""
TICK_S = 0.1


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
        epoch: int = 0,
    ) -> None:
        """`epoch` was begun for `store` already; 0: begin one."""
        self._signer = signer
        self._store: MetadataStore = store if store is not None else MemoryStore()
        self._clock = clock or SystemClock()
        self._config = config or CoordinatorConfig()
        self._embedded = embedded
        self._log: Log = log or (lambda event, fields: None)
        self._core = CoordinatorCore(
            self._config, epoch or self._store.next_epoch(), embedded=embedded
        )
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._outbox = Outbox(self._store, self._wake)
        self._keeper = Keeper(self._stored)
        self._lines: dict[str, Line] = {}
        self._watchers = Watchers()
        self._n_sessions = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="coordinator", daemon=True)
        with self._lock:
            now, wall_s = self._clock.monotonic_s(), self._clock.wall_s()
            restored = self._core.restore(self._store, wall_s, now)
            failpoints.reach("coordinator.restoring")
            self._outbox.put(restored)

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
            lines = list(self._lines.values())
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self._keeper.close()
        self._watchers.notify_all()
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
            self._handle(AgentAttached(session, hello))  # or it refuses, and nothing has changed
            old = self._lines.get(agent_id)
            self._lines[agent_id] = Line(session, send, disconnect or forget)
        if old is not None:
            old.disconnect(f"agent {agent_id} attached again")
        return session

    def receive(self, agent_id: str, message: pb.AgentMessage, session: int | None = None) -> None:
        """See `AgentPort.receive`."""
        with self._lock:
            if self._closed:
                return
            reach_received(message)
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

    def submit(self, request: pb.SubmitRequest) -> pb.JobStatus:
        """See `ControlApi.submit`."""
        with self._lock:
            self._check_open()
            known = self._core.job_of_key(request.client_key)
            if known is not None:
                self._settled()
                return self._core.status(known, self._clock.monotonic_s())
        adaptive = chosen(request.adaptive, self._config.adaptive)
        checkpoint = self._config.checkpointing(request.checkpoint)
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
            checkpoint=checkpoint,
            latency_us=self._config.latency_us(request),
        )
        with self._lock:
            self._change(event)
            job_id = self._core.job_of_key(request.client_key) or event.job_id
            return self._core.status(job_id, self._clock.monotonic_s())

    def explain(self, request: pb.SubmitRequest) -> pb.ExplainReply:
        """See `ControlApi.explain`."""
        return self._prepare(request).explain(self._config.checkpointing(request.checkpoint))

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

    def restart(self, request: pb.RestartRequest) -> pb.JobStatus:
        """See `ControlApi.restart`."""
        event = JobRestarted(request.job_id, request.from_path)
        return self._ask(pb.JobRequest(job_id=request.job_id), event)

    def drain(self, request: pb.DrainRequest) -> pb.AgentStatus:
        """See `ControlApi.drain`."""
        with self._lock:
            self._change(AgentDrained(request.agent_id, request.undo))
            return self._core.agent(request.agent_id, self._clock.monotonic_s())

    def list_tasks(self, request: pb.JobRequest) -> pb.TaskList:
        """See `ControlApi.list_tasks`."""
        with self._lock:
            self._check_open()
            return pb.TaskList(tasks=self._core.tasks(request.job_id))

    def list_checkpoints(self, request: pb.CheckpointsRequest) -> pb.CheckpointList:
        """See `ControlApi.list_checkpoints`."""
        with self._lock:
            self._check_open()
            found = self._core.checkpoints(request.job_id, self._clock.monotonic_s())
            folder = self._core.checkpoint_folder(request.job_id)
        return listed(found, request, FolderStorage(folder))

    def job_plan(self, request: pb.JobRequest) -> pb.ExplainReply:
        """See `ControlApi.job_plan`."""
        with self._lock:
            self._check_open()
            graph, checkpoint = self._core.planned(request.job_id)
        return explain(graph, checkpoint)

    def list_events(self, request: pb.EventsRequest) -> pb.EventList:
        """See `ControlApi.list_events`."""
        with self._lock:
            self._check_open()
            return self._core.events(request)

    def status(self, request: pb.JobRequest) -> pb.JobStatus:
        """One job's status now; `NotFoundError` when it is unknown."""
        with self._lock:
            self._settled()
            return self._core.status(request.job_id, self._clock.monotonic_s())

    def list_jobs(self, request: pb.ListRequest) -> pb.JobList:
        """See `ControlApi.list_jobs`."""
        with self._lock:
            self._settled()
            jobs = self._core.jobs(self._clock.monotonic_s())
        return page(jobs, request)

    def list_agents(self, request: pb.ListRequest) -> pb.AgentList:
        """See `ControlApi.list_agents`."""
        with self._lock:
            self._check_open()
            agents = self._core.agents(self._clock.monotonic_s(), lost=request.lost)
            return pb.AgentList(agents=agents)

    def locate(self, request: pb.LocateRequest) -> pb.Locations:
        """See `ControlApi.locate`."""
        with self._lock:
            self._settled()
            return self._core.locate(request)

    def dataset(self, request: pb.DatasetRequest) -> pb.DatasetReply:
        """See `ControlApi.dataset`."""
        with self._lock:
            effects = self._change(DatasetAsked(request, new_id("tx")))
        (reply,) = (effect.reply for effect in effects if isinstance(effect, DatasetAnswered))
        return reply

    def subscribe(self, job_id: str, notify: Callable[[], None]) -> Callable[[], None]:
        """Call `notify` (which must not block) after each change; returns what ends that."""
        return self._watchers.add(job_id, notify)

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

    def tick(self) -> None:
        """Let the core notice that time has passed; the thread does it by itself."""
        with self._lock:
            if not self._closed:
                self._handle(Tick(self._clock.wall_s()))

    def flush(self) -> None:
        """Wait until every message so far was handed to its link."""
        with self._lock:
            self._outbox.wait_done(lambda: self._closed or self.broken is not None)

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
                broadcast_bytes=chosen(request.adaptive, self._config.adaptive).broadcast_bytes,
                ask_s=self._config.ask_s, running=self._core.running,
                interval_s=self._config.checkpointing(request.checkpoint).interval_s,
            )  # fmt: skip
        try:
            return prepare(request, around, self._config.plan_bytes_max, self._signer)
        except RecursionError:
            raise PlanError("the plan nests too deeply; compute parts in earlier steps") from None

    def _ask(self, request: pb.JobRequest, event: Event) -> pb.JobStatus:
        with self._lock:
            self._change(event)
            return self._core.status(request.job_id, self._clock.monotonic_s())

    def _check_open(self) -> None:
        if self.broken is not None:
            raise type(self.broken)(self.broken.message)
        if self._closed:
            raise NotLeaderError("the coordinator was stopped")

    def _settled(self) -> None:
        """Until what the core says is written down: nobody is told what a crash would undo.

        While the store is away, what runs can still be looked at; the lock is held.
        """
        self._check_open()
        if self._thread.is_alive() and self._outbox.away is None:
            self._outbox.wait_written(WRITTEN_S)

    def _session(self, agent_id: str) -> int:
        line = self._lines.get(agent_id)
        return line.session if line is not None else -1

    def _change(self, event: Event) -> list[Effect]:
        """What somebody asked for, until it is written down; the lock is held."""
        self._check_open()
        if self._outbox.away is not None:
            raise self._outbox.away
        effects = self._handle(event, who())
        if self._thread.is_alive():
            self._outbox.wait_written(WRITTEN_S)
        return effects

    def _handle(self, event: Event, who: str = "") -> list[Effect]:
        """Move the core; the lock is held."""
        effects = self._core.handle(event, self._clock.monotonic_s(), who)
        for effect in effects:
            if isinstance(effect, Hear):
                line = self._lines.get(effect.agent_id)
                if line is not None and line.session == effect.session:
                    line.send(effect.message)
        self._outbox.put([effect for effect in effects if not isinstance(effect, Hear)])
        return effects

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
                if (line := self._line(agent_id, session)) is not None:
                    self._send(agent_id, line, message)
            case Disconnect(agent_id=agent_id, session=session, reason=reason):
                if (line := self._take_line(agent_id, session)) is not None:
                    line.disconnect(reason)
            case JobChanged(job_id=job_id):
                self._watchers.notify(job_id)
            case Note(event=event, fields=fields):
                self._log(event, dict(fields))
            case StorageWork():
                self._keeper.put(effect)
            case DatasetAnswered() | Persist() | Hear():
                pass

    def _stored(self, event: Event) -> None:
        """How something went with a checkpoint's files; in the keeper's thread."""
        with self._lock:
            if not self._closed:
                self._handle(event)

    def _line(self, agent_id: str, session: int) -> Line | None:
        with self._lock:
            return self._lines[agent_id] if self._session(agent_id) == session else None

    def _take_line(self, agent_id: str, session: int) -> Line | None:
        with self._lock:
            return self._lines.pop(agent_id) if self._session(agent_id) == session else None

    def _send(self, agent_id: str, line: Line, message: pb.CoordinatorMessage) -> None:
        reach_sending(message)
        try:
            line.send(message)
        except Exception as error:  # a link's fault must not stop the others
            self._log("link failed", {"agent": agent_id, "error": repr(error)})
            self.detach(agent_id, f"its link failed ({type(error).__name__})", line.session)
