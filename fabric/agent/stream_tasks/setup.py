"""A task of a stream set up: its chain, sources, sink and state, from a deploy.

One job: build the parts of a `StreamTask`, and put back what a checkpoint has of them, before the
first row. `StreamAttempt.run` then runs it, and lets go of everything.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from fabric.agent.attempts import TaskSpec, scan_splits
from fabric.agent.engine import Services, Splits
from fabric.agent.inputs import Inputs
from fabric.agent.outputs import Outputs
from fabric.agent.router import read_schema
from fabric.agent.slot import slot_pb2 as sp
from fabric.agent.slot.chain import SlotChain
from fabric.agent.slot.supervisor import supervised
from fabric.agent.stream_tasks.channels import Channels, Inbox
from fabric.agent.stream_tasks.edges import Edges, Meeting
from fabric.agent.stream_tasks.inflight import inflight_edges
from fabric.agent.stream_tasks.mailbox import Mailbox, Progress, add_counts
from fabric.agent.stream_tasks.restore import Restored, context_of, splits_of
from fabric.agent.stream_tasks.sinks import Results, StreamSink
from fabric.agent.stream_tasks.snapshots import SnapshotUploads
from fabric.agent.stream_tasks.sources import ROWS_MAX, Sources
from fabric.agent.stream_tasks.task import StreamTask
from fabric.cancellation import Cancellation
from fabric.checkpoint.places import storage_at
from fabric.control import control_pb2 as pb
from fabric.io.readers.protocol import Share
from fabric.io.readers.reader import StreamReader
from fabric.operators.chain import Chain
from fabric.plan.nodes import Branches, MapAsync, Node, Sink, StreamScan, branch_side
from fabric.plan.stream import UNREADABLE
from fabric.plan.walk import walk


class StreamAttempt:
    """One attempt of a task of a stream; `run` is called once."""

    def __init__(
        self,
        spec: TaskSpec,
        services: Services,
        *,
        inputs: Inputs,
        outputs: Outputs,
        mailbox: Mailbox,
        cancellation: Cancellation,
    ) -> None:
        self._spec, self._services, self._stream = spec, services, spec.deploy.stream
        self._inputs, self._outputs = inputs, outputs
        self._mailbox, self._cancellation = mailbox, cancellation

    def run(self, root: Node, report: pb.TaskReport) -> int | None:
        """Run it until its inputs have ended; everything it opened is closed then.

        Puts its last acknowledgement and its counts into `report`; returns how many rows its sink
        wrote since the stream began, None where it has no sink.
        """
        spec, stream, clock = self._spec, self._stream, self._services.clock
        say, cancellation = self._mailbox.say, self._cancellation
        with ExitStack() as stack:
            prefix = f"{spec.id.stage}-{spec.id.task}-"
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=self._services.scratch))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            storage = storage_at(stream.folder, self._services.copies)
            storage.prepare(stream.state)
            inflight = inflight_edges(spec.deploy.inputs, spec.id.task)
            uploads = SnapshotUploads(storage, spec, inflight, clock=clock, say=say)
            stack.callback(uploads.close)
            top = root.input if isinstance(root, Sink) else root
            restored = Restored(storage, spec.id.task, spec.n_tasks, stream)
            splits = restored.splits(top, scan_splits(spec.assignment.scans))
            readers = self._readers(top, splits)
            sources = Sources(
                readers, stream.source_gather_s, drained=stream.drain, rows_max=_rows_max(top)
            )
            stack.callback(sources.close)
            stack.enter_context(cancellation.waking(sources.interrupt))
            chain = self._chain(root.path, top, self._begin(folder, splits), restored, stack)
            sink = self._sink(root, folder, stack)
            results = self._results(folder)
            restored.sink(sink)
            restored.results(f"{root.path}#result", results, self._outputs)
            restored.sources(readers, splits)
            edges = Edges(self._inputs, clock, self._meeting(), may_rest=_may_rest(spec.deploy))
            self._read_tables(chain)
            channels = Channels(
                edges.producers,
                has_sources=bool(readers),
                held_bytes_max=stream.held_bytes_max,
                restored=stream.checkpoint,
                aligned=_broadcast_edges(spec.deploy),
            )
            inbox = Inbox(channels, stream.held_bytes_max)
            inbox.add((rows := restored.inflight(root, inflight)).items)
            task = StreamTask(
                node=root.path,
                chain=chain,
                sources=sources,
                channels=channels,
                inbox=inbox,
                replayed=rows.into,
                edges=edges,
                outputs=self._outputs,
                sink=sink,
                results=results,
                uploads=uploads,
                mailbox=self._mailbox,
                progress=Progress(spec.key, self._outputs, say, clock.monotonic_s()),
                cancellation=cancellation,
                clock=clock,
                lent=isinstance(chain, SlotChain),
                unreadable=_unreadable_side(top),
                rows_max=_rows_max(top),
            )
            del rows  # each batch goes when it was worked on
            try:
                report.ack = task.run()
            finally:
                report.rows_in = task.rows_in
            add_counts(report, task.counts())
            return None if sink is None else sink.rows

    def _begin(self, folder: Path, splits: Splits) -> sp.Begin:
        """What a chain must know to begin, wherever it is."""
        spec = self._spec
        return sp.Begin(
            fragment=spec.deploy.fragment,
            job=spec.id.job,
            stage=spec.id.stage,
            task=spec.id.task,
            n_tasks=spec.n_tasks,
            attempt=spec.id.attempt,
            scratch=str(folder),
            copies=str(self._services.copies or ""),
            splits=[
                sp.Splits(edge=-1 - scan, names=[split.uri for split in found])
                for scan, found in splits.items()
            ],
            stream=self._stream,
        )

    def _chain(
        self, path: str, top: Node, begin: sp.Begin, restored: Restored, stack: ExitStack
    ) -> Chain | SlotChain:
        """The operators with their state: in their own process if they call Python functions."""
        slots, engine = self._services.slots, self._services.engine
        if slots is not None and engine.has_functions(top):
            supervisor = supervised(slots, self._spec, top, self._cancellation)
            remote = stack.enter_context(SlotChain(stack.enter_context(supervisor), top))
            remote.begin(begin)
            return remote
        chain = engine.chain(top, context_of(path, begin), splits_of(begin))
        stack.callback(chain.close)
        restored.chain(chain)
        return chain

    def _meeting(self) -> Meeting:
        told = self._stream
        return Meeting(told.exchange_gather_s, told.source_gather_s, told.exchange_behind_s)

    def _readers(self, top: Node, splits: Splits) -> dict[int, tuple[str, StreamReader]]:
        found = {}
        share = Share(self._spec.id.task, self._spec.n_tasks)
        for node in walk(top):
            if isinstance(node, StreamScan):
                reader = self._services.engine.open_reader(node, share)
                reader.open(splits.get(node.scan_id, []))
                found[-1 - node.scan_id] = (node.path, reader)
        return found

    def _sink(self, root: Node, folder: Path, stack: ExitStack) -> StreamSink | None:
        if not isinstance(root, Sink):
            return None
        writer = self._services.engine.open_sink(root, self._spec, folder / "sink")
        stack.callback(writer.abandon)  # what was prepared stays
        stack.enter_context(self._cancellation.waking(writer.interrupt))
        return StreamSink(root.path, writer)

    def _results(self, folder: Path) -> Results | None:
        """Rows of the stage that lie here until somebody collects them."""
        edges = (e for e in self._spec.deploy.outputs if e.mode != pb.MODE_PIPELINED)
        edge = next(edges, None)
        return None if edge is None else Results(read_schema(edge.schema), folder)

    def _read_tables(self, chain: Chain | SlotChain) -> None:
        """What lies whole beside the stream is read first, by every attempt anew."""
        chain.replaying = True  # no table completes a window: what came out would be lost
        for edge, batch in self._inputs.complete():
            if batch is None:
                chain.on_end(edge)
            else:
                chain.on_batch(edge, batch)
        chain.replaying = False


def _unreadable_side(top: Node) -> str:
    """By which side the rows leave that the stage's scan can't read."""
    branches = top.inputs if isinstance(top, Branches) else ()
    own = (n for n, branch in enumerate(branches) if isinstance(branch, StreamScan))
    return next((branch_side(branch, UNREADABLE) for branch in own), UNREADABLE)


def _rows_max(top: Node) -> int:
    """How many rows go through the chain at once: no more than may wait for answers of a service,
    as a barrier waits until all of them have a request."""
    bounds = (node.capacity for node in walk(top) if isinstance(node, MapAsync))
    return min([ROWS_MAX, *bounds])


def _broadcast_edges(deploy: pb.Deploy) -> list[int]:
    """Whose rows all tasks get: at a barrier each must have come as far as the others."""
    return [edge.edge for edge in deploy.inputs if edge.kind == pb.EDGE_BROADCAST]


def _may_rest(deploy: pb.Deploy) -> bool:
    """Whether no other stage waits for the watermarks of this one."""
    return all(edge.mode != pb.MODE_PIPELINED or edge.is_result for edge in deploy.outputs)
