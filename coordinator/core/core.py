"""The coordinator's state machine.

`CoordinatorCore.handle(event, now)` changes the state and returns what is to be done. A request
that can't be served raises a `FabricError` and changes nothing; an agent's message that does not
fit (old epoch, session or attempt, unknown job, a second or late report) is refused and counted in
`refused`. Jobs are followed in `progress.py`, what is known of them is in `job_registry.py`.
"""

from __future__ import annotations

from collections import Counter

from fabric.control import control_pb2 as pb
from fabric.coordinator.catalog.catalogue import Catalogue
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.core.agents import validation
from fabric.coordinator.core.agents.agents import Agent, Agents, Announcer, same_release
from fabric.coordinator.core.agents.drain import Draining
from fabric.coordinator.core.agents.replication import Replication
from fabric.coordinator.core.agents.status import AgentStatuses
from fabric.coordinator.core.datasets import DatasetVerbs
from fabric.coordinator.core.effects import Disconnect, Effect, Hear, Persist
from fabric.coordinator.core.events import (
    AgentAttached,
    AgentDetached,
    AgentDrained,
    AgentSaid,
    CheckpointAsked,
    CheckpointVerified,
    DatasetAsked,
    Event,
    JobAsked,
    JobCancelled,
    JobReleased,
    JobReplanned,
    JobRestarted,
    JobSubmitted,
    ManifestWritten,
    SavepointWritten,
    Tick,
)
from fabric.coordinator.core.jobs import records
from fabric.coordinator.core.jobs.job_registry import JobRegistry
from fabric.coordinator.core.jobs.jobs import Job
from fabric.coordinator.core.jobs.progress import Progress
from fabric.coordinator.core.jobs.stream_states import stream_states
from fabric.coordinator.core.scheduling.slots import slots_for
from fabric.coordinator.metadata.store import MetadataStore, Write
from fabric.errors import ConfigError, ExternalError, NotLeaderError
from fabric.version import __version__


class CoordinatorCore:
    """State of one coordinator of one `epoch`; not thread-safe."""

    def __init__(self, config: CoordinatorConfig, epoch: int, *, embedded: bool = False) -> None:
        self._config, self._embedded = config, embedded
        self.epoch = epoch
        self.refused: Counter[str] = Counter()
        self._claimed = 0  # the highest epoch that an agent has told of, above our own
        self._agents = Agents(None if embedded else config.timeout_s, config.reattach_s)
        self._announcer = Announcer(self._agents, epoch)
        self.registry = JobRegistry(config, epoch)
        """What is known of the jobs, to be read only."""
        self._progress = Progress(self.registry, self._agents, self._announcer, self._refuse)
        self._draining = Draining(self.registry, self._agents, self._announcer)
        self.datasets = Catalogue()
        """The dataset catalogue, to be read only."""
        self._replication = Replication(self.registry, self._agents, self._announcer, self.datasets)
        self._datasets = DatasetVerbs(
            self.registry, self._agents, self._announcer, self.datasets, self._replication
        )
        self.agents = AgentStatuses(
            self._agents, self._draining, self._replication, self._progress.scheduler.slots_used
        )
        """What people are told of agents."""

    # ---- asking

    def agent_hellos(self) -> list[pb.Hello]:
        """What attached agents said of themselves, by id."""
        return [agent.hello for agent in self._agents.attached()]

    def slots_for(self, job: Job | None) -> int:
        """How many slots a job could have; None: a new one."""
        return slots_for(job, self._agents.attached(), self.registry.active())

    def locate(self, request: pb.LocateRequest) -> pb.Locations:
        """Where a job's edges, its states or a dataset are; `NotFoundError` when unknown."""
        found = pb.Locations(version=self._announcer.version, addresses=self._agents.addresses())
        if request.states:
            jobs = [self.registry.live(request.job_id)] if request.job_id else [
                job for job in self.registry.active() if job.stream is not None
            ]  # fmt: skip
            found.states.extend(map(stream_states, jobs))
        elif request.job_id:
            job = self.registry.live(request.job_id)
            found.edges.extend(self._progress.endings.locations(job))
        if request.dataset:
            found.datasets.append(self.datasets.locate(request.dataset))
        return found

    # ---- moving

    def restore(self, store: MetadataStore, wall_s: float, now: float) -> list[Effect]:
        """Take over what an earlier coordinator wrote down; called once, before any event."""
        self.registry.set_wall(wall_s, now)
        self.datasets.restore(store.scan("datasets"), store.scan("transactions"))
        events = (value for _, value in store.scan("events"))
        self.registry.restore(records.restored_jobs(store, wall_s, now), events)
        self._progress.endings.restored()
        effects = self._progress.streams.read_back(list(store.scan("checkpoints")), now)
        wanted = {agent for job in self.registry.jobs.values() for agent in job.agents()}
        agents = [pb.StoredAgent.FromString(value) for _, value in store.scan("agents")]
        for agent in sorted(agents, key=lambda agent: agent.seen_s):
            if agent.hello.agent_id in wanted or agent.draining:
                self._agents.expect(agent.hello, agent.draining, now)
            else:
                self._agents.remember(agent.hello.agent_id, now)
        self._forget_agents()
        lost = wanted - {agent.agent_id for agent in self._agents.all()}
        for agent_id in sorted(lost):
            effects += self._progress.agent_lost(agent_id, "nothing is known of it", now)
        n_jobs = len(self.registry.active())
        effects += self.registry.note(now, "coordinator leads", n_jobs=n_jobs, epoch=self.epoch)
        return self._written(effects)

    def handle(self, event: Event, now: float, who: str = "") -> list[Effect]:
        """Take one event; `now` is monotonic seconds, `who` asked for it. See the module's text."""
        self.registry.who = who
        try:
            effects = self._handle(event, now)
            if self._announcer.outdated:
                self._announcer.outdated = False
                effects += self._tell_everything(self._agents.attached())
            return self._written([*self._asked(event, now), *effects] if who else effects)
        finally:
            self.registry.who = ""

    def _asked(self, event: Event, now: float) -> list[Effect]:
        """The note of what is told only when somebody asked for it."""
        if isinstance(event, JobCancelled | JobReleased) and event.job_id in self.registry.jobs:
            says = "cancel asked" if isinstance(event, JobCancelled) else "release asked"
            return self.registry.note(now, says, job=event.job_id)
        return []

    def _written(self, effects: list[Effect]) -> list[Effect]:
        """With what is to be written down before anybody is told."""
        writes = self.registry.take_writes()
        return [Persist(writes), *effects] if writes else effects

    def _handle(self, event: Event, now: float) -> list[Effect]:
        match event:
            case AgentSaid():
                return self._said(event, now)
            case Tick(wall_s=wall_s):
                return self._tick(wall_s, now)
            case AgentAttached():
                return self._attached(event, now)
            case AgentDetached():
                return self._detached(event, now)
            case AgentDrained(agent_id=agent_id, undo=undo):
                self.agents.one(agent_id, now)
                effects = self._draining.drain(agent_id, undo=undo, now=now)
                self._replication.changed()
                effects += self._replication.go_on(now)
                return effects + self._progress.scheduler.schedule(now)
            case DatasetAsked():
                return self._datasets.handle(event, now)
            case CheckpointAsked():
                return self._progress.checkpoint_asked(event, now)
            case ManifestWritten() | CheckpointVerified() | SavepointWritten():
                return self._progress.stored(event, now)
            case _:
                return self._asked_of_job(event, now)

    def _asked_of_job(self, event: JobAsked, now: float) -> list[Effect]:
        match event:
            case JobSubmitted():
                return self._progress.submit(event, now)
            case JobCancelled(job_id=job_id, reason=reason):
                return self._progress.cancel(job_id, reason, now)
            case JobReleased(job_id=job_id):
                return self._progress.release(job_id, now)
            case JobReplanned():
                return self._progress.rescale(event, now)
            case JobRestarted(job_id=job_id, from_path=path):
                return self._progress.restart(job_id, path, now)

    def _tick(self, wall_s: float, now: float) -> list[Effect]:
        effects: list[Effect] = []
        self.registry.set_wall(wall_s, now)
        for agent, why in self._agents.overdue(now):
            if agent.session is not None:
                effects.append(Disconnect(agent.agent_id, agent.session, why))
            effects += self._lost(agent, why, now)
        effects += self._progress.expire(now)
        effects += self._draining.go_on(now)
        effects += self._replication.go_on(now)
        begun_s = self.registry.steady_s(now) - self._config.transaction_s
        self.registry.write(*self.datasets.expire(begun_s))
        return effects

    def _attached(self, event: AgentAttached, now: float) -> list[Effect]:
        effects: list[Effect] = []
        hello, agent_id = event.hello, event.hello.agent_id
        if hello.epoch > self.epoch:
            raise self._obeys_another(hello, now)
        validation.check_hello(hello)
        if not same_release(hello.version, __version__):
            raise ConfigError(
                f"agent {agent_id} runs Fabric {hello.version[:64]!r}, this coordinator "
                f"{__version__}; install the same release on both",
                agent=agent_id,
            )
        if self._agents.is_used(hello, now):
            raise ExternalError(
                f"another agent with the id {agent_id} is attached; each needs a folder of its own "
                "(`fabric agent --name`)",
                agent=agent_id,
            )
        older = self._agents.get(agent_id)
        if older is not None and older.session is not None:
            reason = f"agent {agent_id} attached again"
            effects.append(Disconnect(agent_id, older.session, reason))
        others = [other for other in self._agents.attached() if other is not older]
        agent = self._agents.attach(event.session, hello, now)
        effects += self._announcer.send(agent_id, self._welcome())
        effects += self._tell_everything([agent])
        new = pb.Locations(addresses={agent_id: hello.address})
        if hello.HasField("socket"):
            new.sockets[agent_id].CopyFrom(hello.socket)
        effects += self._announcer.tell(new, others)
        where = {"agent": agent_id, "address": hello.address}
        effects += self.registry.note(now, "agent attached", **where)
        effects += self._replication.attached(agent)
        effects += self._progress.attached(agent, validation.held(hello), now)
        self._write_agent(agent, now)
        return effects

    def _obeys_another(self, hello: pb.Hello, now: float) -> NotLeaderError:
        """Whether another one leads is the store's to say, which takes this note only of who does:
        an agent may say any number."""
        if hello.epoch > self._claimed:
            self._claimed = hello.epoch
            self.registry.note(
                now, "agent obeys another coordinator", agent=hello.agent_id, theirs=hello.epoch,
            )  # fmt: skip
        return NotLeaderError(
            f"this coordinator has epoch {self.epoch}, and agent {hello.agent_id} obeys one of "
            f"epoch {hello.epoch}: another one took over, or else this one has an older copy of "
            "its files; if it is the only one, restart the agent"
        )

    def _welcome(self) -> pb.CoordinatorMessage:
        return pb.CoordinatorMessage(
            welcome=pb.Welcome(
                epoch=self.epoch,
                heartbeat_s=self._config.heartbeat_s,
                timeout_s=0.0 if self._embedded else self._config.timeout_s,  # 0: no lease
            )
        )

    def _detached(self, event: AgentDetached, now: float) -> list[Effect]:
        agent = self._agents.on_session(event.agent_id, event.session)
        if agent is None:
            return self._refuse("old session")
        self._agents.unlink(agent, now)
        return self.registry.note(now, "agent's link broke", agent=agent.agent_id, why=event.reason)

    def _lost(self, agent: Agent, reason: str, now: float, *, left: bool = False) -> list[Effect]:
        self._agents.remove(agent.agent_id, now, left=left)
        self._write_agent(agent, now)
        self._forget_agents()
        note = self.registry.note(now, "agent lost", agent=agent.agent_id, why=reason)
        moved = self._progress.agent_lost(agent.agent_id, reason, now)
        return [*note, *moved, *self._tell_everything(self._agents.attached())]

    def _said(self, event: AgentSaid, now: float) -> list[Effect]:
        agent = self._agents.on_session(event.agent_id, event.session)
        if agent is None:
            return self._refuse("old session")
        message = event.message
        if (why := validation.implausible(message)) is not None:
            return self._refuse(why)
        agent.seen = max(agent.seen, now)
        match message.WhichOneof("kind"):
            case "heartbeat":
                return self._heard(agent, message.heartbeat, now)
            case "task":
                return self._progress.task_report(agent, message.task, now)
            case "sink":
                return self._progress.sink_report(agent, message.sink, now)
            case "adopted":
                return self._draining.adopted(agent, message.adopted, now)
            case "checkpointed":
                return self._progress.checkpointed(agent, message.checkpointed, now)
            case "slowest":
                return self._progress.streams.slowest(agent, message.slowest)
            case "replicated":
                return self._replication.copied(agent, message.replicated, now)
            case "goodbye":
                why = f"it left: {message.goodbye.reason or 'stopped'}"
                return self._lost(agent, why, now, left=True)
            case _:
                return self._refuse("unknown message")

    def _heard(self, agent: Agent, beat: pb.Heartbeat, now: float) -> list[Effect]:
        was_overloaded = agent.beat.overloaded
        if beat.sequence >= agent.beat.sequence:
            agent.beat = beat
        heard = pb.CoordinatorMessage(heard=pb.Heard(sequence=beat.sequence), epoch=self.epoch)
        assert agent.session is not None
        effects: list[Effect] = [Hear(agent.agent_id, agent.session, heard)]
        if beat.overloaded != was_overloaded:
            says = "asks for no more tasks" if beat.overloaded else "takes tasks again"
            effects += self.registry.note(now, f"agent {says}", agent=agent.agent_id)
            effects += self._progress.scheduler.schedule(now)
        return effects

    def _forget_agents(self) -> None:
        self.registry.write(*(Write("agents", name, None) for name in self._agents.forget()))

    def _write_agent(self, agent: Agent, now: float) -> None:
        state = self.agents.of(agent, now).state
        seen_s = self.registry.wall_s(agent.seen)
        self.registry.write(
            records.agent_record(agent.hello, state, draining=agent.draining, seen_s=seen_s)
        )

    def _refuse(self, reason: str) -> list[Effect]:
        self.refused[reason] += 1
        return []

    def _tell_everything(self, agents: list[Agent]) -> list[Effect]:
        table = pb.Locations(
            full=True,
            edges=self._progress.all_edges(),
            datasets=self.datasets.all(),
            addresses=self._agents.addresses(),
            sockets=self._agents.sockets(),
        )
        return self._announcer.tell(table, agents)
