"""One task attempt from its input to its report.

One job: get the input, run the fragment or chain, write to the edges or the sink, and say how it
went. Whatever happens inside, what comes back is a report, and a task that did not succeed leaves
nothing: its output is discarded and its sink abandoned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from fabric import failpoints
from fabric._cython.shuffle.store.store import Store
from fabric.agent.attempts import TaskSpec
from fabric.agent.engine import Engine, SinkStart
from fabric.agent.inputs import Gathered, Inputs, closed
from fabric.agent.outputs import Outputs
from fabric.agent.pipes import Exchanges, Pipes, backlog_of
from fabric.agent.router import read_schema
from fabric.agent.slot.pool import SlotPool
from fabric.agent.slot.task import SlotTask, compiles_functions
from fabric.agent.stream_tasks.mailbox import Mailbox, add_counts
from fabric.agent.stream_tasks.setup import Parts, StreamDone, run_stream
from fabric.agent.tally import TaskTally
from fabric.cancellation import Cancellation, asking
from fabric.clock import Clock, SystemClock
from fabric.control import control_pb2 as pb
from fabric.control.errors import to_detail
from fabric.errors import CancelledError, FabricError, InternalError, PeerLostError
from fabric.flight.transport import Transport
from fabric.plan.nodes import Node, Sink
from fabric.plan.sources import Split
from fabric.telemetry.logs import logger

if TYPE_CHECKING:
    from fabric.io.sinks.protocol import SinkWriter

_log = logger("fabric.agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What every task of one agent works with."""

    agent_id: str
    store: Store
    transport: Transport
    engine: Engine
    clock: Clock = field(default_factory=SystemClock)
    slots: SlotPool | None = None
    """Processes for tasks with Python functions; None: such tasks are threads as all others."""
    scratch: Path | None = None
    """Where tasks of streams keep files; None: where the system has its temporary ones."""
    ring_bytes: int = 0
    """What the rings of one pipelined edge may hold together; 0: as much as rings like."""
    tally: TaskTally = field(default_factory=TaskTally)
    exchanges: Exchanges = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "exchanges", Exchanges(self.agent_id, self.transport))


class TaskRun:
    """One attempt; `run` is called once, in the task's own thread."""

    def __init__(
        self,
        spec: TaskSpec,
        services: Services,
        pipes: Pipes,
        cancellation: Cancellation,
        mailbox: Mailbox,
    ) -> None:
        self._spec, self._services = spec, services
        self._pipes, self._cancellation = pipes, cancellation
        self._mailbox = mailbox
        self._inputs = Inputs(
            spec.deploy,
            spec.id,
            spec.assignment.reads,
            agent_id=services.agent_id,
            store=services.store,
            transport=services.transport,
            pipes=pipes,
            exchanges=services.exchanges,
            cancellation=cancellation,
        )
        self._outputs: Outputs | None = None
        self._writer: SinkWriter | None = None
        self._lent = False
        self._handle = b""
        self._written: int | None = None
        self._stream: StreamDone | None = None

    def run(self) -> pb.TaskReport:
        """Do the work; returns the report of how it ended, and never raises."""
        started = self._services.clock.monotonic_s()
        report = pb.TaskReport(key=self._spec.key)
        try:
            with asking(self._cancellation.check):  # what waits for others asks `check_wanted`
                report.outputs.extend(self._work())
            report.state = pb.TASK_FINISHED
            report.sink_handle = self._handle
        except BaseException as error:  # also a panic of DataFusion: it must become a report
            self._clean_up()
            cancelled = self._cancellation.cancelled
            report.state = pb.TASK_CANCELLED if cancelled else pb.TASK_FAILED
            report.error.CopyFrom(to_detail(self._explained(error)))
            report.lost.extend(self._inputs.lost)
        finally:
            self._inputs.close()
        report.rows_in = self._inputs.rows
        if self._stream is not None:
            _add_stream(report, self._stream)
        put_out = self._outputs.rows if self._outputs else 0
        report.rows_out = put_out if self._written is None else self._written
        report.seconds = self._services.clock.monotonic_s() - started
        if self._outputs and report.seconds > 0:
            waited_s = self._outputs.waited_ns / 1e9
            report.backpressure_ratio = min(1.0, waited_s / report.seconds)
        self._note(report)
        return report

    def _note(self, report: pb.TaskReport) -> None:
        """One line a task: what people look for when a job went wrong, or slowly."""
        self._services.tally.add(self._spec.deploy.node_path, report)
        error = report.error
        why = {"error": f"{error.kind}: {error.message}"} if report.HasField("error") else {}
        _log.info(
            f"task {pb.TaskState.Name(report.state)[5:].lower()}",
            **self._names,
            node=self._spec.deploy.node_path,
            rows_in=report.rows_in,
            rows_out=report.rows_out,
            seconds=round(report.seconds, 6),
            **why,
        )

    @property
    def _names(self) -> dict[str, str]:
        """What every line about this task says of it."""
        spec = self._spec
        return {"job": spec.id.job, "task": str(spec.id), "agent": self._services.agent_id}

    def _work(self) -> list[pb.EdgeTotals]:
        failpoints.reach("agent.task-started")
        spec = self._spec
        root = self._services.engine.decode(spec.deploy.fragment)
        self._outputs = outputs = Outputs(
            spec.deploy.outputs,
            spec.id,
            self._services.store,
            self._pipes,
            ring_bytes=self._services.ring_bytes,
            waiting=backlog_of(spec.deploy),
        )
        if spec.deploy.HasField("stream"):
            self._run_stream(root, outputs)
        elif isinstance(root, Sink):
            self._write_sink(root, outputs)
        else:
            with closed(self._rows(root)) as batches:
                for batch in batches:
                    self._cancellation.check()
                    outputs.write(batch, lent=self._lent)
                    if not outputs.wanted:
                        break
        self._cancellation.check()
        totals = outputs.finish()
        failpoints.reach("agent.output-sealed")
        return totals

    def _write_sink(self, root: Sink, outputs: Outputs) -> None:
        spec, engine = self._spec, self._services.engine
        self._writer = writer = engine.open_sink(
            root.target, engine.schema_of(root.input), spec.id, spec.deploy.n_tasks,
            SinkStart(spec.deploy.run, spec.deploy.sink_folder),
        )  # fmt: skip
        rows = 0
        with (
            self._cancellation.waking(writer.abandon),
            closed(self._rows(root.input)) as batches,
        ):
            for batch in batches:
                self._cancellation.check()
                writer.write(batch)
                rows += batch.num_rows
            self._cancellation.check()
            self._handle, self._written = writer.prepare(), rows
            failpoints.reach("agent.sink-prepared")
        self._write_count(rows, outputs)

    def _run_stream(self, root: Node, outputs: Outputs) -> None:
        parts = Parts(
            spec=self._spec,
            engine=self._services.engine,
            inputs=self._inputs,
            outputs=outputs,
            mailbox=self._mailbox,
            cancellation=self._cancellation,
            clock=self._services.clock,
            scratch=self._services.scratch,
            splits=self._splits(),
            slots=self._services.slots,
        )
        self._stream = done = run_stream(root, parts)
        self._written = done.written
        if done.written is not None:
            self._write_count(done.written, outputs)

    def _write_count(self, rows: int, outputs: Outputs) -> None:
        """What a sink puts out: how much was written."""
        if self._spec.deploy.outputs:
            schema = read_schema(self._spec.deploy.outputs[0].schema)
            count = pa.array([rows], schema.field(0).type)
            outputs.write(pa.RecordBatch.from_arrays([count], schema=schema))

    def _rows(self, root: Node) -> Iterator[pa.RecordBatch]:
        if self._services.slots is not None and self._services.engine.has_functions(root):
            return self._in_slot(root, self._services.slots)
        if self._is_chain:
            return self._chained(root)
        return self._fragment(root)

    @property
    def _is_chain(self) -> bool:
        return self._spec.deploy.kind == pb.STAGE_CHAIN

    def _in_slot(self, root: Node, slots: SlotPool) -> Iterator[pa.RecordBatch]:
        self._lent = True
        inputs = {} if self._is_chain else self._complete()
        compiles = compiles_functions(root)
        with (
            slots.slot(self._spec.id.job, compiles=compiles) as slot,
            self._cancellation.waking(slot.kill),
        ):
            task = SlotTask(
                slot, slots.limits, self._spec, root,
                items=self._items(), inputs=inputs, splits=self._splits(),
            )  # fmt: skip
            del inputs
            yield from task.rows()

    def _complete(self) -> dict[int, list[pa.RecordBatch] | Gathered]:
        """A fragment starts when all its input is here: it never waits inside DataFusion."""
        if self._inputs.pipelined:
            raise InternalError("a fragment was given a pipelined edge; only a chain can read one")
        return self._inputs.fetch_all()

    def _fragment(self, root: Node) -> Iterator[pa.RecordBatch]:
        inputs = self._complete()
        threads = max(1, self._spec.deploy.target_partitions)
        batches = self._services.engine.execute(root, inputs, self._splits(), threads)
        del inputs
        with self._cancellation.waking(batches.close), closed(batches):
            yield from batches

    def _chained(self, root: Node) -> Iterator[pa.RecordBatch]:
        chain = self._services.engine.chain(root)
        for edge, batch in self._items():
            yield from chain.on_end(edge) if batch is None else chain.on_batch(edge, batch)
            if chain.done:
                return

    def _items(self) -> Iterator[tuple[int, pa.RecordBatch | None]]:
        """(edge, batch) of every edge; None at its end."""
        for edge in self._inputs.materialised:
            with closed(self._inputs.stream(edge)) as batches:
                for batch in batches:
                    yield edge, batch
            yield edge, None
        yield from self._inputs.take()

    def _splits(self) -> dict[int, list[Split]]:
        return {
            scan.scan_id: [
                Split(s.uri, s.begin, s.end, s.ticket, s.n_rows, s.n_bytes) for s in scan.splits
            ]
            for scan in self._spec.assignment.scans
        }

    def _clean_up(self) -> None:
        """Leave nothing behind; a second error is logged, the first one is what gets reported."""
        for undo in (
            self._writer.abandon if self._writer else None,
            self._outputs.abort if self._outputs else None,
        ):
            try:
                if undo is not None:
                    undo()
            except Exception:
                _log.exception("cleaning up failed", **self._names)

    def _explained(self, error: BaseException) -> FabricError:
        known = error if isinstance(error, FabricError) else self._services.engine.as_fabric(error)
        if isinstance(known, InternalError):
            _log.error("task failed by a bug", **self._names, exc_info=error)
        if self._cancellation.cancelled and not isinstance(known, CancelledError):
            known = CancelledError(self._cancellation.reason)
        if isinstance(known, CancelledError) and not self._cancellation.cancelled:
            # nobody stopped this task, but one that a pipelined edge joins it with
            known = PeerLostError(f"the other end of a pipelined edge was stopped: {known.message}")
        return known.at(
            job=self._spec.id.job,
            node=self._spec.deploy.node_path,
            task=str(self._spec.id),
            agent=self._services.agent_id,
        )


def _add_stream(report: pb.TaskReport, done: StreamDone) -> None:
    report.ack, report.rows_in = done.ack, done.rows_in
    add_counts(report, done.counts)
