"""A model of one agent around the real `AgentCore`, and of its link to the coordinator.

One job: what `AgentRuntime` does, in simulated time, as far as streams need it: keep a link up,
beat, mind the lease, obey the core. It may be killed, and begins anew then, with nothing; its link
may be cut, and its tasks go on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from fabric.agent.background import report_of
from fabric.agent.core import AgentCore
from fabric.agent.events import (
    Cancel,
    DropJob,
    DropPipes,
    Effect,
    Event,
    Incoming,
    LeaseOver,
    OrderTask,
    Outgoing,
    RunSink,
    Send,
    Start,
    TaskEnd,
)
from fabric.agent.heartbeat import Lease
from fabric.agent.runtime import LEASE_SHARE
from fabric.control import control_pb2 as pb
from fabric.control.errors import to_detail
from fabric.errors import ExternalError
from fabric.ids import TaskId
from tests.support.sim.scheduler import Scheduler, Step
from tests.support.sim.stream_outside import Outside
from tests.support.sim.stream_worker import Pipes, StreamWorker

DELAY_S = (0.001, 0.08)
RETRY_S = (0.05, 0.6)


class Link:
    """Both ways between an agent and a coordinator: what is sent comes in order, or never."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._due_s = scheduler, [0.0, 0.0]
        self.is_open = True

    def send(self, way: int, step: Step) -> None:
        """Do `step` at the other end, unless the link is cut by then."""
        delay_s = self._scheduler.rng.uniform(*DELAY_S)
        due_s = max(self._due_s[way] + 1e-6, self._scheduler.now + delay_s)
        self._due_s[way] = due_s
        self._scheduler.after(due_s - self._scheduler.now, partial(self._arrive, step))

    def _arrive(self, step: Step) -> None:
        if self.is_open:
            step()


class Fabric(Protocol):
    """What an agent knows of all others."""

    scheduler: Scheduler
    outside: Outside

    def chance(self, probability: float) -> bool:
        """Whether a fault of that probability happens now."""

    def pipes_of(self, agent_id: str) -> Pipes | None:
        """The pipelined edges on an agent, which its neighbours pull from."""

    def attach(self, agent: StreamAgent, link: Link, hello: pb.Hello) -> None:
        """An agent says hello."""

    def heard(self, agent_id: str, session: int, message: pb.AgentMessage) -> None:
        """An agent says something."""

    def starts(self, agent: StreamAgent, worker: StreamWorker) -> None:
        """A task is about to begin."""


class StreamAgent:
    """The agent `name`; `life` grows when it is killed."""

    def __init__(self, name: str, fabric: Fabric, slots: int) -> None:
        self.name, self._fabric, self._slots = name, fabric, slots
        self.scheduler, self.outside, self.chance = fabric.scheduler, fabric.outside, fabric.chance
        self.pipes_of = fabric.pipes_of
        self.life, self.alive = 0, False

    def boot(self) -> None:
        """Begin, with nothing."""
        self.alive = True
        self.core, self.lease = AgentCore(self._slots), Lease()
        self.workers: dict[TaskId, StreamWorker] = {}
        self.pipes: Pipes | None = None
        self.link: Link | None = None
        self.session = 0
        """The coordinator's number for the link; 0: it has said no welcome."""
        self._sinks_s = 0.0
        """When its sinks are done with all that they were told."""
        self._connect()
        self._beat()

    def kill(self) -> None:
        """It is gone, with its tasks, and nobody is told."""
        self.alive, self.life, self.pipes = False, self.life + 1, None
        for worker in self.workers.values():
            worker.is_over = worker.pipes.cancelled = True
        if self.link is not None:
            self.link.is_open = False

    def later(self, delay_s: float, step: Step) -> None:
        """Do `step` after a while, in this life."""
        life = self.life
        self.scheduler.after(delay_s, lambda: step() if self.life == life else None)

    # ---- the link

    def _connect(self) -> None:
        self.link, self.session = Link(self.scheduler), 0
        self._hello_s = self.scheduler.now
        hello = pb.Hello(
            agent_id=self.name, address=f"grpc+tcp://{self.name}", cpus=2, slots=self._slots,
            epoch=self.core.epoch, tasks=self.core.inventory(),
        )  # fmt: skip
        self._fabric.attach(self, self.link, hello)

    def broken(self, link: Link) -> None:
        """A link is gone: another one is tried after a while."""
        link.is_open = False
        if self.alive and link is self.link:
            self.link, self.session = None, 0
            self.later(self.scheduler.rng.uniform(*RETRY_S), self._connect)

    def take(self, link: Link, session: int, message: pb.CoordinatorMessage) -> None:
        """The coordinator says something."""
        if link is not self.link:
            return
        match message.WhichOneof("kind"):
            case "welcome":
                self.session = session
                self.lease.begin(message.welcome.timeout_s * LEASE_SHARE, self._hello_s)
            case "heard":
                if not self.lease.acknowledged(message.heard.sequence):
                    return
        self.handle(Incoming(message))

    def _beat(self) -> None:
        now = self.scheduler.now
        if self.session:
            beat = pb.Heartbeat(sequence=self.lease.beat(now), running_tasks=self.core.running)
            self.say(pb.AgentMessage(heartbeat=beat))
        if self.lease.ends_now(now):
            self.handle(LeaseOver("no word from the coordinator for too long"))
        self.later(0.8, self._beat)

    def say(self, message: pb.AgentMessage) -> None:
        """Tell the coordinator, if there is a link."""
        if self.link is not None and self.session:
            session, heard = self.session, self._fabric.heard
            self.link.send(0, lambda: heard(self.name, session, message))

    # ---- the core

    def handle(self, event: Event) -> None:
        """Move the core and obey it."""
        for effect in self.core.handle(event):
            self._obey(effect)

    def _obey(self, effect: Effect) -> None:
        match effect:
            case Start(spec=spec):
                if self.pipes is None:
                    self.pipes = Pipes()
                worker = StreamWorker(self, spec, self.pipes)
                self._fabric.starts(self, worker)
                self.workers[spec.id] = worker
            case Cancel(id=task_id):
                if (running := self.workers.get(task_id)) is not None:
                    running.cancel()
                if self.pipes is not None:
                    self.pipes.cancelled = True
            case OrderTask(id=task_id, order=order):
                if (running := self.workers.get(task_id)) is not None:
                    running.order(order)
            case Send(message=message):
                self.say(message)
            case DropPipes() | DropJob():
                if self.pipes is not None:
                    self.pipes.cancelled, self.pipes = True, None
            case RunSink(command=command):
                now = self.scheduler.now
                self._sinks_s = max(self._sinks_s, now) + self.scheduler.rng.uniform(1e-6, 0.15)
                self.later(self._sinks_s - now, lambda: self._run_sink(command))

    def ended(self, worker: StreamWorker, event: TaskEnd) -> None:
        """The thread of a task is gone."""
        del self.workers[worker.spec.id]
        self.handle(event)

    def _run_sink(self, command: pb.SinkCommand) -> None:
        """Publishing and removing may fail, before or after it was done."""
        report, outside, handles = report_of(command), self.outside, list(command.handles)
        verb = command.WhichOneof("verb")
        of_checkpoint = command.publish.checkpoint or command.take_back.checkpoint
        fails = bool(of_checkpoint) and self.chance(0.08)
        done: dict[str, Callable[[], None]] = {
            "publish": lambda: outside.publish(handles),
            "take_back": lambda: outside.take_back(handles, list(command.take_back.kept)),
            "drop": lambda: outside.drop(handles, list(command.drop.kept)),
            "abandon": outside.discard,
        }
        if not fails or self.chance(0.5):
            if command.fragment:  # the job has ended
                outside.discard()
            else:
                done[verb or ""]()
        if fails:
            report.error.CopyFrom(to_detail(ExternalError("the sink is away")))
        if verb != "drop":
            self.handle(Outgoing(pb.AgentMessage(sink=report)))
