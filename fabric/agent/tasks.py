"""One task attempt from its input to its report.

One job: get the input, run the fragment or chain, write to the edges or the sink, and say how it
went. Whatever happens inside, what comes back is a report, and a task that did not succeed leaves
nothing: its output is discarded and its sink abandoned.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pyarrow as pa

from fabric import failpoints
from fabric.agent.attempts import TaskSpec, scan_splits
from fabric.agent.engine import Services
from fabric.agent.inputs import Gathered, Inputs, closed
from fabric.agent.outputs import Outputs
from fabric.agent.pipes import Pipes, backlog_of
from fabric.agent.router import read_schema
from fabric.agent.slot.supervisor import supervised
from fabric.agent.slot.task import SlotTask
from fabric.agent.stream_tasks.channels import Channels, EdgeEnd, EdgeRows
from fabric.agent.stream_tasks.edges import Edges
from fabric.agent.stream_tasks.mailbox import Mailbox, add_outputs
from fabric.agent.stream_tasks.setup import StreamAttempt
from fabric.cancellation import Cancellation, asking
from fabric.control import control_pb2 as pb
from fabric.control.errors import to_detail
from fabric.errors import CancelledError, FabricError, InternalError, PeerLostError
from fabric.io.sinks.protocol import SinkWriter
from fabric.operators.chain import rows_through
from fabric.operators.expressions.errors import as_fabric
from fabric.plan.nodes import Node, Sink
from fabric.telemetry.logs import logger

_log = logger("fabric.agent")


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
        self._inputs = Inputs(spec, services, pipes, cancellation)
        self._outputs: Outputs | None = None
        self._writer: SinkWriter | None = None
        self._handle = b""
        self._written: int | None = None
        """Rows that the sink wrote, of a stream since it began; None: there is no sink, or none
        were prepared."""
        self._report = pb.TaskReport(key=spec.key)

    def run(self) -> pb.TaskReport:
        """Do the work; returns the report of how it ended, and never raises."""
        started = self._services.clock.monotonic_s()
        report = self._report
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
        if not self._is_stream:  # a stream's counts are in the report already
            report.rows_in = self._inputs.rows
        report.seconds = self._services.clock.monotonic_s() - started
        if self._outputs is not None:
            add_outputs(report, self._outputs, self._written)
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
        if self._is_stream:
            attempt = StreamAttempt(
                spec, self._services, inputs=self._inputs, outputs=outputs,
                mailbox=self._mailbox, cancellation=self._cancellation,
            )  # fmt: skip
            self._written = attempt.run(root, self._report)
        else:
            self._run_bounded(root, outputs)
        if self._written is not None:
            self._write_count(self._written, outputs)
        self._cancellation.check()
        totals = outputs.finish()
        failpoints.reach("agent.output-sealed")
        return totals

    def _run_bounded(self, root: Node, outputs: Outputs) -> None:
        """Pull all rows through the stage, to its edges or its sink."""
        engine = self._services.engine
        with ExitStack() as stack:
            top, write = root, partial(outputs.write, lent=self._runs_in_slot(root))
            if isinstance(root, Sink):
                self._writer = writer = engine.open_sink(root, self._spec)
                stack.enter_context(self._cancellation.waking(writer.abandon))
                top, write = root.input, partial(writer.write)
            n_rows = 0
            for batch in stack.enter_context(closed(self._rows(top))):
                self._cancellation.check()
                write(batch)
                n_rows += batch.num_rows
                if self._writer is None and not outputs.wanted:
                    break
            self._cancellation.check()
            if self._writer is not None:
                self._handle, self._written = self._writer.prepare(), n_rows
                failpoints.reach("agent.sink-prepared")

    def _write_count(self, rows: int, outputs: Outputs) -> None:
        """What a sink puts out: how much was written."""
        if self._spec.deploy.outputs:
            schema = read_schema(self._spec.deploy.outputs[0].schema)
            count = pa.array([rows], schema.field(0).type)
            outputs.write(pa.RecordBatch.from_arrays([count], schema=schema))

    def _rows(self, root: Node) -> Iterator[pa.RecordBatch]:
        if self._runs_in_slot(root):
            return self._in_slot(root)
        if self._is_chain:
            return rows_through(self._services.engine.chain(root), self._items())
        return self._fragment(root)

    @property
    def _is_stream(self) -> bool:
        return self._spec.deploy.HasField("stream")

    @property
    def _is_chain(self) -> bool:
        return self._spec.deploy.kind == pb.STAGE_CHAIN

    def _runs_in_slot(self, root: Node) -> bool:
        return self._services.slots is not None and self._services.engine.has_functions(root)

    def _in_slot(self, root: Node) -> Iterator[pa.RecordBatch]:
        slots, spec = self._services.slots, self._spec
        assert slots is not None
        inputs = {} if self._is_chain else self._complete()
        with supervised(slots, spec, root, self._cancellation) as supervisor:
            task = SlotTask(
                supervisor, spec, root,
                items=self._items(), inputs=inputs, splits=scan_splits(spec.assignment.scans),
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
        splits = scan_splits(self._spec.assignment.scans)
        batches = self._services.engine.execute(root, inputs, splits, threads)
        del inputs
        with self._cancellation.waking(batches.close), closed(batches):
            yield from batches

    def _items(self) -> Iterator[tuple[int, pa.RecordBatch | None]]:
        """(edge, batch) of every edge as they come; None at its end."""
        yield from self._inputs.complete()
        edges = Edges(self._inputs, self._services.clock)
        channels = Channels(edges.producers)
        while edges.open:
            for event in channels.items(edges.take(None)):
                match event:
                    case EdgeRows(edge=edge, batch=batch):
                        self._cancellation.check()
                        self._inputs.rows += batch.num_rows
                        yield edge, batch
                    case EdgeEnd(edge=edge):
                        edges.over(edge)
                        yield edge, None

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
        known = error if isinstance(error, FabricError) else as_fabric(error)
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
