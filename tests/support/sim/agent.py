"""A simulated agent process around the real core.

One job: what `AgentRuntime` and `AgentProcess` do, in simulated time: keep the link up, beat, obey
the core's effects. Tasks are in `worker.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fabric.agent.background import report_of
from fabric.agent.core import AgentCore
from fabric.agent.events import (
    AbandonSinks,
    Cancel,
    DropJob,
    DropOutput,
    DropPipes,
    Effect,
    Event,
    Fetch,
    Incoming,
    LeaseOver,
    Outgoing,
    Relocate,
    RunSink,
    Send,
    Start,
    TaskEnd,
)
from fabric.agent.runtime import LEASE_SHARE
from fabric.control import control_pb2 as pb
from fabric.control.errors import to_detail
from fabric.errors import FabricError, InternalError
from fabric.flight.locations import LocationTable
from fabric.ids import TaskId
from tests.support.sim.adoption import Adoption
from tests.support.sim.coordinator import CoordinatorProcess
from tests.support.sim.invariants import Invariants
from tests.support.sim.network import Network
from tests.support.sim.outside import Outside
from tests.support.sim.parts import Parts
from tests.support.sim.party import Party
from tests.support.sim.scheduler import Step
from tests.support.sim.session import End, Session
from tests.support.sim.shelf import Place, Read, Rows
from tests.support.sim.trace import Trace
from tests.support.sim.worker import Trouble, Worker

AGENT = 0
"""The agent's side of a session."""
RETRY_S = (0.05, 0.6)
"""Between two attempts to attach."""
WELCOME_S = 5.0
CLOCK_S = 1e-6
"""Time goes by before a clock is looked at again."""


class AgentProcess(Party):
    """One agent; everything it holds is gone when it dies, its id stays."""

    def __init__(
        self,
        name: str,
        network: Network,
        trace: Trace,
        *,
        slots: int,
        coordinators: Sequence[CoordinatorProcess],
        parts: Parts,
        outside: Outside,
        invariants: Invariants,
        trouble: Trouble,
    ) -> None:
        super().__init__(name, network.scheduler, trace)
        self.network, self.outside = network, outside
        self.invariants, self.trouble = invariants, trouble
        self.slots, self.overloaded = slots, 0.0
        self._coordinators, self._parts = coordinators, parts

    # ---- life

    def boot(self) -> None:
        """See `Party.boot`."""
        self.core: AgentCore = self._parts.agent_core(self.slots)
        self.shelf = self._parts.shelf()
        self.table = LocationTable()
        self.workers: dict[TaskId, Worker] = {}
        self.session: Session | None = None
        self.lease = self._parts.lease()
        self._turn = self._n_numbers = self._n_waits = 0
        self._connect()

    def new_number(self) -> int:
        """One that this life has not given before."""
        self._n_numbers += 1
        return self._n_numbers

    def serve(self, request: Any, answer: Callable[[Any], None]) -> None:
        """Answer another party's `Read`."""
        if not isinstance(request, Read):
            raise InternalError(f"nobody answers {request}")
        answer(self.look(request))

    def look(self, request: Read) -> Rows | None:
        """What is on this agent's shelf; raises `PartitionLostError`."""
        if request.n_taken is None:
            return self.shelf.read(request.place, request.partition)
        return self.shelf.take(request.place, request.partition, request.n_taken)

    # ---- the link

    def _connect(self) -> None:
        """Try the coordinators in turn, until one says welcome."""
        target = self._coordinators[self._turn % len(self._coordinators)]
        self._turn += 1
        self.session = session = self._open(target)
        if not target.alive:
            self.after(self.network.delay_s(), lambda: self._broken(session, "refused"))
        self._hello_s = self.monotonic_s()
        session.send(AGENT, pb.AgentMessage(hello=self._hello()))
        self.after(WELCOME_S, lambda: self._expect_welcome(session))

    def _open(self, target: CoordinatorProcess) -> Session:
        line = Line(target, self.name)
        mine = End(self, lambda m: self._take(session, m), lambda why: self._broken(session, why))
        session = Session(self.network, (mine, End(target, line.take, line.broken)))
        line.session = session
        self._welcomed = False
        return session

    def _hello(self) -> pb.Hello:
        address = f"grpc+tcp://{self.name}"
        return pb.Hello(
            agent_id=self.name,
            address=address,
            cpus=self.slots,
            slots=self.slots,
            epoch=self.core.epoch,
            tasks=self.core.inventory(),
        )

    def _expect_welcome(self, session: Session) -> None:
        if session is self.session and not self._welcomed:
            session.close(AGENT)
            self._broken(session, "no welcome came")

    def _take(self, session: Session, message: pb.CoordinatorMessage) -> None:
        if session is not self.session:
            return
        kind = message.WhichOneof("kind")
        if kind == "welcome" and not self._welcomed:
            self._welcomed = True
            self._heartbeat_s = message.welcome.heartbeat_s
            self.lease.begin(message.welcome.timeout_s * LEASE_SHARE, self._hello_s)
            self.after(self._heartbeat_s, lambda: self._beat(session))
        if kind != "heard" or self.lease.acknowledged(message.heard.sequence):
            self.handle(Incoming(message))

    def _broken(self, session: Session, why: str) -> None:
        if session is not self.session:
            return
        self.say(f"has lost its link: {why}")
        self.session = None
        self.after(self.scheduler.rng.uniform(*RETRY_S), self._connect)

    def _beat(self, session: Session) -> None:
        if session is not self.session:
            return
        number = self.lease.beat(self.monotonic_s())
        beat = pb.Heartbeat(
            sequence=number,
            running_tasks=self.core.running,
            overloaded=self.scheduler.chance(self.overloaded),
        )
        session.send(AGENT, pb.AgentMessage(heartbeat=beat))
        self.after(self._heartbeat_s, lambda: self._beat(session))

    def _watch_lease(self) -> None:
        """Each event of the core is followed by a wait until the lease ends, or the next event."""
        left_s = self.lease.left_s(self.monotonic_s())
        if left_s is not None:
            self._n_waits += 1
            number = self._n_waits
            self.after(left_s + CLOCK_S, lambda: self._look_at_lease(number))

    def _look_at_lease(self, number: int) -> None:
        if number != self._n_waits:
            return
        if self.lease.ends_now(self.monotonic_s()):
            self.say("its lease is over")
            self.handle(LeaseOver("no word from the coordinator for too long"))
        else:
            self._watch_lease()

    # ---- the core

    def handle(self, event: Event) -> None:
        """Move the core and obey it."""
        for effect in self.core.handle(event):
            self.spend()
            self._obey(effect)
        self.invariants.moved(self)
        self._watch_lease()

    def _obey(self, effect: Effect) -> None:
        match effect:
            case Start(spec=spec):
                self.say(f"runs {spec.id}")
                self.workers[spec.id] = worker = self._parts.worker(self, spec)
                worker.start()
            case Cancel(id=task_id, reason=reason):
                if (worker := self.workers.get(task_id)) is not None:  # type: ignore[assignment]
                    worker.cancel(reason)
            case Send(message=message):
                if self.session is not None and self._welcomed:  # else nobody takes it
                    self.session.send(AGENT, message)
            case Relocate(locations=locations):
                for job in self.table.apply(locations).dropped_jobs:
                    release = pb.CoordinatorMessage(
                        release=pb.ReleaseJob(job_id=job), epoch=self.core.epoch
                    )
                    self.after(0.0, partial(self.handle, Incoming(release)))
            case RunSink(command=command):
                self._later(lambda: self._run_sink(command))
            case AbandonSinks(handles=handles, attempts=attempts):
                remove = self.outside.drop if attempts else self.outside.abandon
                self._later(lambda: remove(handles))
            case _:
                self._keep(effect)

    def _keep(self, effect: Effect) -> None:
        """What has to do with partitions."""
        match effect:
            case DropJob(job=job):
                self.shelf.release(job)
            case DropOutput(id=task, edges=edges):
                for edge in edges:
                    self.shelf.discard(Place(task.job, edge, task.task, task.attempt))
            case DropPipes(job=job):
                self.shelf.drop_pipes(job)
            case Fetch(adopt=adopt):
                Adoption(self, adopt).start()

    def _later(self, action: Step) -> None:
        """In the thread of the sinks."""
        self.after(self.scheduler.rng.uniform(0.0, 0.05), action)

    def _run_sink(self, command: pb.SinkCommand) -> None:
        verb = command.WhichOneof("verb")
        if verb == "drop":  # nobody waits for it
            self.outside.drop(command.handles)
            return
        report = report_of(command)
        try:
            if verb == "publish":
                self.outside.publish(command.handles)
                self.invariants.published(self.name, command.handles)
            elif command.fragment:
                self.outside.discard(command.job_id, command.stage)
            else:
                self.outside.abandon(command.handles)
        except FabricError as error:
            report.error.CopyFrom(to_detail(error))
        self._later(lambda: self.handle(Outgoing(pb.AgentMessage(sink=report))))

    def ended(self, task_id: TaskId, report: pb.TaskReport) -> None:
        """A task has ended; its thread is gone."""
        self.workers.pop(task_id, None)
        self.say(f"{task_id} {pb.TaskState.Name(report.state)[5:].lower()} {report.error.message}")
        self.handle(TaskEnd(report))


class Line:
    """The coordinator's end of one agent's session."""

    def __init__(self, coordinator: CoordinatorProcess, agent_id: str) -> None:
        self._coordinator, self._agent_id = coordinator, agent_id
        self._life, self._number = coordinator.life, 0
        self.session: Session | None = None

    def take(self, message: pb.AgentMessage) -> None:
        """The first message is a hello."""
        assert self.session is not None
        if message.WhichOneof("kind") == "hello":
            if self._number == 0:
                self._number = self._coordinator.accept(self.session, message.hello)
        elif self._number:
            self._coordinator.receive(self._agent_id, self._number, message)

    def broken(self, reason: str) -> None:
        """The agent's link is gone."""
        if self._number and self._life == self._coordinator.life:
            self._coordinator.detach(self._agent_id, self._number, reason)
