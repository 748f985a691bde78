"""The coordinator's state machine.

One job: `CoordinatorCore.handle(event, now)` changes the state and returns what is to be done. A
request that can't be served raises a `FabricError` and changes nothing; an agent's message that
does not fit (old epoch, session or attempt, unknown job, a second or late report) is refused and
counted in `refused`. Jobs are followed in `progress.py`.
"""

from __future__ import annotations

from collections import Counter

from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.core import records
from fabric.coordinator.core.agents import Agent, Agents
from fabric.coordinator.core.announcer import Announcer
from fabric.coordinator.core.effects import DatasetAnswered, Disconnect, Effect, Note, Persist
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
from fabric.coordinator.core.progress import Progress
from fabric.coordinator.datasets import Catalogue
from fabric.coordinator.metadata.store import MetadataStore, Write
from fabric.errors import NotFoundError


class CoordinatorCore:
    """State of one coordinator of one `epoch`; not thread-safe."""

    def __init__(self, config: CoordinatorConfig, epoch: int, *, embedded: bool = False) -> None:
        self._config = config
        self.epoch = epoch
        self.refused: Counter[str] = Counter()
        self._agents = Agents(None if embedded else config.timeout_s)
        self._announcer = Announcer(self._agents, epoch)
        self._progress = Progress(config, epoch, self._agents, self._announcer, self._refuse)
        self._catalogue = Catalogue()

    @property
    def datasets(self) -> Catalogue:
        """The dataset catalogue, to be read only."""
        return self._catalogue

    def agent_ids(self) -> list[str]:
        """Attached agents, in order."""
        return self._agents.ids()

    def agent_hellos(self) -> list[pb.Hello]:
        """What attached agents said of themselves, by id."""
        return [agent.hello for agent in self._agents.all()]

    def addresses(self) -> dict[str, str]:
        """Flight address by attached agent."""
        return self._agents.addresses()

    def status(self, job_id: str, now: float) -> pb.JobStatus:
        """A job's status; `NotFoundError` when it is unknown."""
        return self._progress.status(job_id, now)

    def job_of_key(self, client_key: str) -> str | None:
        """The job that was submitted under a client's key."""
        return self._progress.job_of_key(client_key)

    def jobs(self, now: float) -> list[pb.JobStatus]:
        """Every job, oldest first."""
        return self._progress.jobs(now)

    def agents(self, now: float) -> list[pb.AgentStatus]:
        """Every attached agent, by id."""
        return [_agent_status(agent, now) for agent in self._agents.all()]

    def locate(self, request: pb.LocateRequest) -> pb.Locations:
        """Where a job's edges or a dataset are; `NotFoundError` when unknown."""
        found = pb.Locations(version=self._announcer.version, addresses=self.addresses())
        if request.job_id:
            found.edges.extend(self._progress.edges(request.job_id))
        if request.dataset:
            found.datasets.append(self._catalogue.locate(request.dataset))
        return found

    def restore(self, store: MetadataStore) -> list[Effect]:
        """Take over what an earlier coordinator wrote down; called once, before any event."""
        self._catalogue.restore(store.scan("datasets"), store.scan("transactions"))
        writes = [Write("tasks", key, None) for key, _ in store.scan("tasks")]
        writes += self._progress.restore(records.restored_jobs(store.scan("jobs")))
        return [Persist(tuple(writes))] if writes else []

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take one event; `now` is monotonic seconds. See the module's text."""
        match event:
            case AgentSaid():
                return self._said(event, now)
            case Tick(wall_s=wall_s):
                return self._tick(wall_s, now)
            case JobSubmitted():
                return self._progress.submit(event, now)
            case JobCancelled(job_id=job_id, reason=reason):
                return self._progress.cancel(job_id, reason, now)
            case JobReleased(job_id=job_id):
                return self._progress.release(job_id, now)
            case AgentAttached():
                return self._attached(event, now)
            case AgentDetached():
                return self._detached(event, now)
            case DatasetAsked():
                return self._dataset(event)

    def _tick(self, wall_s: float, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for agent, silence in self._agents.silent(now):
            reason = f"agent {agent.agent_id} sent no heartbeat for {silence:.1f} s"
            effects.append(Disconnect(agent.agent_id, agent.session, reason))
            effects += self._lost(agent, reason, now)
        effects += self._progress.expire(now)
        if writes := self._catalogue.expire(wall_s - self._config.transaction_s):
            effects.append(Persist(tuple(writes)))
        return effects

    def _attached(self, event: AgentAttached, now: float) -> list[Effect]:
        effects: list[Effect] = []
        hello, agent_id = event.hello, event.hello.agent_id
        if (older := self._agents.get(agent_id)) is not None:
            reason = f"agent {agent_id} attached again"
            effects.append(Disconnect(agent_id, older.session, reason))
            effects += self._lost(older, reason, now)
        agent = Agent(event.session, hello, now)
        others = self._agents.all()
        self._agents.add(agent)
        welcome = pb.Welcome(
            epoch=self.epoch,
            heartbeat_s=self._config.heartbeat_s,
            timeout_s=self._config.timeout_s,
        )
        effects.append(Persist((records.agent_record(hello),)))
        effects.append(self._announcer.send(agent, pb.CoordinatorMessage(welcome=welcome)))
        effects += self._tell_everything([agent])
        new = pb.Locations(addresses={agent_id: hello.address})
        if hello.HasField("socket"):
            new.sockets[agent_id].CopyFrom(hello.socket)
        effects += self._announcer.tell(new, others)
        effects.append(Note("agent attached", (("agent", agent_id), ("address", hello.address))))
        return effects

    def _detached(self, event: AgentDetached, now: float) -> list[Effect]:
        agent = self._agents.on_session(event.agent_id, event.session)
        if agent is None:
            return self._refuse("old session")
        return self._lost(agent, f"agent {event.agent_id} is gone: {event.reason}", now)

    def _lost(self, agent: Agent, reason: str, now: float) -> list[Effect]:
        self._agents.remove(agent.agent_id)
        note = Note("agent lost", (("agent", agent.agent_id), ("why", reason)))
        failed = self._progress.agent_lost(agent.agent_id, reason, now)
        return [note, *failed, *self._tell_everything(self._agents.all())]

    def _said(self, event: AgentSaid, now: float) -> list[Effect]:
        agent = self._agents.on_session(event.agent_id, event.session)
        if agent is None:
            return self._refuse("old session")
        agent.seen = max(agent.seen, now)
        message = event.message
        match message.WhichOneof("kind"):
            case "heartbeat":
                if message.heartbeat.sequence >= agent.beat.sequence:
                    agent.beat = message.heartbeat
                return []
            case "task":
                return self._progress.task_report(agent, message.task, now)
            case "sink":
                return self._progress.sink_report(agent, message.sink, now)
            case "goodbye":
                reason = f"agent {agent.agent_id} left: {message.goodbye.reason or 'stopped'}"
                return self._lost(agent, reason, now)
            case _:
                return self._refuse("unknown message")

    def _dataset(self, event: DatasetAsked) -> list[Effect]:
        request, catalogue = event.request, self._catalogue
        reply = pb.DatasetReply(addresses=self.addresses())
        writes: list[Write] = []
        changed = pb.Locations()
        match request.WhichOneof("kind"):
            case "begin":
                agents = self._agents.ids()
                transaction, writes = catalogue.begin(
                    request.begin, event.transaction_id, agents, event.wall_s
                )
                reply.transaction = transaction.transaction
                reply.location.CopyFrom(transaction.location())
            case "commit":
                location, writes, new = catalogue.commit(request.commit)
                reply.transaction = request.commit.transaction
                reply.location.CopyFrom(location)
                changed.datasets.extend([new] if new is not None else [])
            case "abort":
                writes = catalogue.abort(request.abort.transaction)
            case "drop":
                writes = catalogue.drop(request.drop.name)
                changed.dropped_datasets.append(request.drop.name)
            case "list":
                reply.datasets.extend(catalogue.all())
            case _:
                raise NotFoundError("a dataset request says begin, commit, abort, drop or list")
        effects: list[Effect] = [Persist(tuple(writes))] if writes else []
        if changed.datasets or changed.dropped_datasets:
            effects += self._announcer.tell(changed)
        return [*effects, DatasetAnswered(reply)]

    def _refuse(self, reason: str) -> list[Effect]:
        self.refused[reason] += 1
        return []

    def _tell_everything(self, agents: list[Agent]) -> list[Effect]:
        table = pb.Locations(
            full=True,
            edges=self._progress.all_edges(),
            datasets=self._catalogue.all(),
            addresses=self.addresses(),
            sockets=self._agents.sockets(),
        )
        return self._announcer.tell(table, agents)


def _agent_status(agent: Agent, now: float) -> pb.AgentStatus:
    return pb.AgentStatus(
        agent_id=agent.agent_id,
        address=agent.hello.address,
        state="attached",
        slots=agent.hello.slots,
        running_tasks=agent.beat.running_tasks,
        stored_bytes=agent.beat.stored_bytes,
        rss_bytes=agent.beat.rss_bytes,
        seen_s_ago=max(0.0, now - agent.seen),
    )
