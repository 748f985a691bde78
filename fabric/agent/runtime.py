"""One agent at work: the core's decisions carried out with threads, store and link.

One job: run `AgentCore` in one thread ("agent <id>"), have its decisions carried out by
`TaskThreads` and `BackgroundWork`, and hand messages between them and the coordinator's link. The
same object serves embedded agents and agent processes. After `close()` no thread of it is left.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from queue import Empty, SimpleQueue
from typing import TypeVar

from fabric import failpoints
from fabric._cython.shuffle.exchange.exchanges import JobPipes
from fabric.agent.background import BackgroundWork
from fabric.agent.core import AgentCore
from fabric.agent.engine import Services
from fabric.agent.events import (
    Cancel,
    DropJob,
    DropOutput,
    DropPipes,
    Effect,
    Event,
    Incoming,
    LeaseOver,
    OrderTask,
    Relocate,
    Send,
    Start,
    TaskEnd,
)
from fabric.agent.heartbeat import Lease, is_overloaded, meminfo
from fabric.agent.tally import TaskTally
from fabric.agent.task_threads import TaskThreads
from fabric.control import control_pb2 as pb
from fabric.control.link import AgentLink, OnLost
from fabric.errors import FabricError
from fabric.flight.locations import LocationTable
from fabric.flight.transport import DatasetStore
from fabric.io.dataset.access import DatasetAccess, use
from fabric.process import resident_bytes
from fabric.telemetry.logs import logger

_log = logger("fabric.agent")
T = TypeVar("T")

LEASE_SHARE = 0.9
"""Of the time after which the coordinator gives an agent up: tasks need a moment to stop."""
LEAVE_S = 10.0
"""How long `close` waits for tasks: a function that hangs in C code never comes back."""


class AgentRuntime:
    """An agent: `start` attaches it, `close` stops everything it began."""

    def __init__(
        self,
        *,
        hello: pb.Hello,
        link: AgentLink,
        services: Services,
        locations: LocationTable | None = None,
        datasets: DatasetStore | None = None,
        on_lost: OnLost | None = None,
        access: DatasetAccess | None = None,
        served: JobPipes | None = None,
        on_locations: Callable[[pb.Locations], None] | None = None,
    ) -> None:
        self.hello, self._services = hello, services
        self.agent_id, self.store = hello.agent_id, services.store
        self.locations = locations or LocationTable()
        self._datasets, self._access = datasets, access
        self._link, self._lost = link, on_lost or _forget
        self._on_locations = on_locations
        self._inbox: SimpleQueue[Event | Callable[[], None] | None] = SimpleQueue()
        self._tasks = TaskThreads(
            self._services, served or JobPipes(), self._inbox.put, self._datasets_reached
        )
        self._background = BackgroundWork(
            self._services, datasets, self._inbox.put, self._datasets_reached
        )
        self._core = AgentCore(hello.slots)
        self._lease, self._opened_s = Lease(), 0.0
        self._n_running = self._n_events = 0
        self.thread = threading.Thread(
            target=self._loop, name=f"agent {self.agent_id}", daemon=True
        )
        self._detached = self._closed = False

    # ---- life

    def start(self) -> None:
        """Begin to work; what there is to do comes once `attach` was called."""
        self.thread.start()
        self._background.start()

    def attach(self) -> None:
        """Open the link, also again after it was lost; raises when there is no coordinator.

        What runs and lies here is part of the hello, so that the coordinator can go on with it.
        """
        hello = pb.Hello()
        hello.CopyFrom(self.hello)
        stock = self._asked(lambda: (self._core.epoch, self._core.inventory()))
        hello.epoch, tasks = stock.get()
        hello.tasks.extend(tasks)
        self._opened_s = self._services.clock.monotonic_s()
        self._link.open(hello, self._on_message, self._lost, self.beat)

        failpoints.reach("agent.attaching")

    def sign(self) -> SimpleQueue[None]:
        """Where the agent's thread puts something as soon as it gets there."""
        return self._asked(lambda: None)

    def _asked(self, question: Callable[[], T]) -> SimpleQueue[T]:
        """Where the agent's thread puts its answer."""
        answers: SimpleQueue[T] = SimpleQueue()
        self._inbox.put(lambda: answers.put(question()))
        return answers

    def detach(self) -> None:
        """Say goodbye: the coordinator sends nothing more. Tasks and partitions stay."""
        if not self._detached:
            self._detached = True
            self._link.close()

    def close(self) -> None:
        """Detach, stop every task and wait for all threads; further calls do nothing."""
        self.detach()
        if self._closed:
            return
        self._closed = True
        self._background.stop()
        self._inbox.put(None)
        self.thread.join()
        self._background.close()
        self._tasks.close()

    def __enter__(self) -> AgentRuntime:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def running_tasks(self) -> int:
        """Tasks that have a thread now."""
        return self._n_running

    @property
    def tally(self) -> TaskTally:
        """What its tasks have done."""
        return self._services.tally

    @property
    def n_events(self) -> int:
        """How much has happened here: grows with every order and every end of a task."""
        return self._n_events

    def beat(self) -> pb.Heartbeat:
        """What a heartbeat says, which is to be sent now; any thread may ask."""
        slots, running = self._services.slots, self._n_running
        rss_bytes = resident_bytes() + (slots.resident_bytes() if slots is not None else 0)
        return pb.Heartbeat(
            sequence=self._lease.beat(self._services.clock.monotonic_s()),
            running_tasks=running,
            stored_bytes=self.store.stored_bytes,
            rss_bytes=rss_bytes,
            overloaded=is_overloaded(running, rss_bytes, self.hello.memory_bytes, meminfo()),
        )

    # ---- the agent's thread

    def _on_message(self, message: pb.CoordinatorMessage) -> None:
        match message.WhichOneof("kind"):
            case "heard":  # the lease must not wait behind what the agent's thread does
                if not self._lease.acknowledged(message.heard.sequence):
                    return
            case "welcome":
                self._lease.begin(message.welcome.timeout_s * LEASE_SHARE, self._opened_s)
        self._inbox.put(Incoming(message))

    def _loop(self) -> None:
        while (event := self._next()) is not None:
            failpoints.reach("agent.turning")
            try:
                if callable(event):
                    event()
                else:
                    self._handle(event)
            except Exception:  # a bug; the other jobs of this agent must go on
                _log.exception("an agent's event failed", agent=self.agent_id)
        for job in self.store.jobs() | self._tasks.jobs():
            self._handle(self._released(job))
        self._join_tasks()

    def _next(self) -> Event | Callable[[], None] | None:
        """The next event or question; the end of the lease is one."""
        clock = self._services.clock
        while True:
            try:
                return self._inbox.get(timeout=self._lease.left_s(clock.monotonic_s()))
            except Empty:
                if self._lease.ends_now(clock.monotonic_s()):
                    _log.warning("lease over", agent=self.agent_id)
                    return LeaseOver(
                        "no word from the coordinator for too long: others may have the task now"
                    )

    def _join_tasks(self) -> None:
        self._tasks.join_all(LEAVE_S)
        while not self._inbox.empty():
            event = self._inbox.get()
            if event is not None and not callable(event):
                self._handle(event)

    def _handle(self, event: Event) -> None:
        if isinstance(event, TaskEnd):
            self._tasks.join(event.report)
        for effect in self._core.handle(event):
            try:
                self._obey(effect)
            except FabricError as error:  # a broken link; its loss is told elsewhere
                _log.warning("an agent's step failed", step=type(effect).__name__, error=str(error))
        self._n_running = self._core.running
        self._n_events += 1

    def _obey(self, effect: Effect) -> None:
        match effect:
            case Start(spec=spec):
                self._tasks.start(spec)
            case Cancel(id=task_id, reason=reason):
                self._tasks.cancel(task_id, reason)
            case OrderTask(id=task_id, order=order):
                self._tasks.order(task_id, order)
            case Send(message=message) if not self._detached:
                self._link.send(message)
            case DropJob(job=job):
                self._drop(job)
            case DropOutput(id=task_id, edges=edges):
                for edge in edges:
                    self.store.discard(task_id.job, edge, task_id.task, task_id.attempt)
            case DropPipes(job=job):
                self._tasks.drop_pipes(job, "its tasks run again")
            case Relocate(locations=locations):
                self._relocate(locations)
            case _:
                self._background.obey(effect)

    def _drop(self, job: str) -> None:
        self.tally.forget(job)
        self.store.release(job)  # first: to close an exchange may take a moment
        self._tasks.drop_pipes(job, "the job was released")
        if self._services.slots is not None:
            self._services.slots.release(job)

    def _released(self, job: str) -> Incoming:
        """As if the coordinator had said it."""
        release = pb.ReleaseJob(job_id=job)
        return Incoming(pb.CoordinatorMessage(release=release, epoch=self._core.epoch))

    def _relocate(self, locations: pb.Locations) -> None:
        changes = self.locations.apply(locations)
        if self._on_locations is not None and changes.applied:
            self._on_locations(locations)
        for job in changes.dropped_jobs:
            self._inbox.put(self._released(job))
        if self._datasets is not None:
            # A whole table may have been made before a commit whose answer we have: what it only
            # does not name is left to the sweep.
            said = set(locations.dropped_datasets)
            for dataset in (d for d in changes.dropped_datasets if d.name in said):
                for transaction in {part.transaction for part in dataset.parts}:
                    self._background.discard(self._datasets, dataset.name, transaction)

    def _datasets_reached(self) -> AbstractContextManager[None]:
        """Within the block, this thread reads and writes the fabric's datasets."""
        return use(self._access) if self._access is not None else nullcontext()


def _forget(error: FabricError) -> None:
    _log.warning("the link to the coordinator was lost", error=str(error))
