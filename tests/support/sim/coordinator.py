"""A simulated coordinator process around the real core.

One job: what `CoordinatorRuntime` does, in simulated time: carry effects out in order, write before
anything is sent or answered, let time pass. It may die between any two effects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.core.core import CoordinatorCore
from fabric.coordinator.core.effects import Disconnect, Effect, Hear, Note, Send
from fabric.coordinator.core.events import (
    AgentAttached,
    AgentDetached,
    AgentDrained,
    AgentSaid,
    Event,
    JobCancelled,
    JobReleased,
    JobRestarted,
    JobSubmitted,
    Tick,
)
from fabric.coordinator.metadata.store import MetadataStore
from fabric.errors import FabricError, InternalError, PeerLostError, StorageError
from tests.support.sim.disk import File
from tests.support.sim.graphs import fragments
from tests.support.sim.invariants import Invariants
from tests.support.sim.outbox import SimOutbox
from tests.support.sim.parts import Parts
from tests.support.sim.party import Crashed, Party
from tests.support.sim.scenario import JobPlan
from tests.support.sim.scheduler import Scheduler, Step
from tests.support.sim.session import Session
from tests.support.sim.trace import Trace

SERVER = 1
"""The coordinator's side of a session."""
TICK_S = 0.25
AWAY_S = 0.2
"""The pause before a store that is away is tried again."""


@dataclass(frozen=True, slots=True)
class Submit:
    """A client's plan under its key."""

    plan: JobPlan


@dataclass(frozen=True, slots=True)
class Ask:
    """Something about a known job (or agent)."""

    what: str
    name: str


class CoordinatorProcess(Party):
    """One coordinator on one disk; what it knows beside the core is gone when it dies."""

    def __init__(
        self,
        name: str,
        scheduler: Scheduler,
        trace: Trace,
        *,
        config: CoordinatorConfig,
        parts: Parts,
        disk: File | None,
        invariants: Invariants,
    ) -> None:
        super().__init__(name, scheduler, trace)
        self._config, self._parts, self._disk = config, parts, disk
        self._invariants = invariants
        self.core: CoordinatorCore | None = None
        self.leads_since_s = 0.0
        self.heard_s: dict[str, float] = {}
        """When it last prolonged whose lease, in any life."""

    # ---- life

    def boot(self) -> None:
        """See `Party.boot`."""
        self.reset()
        assert self._disk is not None
        try:
            store = self._parts.store(self._disk)
            self.begin_term(store, store.next_epoch())
        except StorageError as error:
            raise Crashed(f"its store failed: {error}") from error

    def reset(self) -> None:
        """A process that has just begun knows nothing."""
        self.core = None
        self._sessions: dict[str, tuple[int, Session]] = {}
        self._n_sessions = self._n_jobs = self._term = 0

    def begin_term(self, store: MetadataStore, epoch: int) -> None:
        """Lead from now on; raises `StorageError`."""
        core = self._parts.coordinator_core(self._config, epoch)
        self._invariants.epoch_begins(self.name, epoch)
        restored = core.restore(store, self.wall_s(), self.monotonic_s())
        self._outbox = SimOutbox(store, self.spend)
        self._met: dict[str, None] = {}
        self._sending = False
        self._term += 1
        self.leads_since_s = self.scheduler.now
        self.core = core
        self._carry(restored)
        self._period_s = min(TICK_S, self._config.heartbeat_s / 2)
        self._in_term(self._period_s, self._tick)

    def end_term(self, why: str) -> None:
        """Lead no more: everybody has to look for another coordinator."""
        self.say(f"ends its term: {why}")
        self.core = None
        for agent_id in list(self._sessions):
            self._sessions.pop(agent_id)[1].close(SERVER)

    def gives_up(self, error: StorageError) -> None:
        """The store takes no more of this coordinator."""
        raise Crashed(f"its store refused a write: {error}") from error

    def crash(self, why: str = "killed") -> None:
        """See `Party.crash`; what was not synced may be lost."""
        if self.alive:
            if self._disk is not None:
                self._disk.crash(self.scheduler.rng)
            self.core = None
        super().crash(why)

    def _in_term(self, delay_s: float, action: Step) -> None:
        """Do `action` later, unless the term is over by then."""
        term = self._term

        def go() -> None:
            if self.core is not None and self._term == term:
                action()

        self.after(delay_s, go)

    # ---- agents

    def accept(self, session: Session, hello: pb.Hello) -> int:
        """An agent says hello; the number of its session, 0 when it is refused."""
        if self.core is None:
            return self._refuse(session, "the coordinator is not ready")
        self._n_sessions += 1
        number, agent_id = self._n_sessions, hello.agent_id
        self._invariants.attached(hello)
        try:
            self._handle(AgentAttached(number, hello))
        except FabricError as error:
            return self._refuse(session, error.message)
        self._met[agent_id] = None
        old = self._sessions.get(agent_id)
        self._sessions[agent_id] = (number, session)
        if old is not None:
            old[1].close(SERVER)
        return number if self.core is not None else 0

    def receive(self, agent_id: str, number: int, message: pb.AgentMessage) -> None:
        """A message of an agent's session."""
        if self.core is None:
            return
        if message.WhichOneof("kind") != "task":
            self._handle(AgentSaid(agent_id, number, message))
            return
        before = self._invariants.before_report(self.core)
        self._handle(AgentSaid(agent_id, number, message))
        self._invariants.after_report(self.core, message.task, before)

    def detach(self, agent_id: str, number: int, reason: str) -> None:
        """A session is over."""
        if self._sessions.get(agent_id, (0,))[0] == number:
            del self._sessions[agent_id]
        if self.core is not None:
            self._handle(AgentDetached(agent_id, number, reason))

    def _refuse(self, session: Session, why: str) -> int:
        self.say(f"refuses an agent: {why}")
        session.close(SERVER)
        return 0

    def has_met(self, agent_id: str) -> bool:
        """Whether the agent attached in this life."""
        return agent_id in self._met

    # ---- clients

    def serve(self, request: Any, answer: Callable[[Any], None]) -> None:
        """Answer a client, once what it asked for is written down."""
        if self.core is None:
            raise PeerLostError("the coordinator is not ready")
        match request:
            case Submit(plan=plan):
                self._submit(plan, answer)
            case Ask(what="status", name=job_id):
                self._answer(job_id, answer)
            case Ask(what="cancel", name=job_id):
                self._change(JobCancelled(job_id, "the job was cancelled"), job_id, answer)
            case Ask(what="release", name=job_id):
                self._change(JobReleased(job_id), job_id, answer)
            case Ask(what="restart", name=job_id):
                self._change(JobRestarted(job_id), job_id, answer)
            case Ask(what="locate", name=job_id):
                found = self.core.locate(pb.LocateRequest(job_id=job_id))
                self._once_written(lambda: answer(found))
            case Ask(what="drain" | "work again", name=agent_id):
                self._handle(AgentDrained(agent_id, undo=request.what == "work again"))
                self._once_written(lambda: answer(None))
            case _:
                raise InternalError(f"nobody answers {request}")

    def _submit(self, plan: JobPlan, answer: Callable[[Any], None]) -> None:
        assert self.core is not None
        if (known := self.core.registry.job_of_key(plan.key)) is not None:
            self._answer(known, answer)
            return
        self._n_jobs += 1
        job_id = f"job-{self.core.epoch}-{self._n_jobs}"
        self._invariants.job_begins(job_id, plan)
        event = JobSubmitted(
            job_id=job_id,
            name=plan.key,
            client_key=plan.key,
            graph=plan.graph,
            fragments=fragments(plan.graph),
            schema=b"",
            wall_s=self.wall_s(),
        )
        self._change(event, job_id, answer)

    def _change(self, event: Event, job_id: str, answer: Callable[[Any], None]) -> None:
        self._handle(event)
        self._answer(job_id, answer)

    def _answer(self, job_id: str, answer: Callable[[Any], None]) -> None:
        assert self.core is not None
        status = pb.JobStatus()
        status.CopyFrom(self.core.registry.status(job_id, self.monotonic_s()))
        self._once_written(lambda: answer(status))

    def _once_written(self, done: Callable[[], None]) -> None:
        if self._outbox.waiting:
            self._outbox.once_written(done)
        else:
            done()

    # ---- inside

    def _tick(self) -> None:
        self._handle(Tick(self.wall_s()))
        self._in_term(self._period_s, self._tick)

    def _handle(self, event: Event) -> None:
        if self.core is None:
            raise PeerLostError("the coordinator is not ready")
        try:
            effects = self.core.handle(event, self.monotonic_s())
        except FabricError as error:
            if isinstance(event, AgentSaid | AgentDetached | Tick):
                raise self._invariants.violation(f"{error!r} at {event}") from error
            raise  # whoever asked is refused
        self._invariants.decides(self, event, effects)
        self._carry(effects)

    def _carry(self, effects: list[Effect]) -> None:
        """What was heard is told at once, the rest when it is written down."""
        for effect in effects:
            if isinstance(effect, Hear):
                self._send(effect)
        self._outbox.put([effect for effect in effects if not isinstance(effect, Hear)])
        if self._outbox.waiting and not self._sending:
            self._sending = True
            self._in_term(self.scheduler.rng.uniform(0.0, 0.003), self._send_all)

    def _send_all(self) -> None:
        self._sending = False
        try:
            there = self._outbox.step(self._perform)
        except StorageError as error:
            self.gives_up(error)
            return
        if not there:
            self._sending = True
            self._in_term(AWAY_S, self._send_all)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send():
                self._send(effect)
            case Disconnect(agent_id=agent_id, session=number):
                current = self._sessions.get(agent_id)
                if current is not None and current[0] == number:
                    del self._sessions[agent_id]
                    current[1].close(SERVER)
            case Note(event=event, fields=fields):
                self.say(f"{event} {' '.join(f'{k}={v}' for k, v in fields)}")
            case _:
                return

    def _send(self, effect: Send | Hear) -> None:
        current = self._sessions.get(effect.agent_id)
        if current is not None and current[0] == effect.session:
            if isinstance(effect, Hear):
                self.heard_s[effect.agent_id] = self.scheduler.now
            self._invariants.tells(self, effect.agent_id, effect.message)
            current[1].send(SERVER, effect.message)
