"""What an agent does for the coordinator besides tasks: sinks, transfers, and files to remove.

One job: `BackgroundWork`, which carries out what may take long, in three threads: sinks and fetched
output; sinks of other systems, which may be away, and files do not wait for these; and replicas of
datasets. Whoever waits for it is told by an event.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from queue import SimpleQueue

from fabric import failpoints
from fabric.agent.engine import Services
from fabric.agent.events import (
    AbandonSinks,
    CopyReplica,
    Effect,
    Event,
    Fetch,
    Fetched,
    KeepPartitions,
    Outgoing,
    RunSink,
)
from fabric.agent.transfers import DatasetReplication, fetch_output
from fabric.control import control_pb2 as pb
from fabric.control.errors import to_detail
from fabric.errors import InternalError
from fabric.flight.transport import DatasetStore
from fabric.io import sinks
from fabric.operators.expressions.errors import as_fabric
from fabric.plan.nodes import Sink
from fabric.plan.targets import Target
from fabric.telemetry.logs import logger

_log = logger("fabric.agent")

CLOSE_S = 30.0
"""How long `close` waits for the work under way."""

Work = Callable[[], None]


class BackgroundWork:
    """The work of one agent; events go by `report`, datasets are reached within `reach`."""

    def __init__(
        self,
        services: Services,
        datasets: DatasetStore | None,
        report: Callable[[Event], None],
        reach: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._services, self._datasets = services, datasets
        self._report, self._reach = report, reach
        self._closed = False
        self._sinks: SimpleQueue[Work | None] = SimpleQueue()
        self._outside: SimpleQueue[Work | None] = SimpleQueue()
        """Sinks of other systems."""
        self._replicas: SimpleQueue[Work | None] = SimpleQueue()
        self._queues = self._sinks, self._outside, self._replicas
        names = "sinks", "sinks outside", "replicas"
        self._threads = [self._worker(*each) for each in zip(names, self._queues, strict=True)]

    def start(self) -> None:
        """Begin to work."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let a copy under way end at its next batch."""
        self._closed = True

    def close(self) -> None:
        """Finish what was ordered, in each thread for `CLOSE_S` at most, and end."""
        for queue, thread in zip(self._queues, self._threads, strict=True):
            queue.put(None)
            thread.join(CLOSE_S)

    def obey(self, effect: Effect) -> None:
        """Carry out an effect, in a thread."""
        match effect:
            case Fetch(adopt=adopt):
                self._sinks.put(lambda: self._fetch(adopt))
            case RunSink(command=command):
                queue = self._outside if command.plan else self._sinks
                queue.put(lambda: self._run_sink(command))
            case AbandonSinks(handles=handles, attempts=attempts):
                remove = sinks.drop if attempts else sinks.abandon
                self._sinks.put(lambda: remove(handles))
            case CopyReplica(order=order):
                self._replicas.put(lambda: self._copy(order))
            case KeepPartitions(order=kept):
                self._replicas.put(lambda: self._replication().keep(kept))
            case _:  # nobody listens any more
                return

    def discard(self, datasets: DatasetStore, name: str, transaction: str) -> None:
        """Remove what a transaction left in the files of a dataset here."""
        self._sinks.put(lambda: datasets.discard(name, transaction))

    def _worker(self, name: str, queue: SimpleQueue[Work | None]) -> threading.Thread:
        name = f"{name} {self._services.agent_id}"
        return threading.Thread(target=self._run, args=(queue,), name=name, daemon=True)

    def _run(self, queue: SimpleQueue[Work | None]) -> None:
        while (work := queue.get()) is not None:
            try:
                with self._reach():
                    work()
            except Exception:
                _log.exception("work for the coordinator failed", agent=self._services.agent_id)

    def _run_sink(self, command: pb.SinkCommand) -> None:
        verb = command.WhichOneof("verb")
        if verb == "drop":  # nobody waits for it
            sinks.drop(command.handles, command.drop.kept, self._target_of(command))
            return
        report = report_of(command)
        try:
            target = self._target_of(command)
            if verb == "publish":
                failpoints.reach("agent.publishing")
            if command.fragment:
                self._discard(command, published=verb == "publish")
            elif verb == "publish":
                sinks.publish(command.handles, target)
            elif verb == "take_back":
                sinks.take_back(command.handles, command.take_back.kept, target)
            else:
                sinks.abandon(command.handles, target)
            if verb == "publish":
                failpoints.reach("agent.published")
        except Exception as error:
            report.error.CopyFrom(to_detail(as_fabric(error)))
        self._report(Outgoing(pb.AgentMessage(sink=report)))

    def _discard(self, command: pb.SinkCommand, *, published: bool) -> None:
        """Remove whatever a sink's stage has written aside, known or not."""
        root = self._services.engine.decode(command.fragment)
        if isinstance(root, Sink):
            state, stage, folder = command.state, command.stage, command.folder
            sinks.discard(root.target, state, stage, folder, published=published)

    def _target_of(self, command: pb.SinkCommand) -> Target | None:
        """Where a sink writes, with its credentials, if it needs any."""
        root = self._services.engine.decode(command.plan) if command.plan else None
        return root.target if isinstance(root, Sink) else None

    def _copy(self, order: pb.Replicate) -> None:
        report = pb.Replicated(number=order.number)
        try:
            self._replication().replicate(order)
        except Exception as error:
            report.error.CopyFrom(to_detail(as_fabric(error)))
        self._report(Outgoing(pb.AgentMessage(replicated=report)))

    def _replication(self) -> DatasetReplication:
        if self._datasets is None:
            raise InternalError("this agent keeps no datasets")
        return DatasetReplication(self._datasets, self._services.transport, lambda: self._closed)

    def _fetch(self, adopt: pb.Adopt) -> None:
        try:
            done = Fetched(
                adopt, fetch_output(adopt, self._services.store, self._services.transport)
            )
        except Exception as error:
            done = Fetched(adopt, error=to_detail(as_fabric(error)))
        self._report(done)


def report_of(command: pb.SinkCommand) -> pb.SinkReport:
    """The report of a command that was carried out."""
    report = pb.SinkReport(job_id=command.job_id, stage=command.stage, node_path=command.node_path)
    match command.WhichOneof("verb"):
        case "publish":
            report.published.CopyFrom(command.publish)
        case "take_back":
            report.taken_back.checkpoint = command.take_back.checkpoint
        case _:
            report.abandoned.SetInParent()
    return report
