"""One agent at work: the core's decisions carried out with threads, store and link.

One job: run `AgentCore` in one thread ("agent <id>"), a thread per running task and one for sink
commands, and hand messages between them and the coordinator's link. The same object serves embedded
agents and agent processes. After `close()` no thread of it is left.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TypeVar

from fabric import failpoints
from fabric._cython.shuffle.exchange.exchanges import JobPipes
from fabric.agent.adopting import fetch_output
from fabric.agent.cancellation import Cancellation
from fabric.agent.copying import Copying
from fabric.agent.core import AgentCore
from fabric.agent.effects import (
    AbandonSinks,
    Cancel,
    CopyReplica,
    DropJob,
    DropOutput,
    DropPipes,
    Effect,
    Fetch,
    KeepPartitions,
    Relocate,
    RunSink,
    Send,
    Start,
    Tell,
)
from fabric.agent.engine import Engine
from fabric.agent.events import (
    Ended,
    Event,
    Fetched,
    LeaseOver,
    Said,
    SinkDone,
    Told,
)
from fabric.agent.exchanges import Exchanges
from fabric.agent.held import TaskSpec
from fabric.agent.interrupting import Interrupter
from fabric.agent.lease import Lease
from fabric.agent.load import is_overloaded, meminfo
from fabric.agent.pipe import Pipes
from fabric.agent.slot.pool import SlotPool
from fabric.agent.store import PartitionStore
from fabric.agent.streams.orders import Orders
from fabric.agent.tally import TaskTally
from fabric.agent.tasks import Services, TaskRun
from fabric.clock import Clock, SystemClock
from fabric.control import control_pb2 as pb
from fabric.control.errors import to_detail
from fabric.control.link import AgentLink, OnLost
from fabric.errors import FabricError, InternalError
from fabric.flight.locations import LocationTable
from fabric.flight.transport import DatasetStore, Transport
from fabric.heap import resident_bytes
from fabric.ids import EdgeId, TaskId
from fabric.io.dataset.access import DatasetAccess, use
from fabric.plan.nodes import Sink
from fabric.plan.sources import Target
from fabric.telemetry.logs import logger

_log = logger("fabric.agent")
T = TypeVar("T")

LEASE_SHARE = 0.9
"""Of the time after which the coordinator gives an agent up: tasks need a moment to stop."""
CLOSE_S = 30.0
"""How long `close` waits for what it told to stop."""
LEAVE_S = 10.0
"""The same for tasks: a function that hangs in C code never comes back."""

Work = Callable[[], None]


@dataclass(slots=True)
class _Running:
    cancellation: Cancellation
    orders: Orders
    thread: threading.Thread


class AgentRuntime:
    """An agent: `start` attaches it, `close` stops everything it began."""

    def __init__(
        self,
        *,
        hello: pb.Hello,
        link: AgentLink,
        transport: Transport,
        engine: Engine,
        store: PartitionStore | None = None,
        locations: LocationTable | None = None,
        datasets: DatasetStore | None = None,
        clock: Clock | None = None,
        on_lost: OnLost | None = None,
        access: DatasetAccess | None = None,
        served: JobPipes | None = None,
        told: Callable[[pb.Locations], None] | None = None,
        ring_bytes: int = 0,
        slots: SlotPool | None = None,
        scratch: Path | None = None,
    ) -> None:
        self.hello = hello
        self.agent_id = hello.agent_id
        self.store = store or PartitionStore(self.agent_id)
        self.locations = locations or LocationTable()
        self._datasets, self._access = datasets, access
        self._link, self._lost = link, on_lost or _forget
        self._told = told
        self._services = Services(
            agent_id=self.agent_id,
            store=self.store,
            transport=transport,
            engine=engine,
            clock=clock or SystemClock(),
            exchanges=Exchanges(self.agent_id, transport),
            ring_bytes=ring_bytes,
            slots=slots,
            scratch=scratch,
        )
        self._served = served or JobPipes()
        self._core = AgentCore(hello.slots)
        self._lease, self._opened_s = Lease(), 0.0
        self._inbox: SimpleQueue[Event | Callable[[], None] | None] = SimpleQueue()
        self._sinks: SimpleQueue[Work | None] = SimpleQueue()
        self._outside: SimpleQueue[Work | None] = SimpleQueue()
        """Sinks of other systems: they may be away, and files do not wait for these."""
        self._replicas: SimpleQueue[Work | None] = SimpleQueue()
        self._running: dict[TaskId, _Running] = {}
        self._interrupter = Interrupter()
        self._pipes: dict[str, Pipes] = {}
        self._n_running = self._n_events = 0
        self.thread = threading.Thread(
            target=self._loop, name=f"agent {self.agent_id}", daemon=True
        )
        self._queues = self._sinks, self._outside, self._replicas
        names = "sinks", "sinks outside", "replicas"
        workers = [self._worker(*each) for each in zip(names, self._queues, strict=True)]
        self._threads = [self.thread, *workers]
        self._detached = self._closed = False

    # ---- life

    def start(self) -> None:
        """Begin to work; what there is to do comes once `attach` was called."""
        for thread in self._threads:
            thread.start()

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
        self._inbox.put(None)
        self.thread.join()
        for queue, thread in zip(self._queues, self._threads[1:], strict=True):
            queue.put(None)
            thread.join(CLOSE_S)
        self._interrupter.close()

    def __enter__(self) -> AgentRuntime:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
                if not self._lease.heard(message.heard.sequence):
                    return
            case "welcome":
                self._lease.begin(message.welcome.timeout_s * LEASE_SHARE, self._opened_s)
        self._inbox.put(Said(message))

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
        for job in self.store.jobs() | self._pipes.keys() | {i.job for i in self._running}:
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
        deadline = self._services.clock.monotonic_s() + LEAVE_S
        for running in list(self._running.values()):
            running.thread.join(max(0.0, deadline - self._services.clock.monotonic_s()))
        while not self._inbox.empty():
            event = self._inbox.get()
            if event is not None and not callable(event):
                self._handle(event)

    def _handle(self, event: Event) -> None:
        if isinstance(event, Ended):
            self._forget_thread(event.report)
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
                self._start_task(spec)
            case Cancel(id=task_id, reason=reason):
                self._cancel_task(task_id, reason)
            case Tell(id=task_id, order=order):
                if running := self._running.get(task_id):
                    running.orders.put(order)
            case Send(message=message) if not self._detached:
                self._link.send(message)
            case DropJob(job=job):
                self._drop(job)
            case DropOutput(id=task_id, edges=edges):
                for edge in edges:
                    self.store.discard(EdgeId(task_id.job, edge), task_id.task, task_id.attempt)
            case DropPipes(job=job):
                self._drop_pipes(job, "its tasks run again")
            case Relocate(locations=locations):
                self._relocate(locations)
            case _:
                self._obey_aside(effect)

    def _obey_aside(self, effect: Effect) -> None:
        """What may take long, in a thread of its own."""
        match effect:
            case Fetch(adopt=adopt):
                self._sinks.put(lambda: self._fetch(adopt))
            case RunSink(command=command):
                queue = self._outside if command.plan else self._sinks
                queue.put(lambda: self._run_sink(command))
            case AbandonSinks(handles=handles, attempts=attempts):
                engine = self._services.engine
                remove = engine.drop if attempts else engine.abandon
                self._sinks.put(lambda: remove(handles))
            case CopyReplica(order=order):
                self._replicas.put(lambda: self._copy(order))
            case KeepPartitions(order=kept):
                self._replicas.put(lambda: self._copying().keep(kept))
            case _:  # nobody listens any more
                return

    def _start_task(self, spec: TaskSpec) -> None:
        cancellation = Cancellation()
        orders = Orders(lambda message: self._inbox.put(Told(message)))
        pipes = self._pipes_of(spec)
        run = TaskRun(spec, self._services, pipes, cancellation, orders)

        def work() -> None:
            with self._datasets_reached():
                report = run.run()
            failpoints.reach("agent.task-ran")
            self._inbox.put(Ended(report))

        thread = threading.Thread(target=work, name=f"task {spec.id}", daemon=True)
        self._running[spec.id] = _Running(cancellation, orders, thread)
        thread.start()

    def _pipes_of(self, spec: TaskSpec) -> Pipes:
        """The pipes of the task's job, joined with those of its producers on other agents."""
        job = spec.id.job
        if (pipes := self._pipes.get(job)) is None:
            pipes = self._pipes[job] = Pipes(job)
            self._served.add(job, pipes)
        for edge in spec.deploy.outputs:
            if edge.mode == pb.MODE_PIPELINED:
                self._served.begin(job, edge.edge, spec.id.task, spec.id.attempt)
        self._services.exchanges.open(spec.deploy, pipes)
        return pipes

    def _cancel_task(self, task_id: TaskId, reason: str) -> None:
        if running := self._running.get(task_id):
            running.cancellation.cancel(reason)
            if self._services.slots is None:  # else functions run in slots, which are killed
                self._interrupter.later(running.thread)
        if pipes := self._pipes.get(task_id.job):
            pipes.cancel(reason)

    def _forget_thread(self, report: pb.TaskReport) -> None:
        key = report.key
        task_id = TaskId(key.job_id, key.stage, key.task, key.attempt)
        if running := self._running.pop(task_id, None):
            running.thread.join()

    def _drop(self, job: str) -> None:
        self.tally.forget(job)
        self.store.release(job)  # first: to close an exchange may take a moment
        self._drop_pipes(job, "the job was released")
        if self._services.slots is not None:
            self._services.slots.release(job)

    def _drop_pipes(self, job: str, reason: str) -> None:
        if pipes := self._pipes.pop(job, None):
            self._served.remove(job)
            pipes.cancel(reason)
        self._services.exchanges.drop(job)

    def _released(self, job: str) -> Said:
        """As if the coordinator had said it."""
        release = pb.ReleaseJob(job_id=job)
        return Said(pb.CoordinatorMessage(release=release, epoch=self._core.epoch))

    def _relocate(self, locations: pb.Locations) -> None:
        changes = self.locations.apply(locations)
        if self._told is not None and changes.applied:
            self._told(locations)
        for job in changes.dropped_jobs:
            self._inbox.put(self._released(job))
        if self._datasets is not None:
            # A whole table may have been made before a commit whose answer we have: what it only
            # does not name is left to the sweep.
            said = set(locations.dropped_datasets)
            for dataset in (d for d in changes.dropped_datasets if d.name in said):
                for transaction in {part.transaction for part in dataset.parts}:
                    self._sinks.put(self._discarding(dataset.name, transaction))

    def _discarding(self, name: str, transaction: str) -> Work:
        datasets = self._datasets
        assert datasets is not None
        return lambda: datasets.discard(name, transaction)

    # ---- the threads of sinks and of replicas

    def _worker(self, name: str, queue: SimpleQueue[Work | None]) -> threading.Thread:
        return threading.Thread(
            target=self._work, args=(queue,), name=f"{name} {self.agent_id}", daemon=True
        )

    def _work(self, queue: SimpleQueue[Work | None]) -> None:
        while (work := queue.get()) is not None:
            try:
                with self._datasets_reached():
                    work()
            except Exception:
                _log.exception("work for the coordinator failed", agent=self.agent_id)

    def _datasets_reached(self) -> AbstractContextManager[None]:
        """Within the block, this thread reads and writes the fabric's datasets."""
        return use(self._access) if self._access is not None else nullcontext()

    def _run_sink(self, command: pb.SinkCommand) -> None:
        engine = self._services.engine
        if command.attempts:  # nobody waits for it
            engine.drop(command.handles, command.kept, self._target_of(command))
            return
        report = pb.SinkReport(
            job_id=command.job_id, stage=command.stage, published=command.publish,
            checkpoint=command.checkpoint,
        )  # fmt: skip
        try:
            target = self._target_of(command)
            if command.publish:
                failpoints.reach("agent.publishing")
            if command.fragment:
                job, stage, folder = command.job_id, command.stage, command.folder
                engine.discard(command.fragment, job, stage, folder, published=command.publish)
            elif command.publish:
                engine.publish(command.handles, target)
            elif command.checkpoint:
                engine.take_back(command.handles, command.kept, target)
            else:
                engine.abandon(command.handles, target)
            if command.publish:
                failpoints.reach("agent.published")
        except Exception as error:
            report.error.CopyFrom(to_detail(engine.as_fabric(error)))
        self._inbox.put(SinkDone(report))

    def _target_of(self, command: pb.SinkCommand) -> Target | None:
        """Where a sink writes, with its credentials, if it needs any."""
        root = self._services.engine.decode(command.plan) if command.plan else None
        return root.target if isinstance(root, Sink) else None

    def _copy(self, order: pb.Replicate) -> None:
        report = pb.Replicated(number=order.number)
        try:
            self._copying().replicate(order)
        except Exception as error:
            report.error.CopyFrom(to_detail(self._services.engine.as_fabric(error)))
        self._inbox.put(Told(pb.AgentMessage(replicated=report)))

    def _copying(self) -> Copying:
        if self._datasets is None:
            raise InternalError("this agent keeps no datasets")
        return Copying(self._datasets, self._services.transport, lambda: self._closed)

    def _fetch(self, adopt: pb.Adopt) -> None:
        try:
            done = Fetched(adopt, fetch_output(adopt, self.store, self._services.transport))
        except Exception as error:
            done = Fetched(adopt, error=to_detail(self._services.engine.as_fabric(error)))
        self._inbox.put(done)


def _forget(error: FabricError) -> None:
    _log.warning("the link to the coordinator was lost", error=str(error))
