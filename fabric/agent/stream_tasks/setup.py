"""A task of a stream set up: its chain, sources, sink and state, from a deploy.

One job: build the parts of a `StreamTask`, and put back what a checkpoint has of them, before the
first row. `run_stream` then runs it, and lets go of everything.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from fabric.agent.attempts import TaskSpec
from fabric.agent.engine import Engine, SinkStart
from fabric.agent.inputs import Inputs
from fabric.agent.outputs import Outputs
from fabric.agent.slot import slot_pb2 as sp
from fabric.agent.slot.chain import SlotChain
from fabric.agent.slot.pool import SlotPool
from fabric.agent.slot.supervisor import SlotSupervisor
from fabric.agent.slot.task import compiles_functions
from fabric.agent.stream_tasks.chain import StreamChain
from fabric.agent.stream_tasks.channels import Channels
from fabric.agent.stream_tasks.edges import Edges, Meeting
from fabric.agent.stream_tasks.mailbox import Mailbox, Progress
from fabric.agent.stream_tasks.restore import Restored, context_of, splits_of, state_of
from fabric.agent.stream_tasks.sinks import Results, StreamSink
from fabric.agent.stream_tasks.snapshots import SnapshotUploads
from fabric.agent.stream_tasks.sources import Sources
from fabric.agent.stream_tasks.task import StreamTask
from fabric.cancellation import Cancellation
from fabric.checkpoint.storage import FolderStorage
from fabric.clock import Clock
from fabric.control import control_pb2 as pb
from fabric.io.readers.protocol import Share
from fabric.io.readers.reader import StreamReader
from fabric.plan.nodes import Branches, Node, Sink, StreamScan, branch_side
from fabric.plan.sources import Split
from fabric.plan.stream import UNREADABLE
from fabric.plan.walk import walk


@dataclass(frozen=True, slots=True)
class StreamDone:
    """How a task of a stream ended."""

    ack: bytes
    rows_in: int
    rows_out: int
    written: int | None
    """Rows that its sink wrote since the stream began; None: it has no sink."""
    counts: dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a task of a stream is made of."""

    spec: TaskSpec
    engine: Engine
    inputs: Inputs
    outputs: Outputs
    mailbox: Mailbox
    cancellation: Cancellation
    clock: Clock
    scratch: Path | None
    """Where operators may keep files; None: where the system has its temporary ones."""
    splits: dict[int, list[Split]]
    """By scan."""
    slots: SlotPool | None = None
    """Processes for chains with Python functions; None: these run here, too."""

    @property
    def n_tasks(self) -> int:
        """Of the stage."""
        return max(1, self.spec.deploy.n_tasks)


def run_stream(root: Node, parts: Parts) -> StreamDone:
    """Run one attempt until its inputs have ended; everything it opened is closed then."""
    spec, stream = parts.spec, parts.spec.deploy.stream
    with ExitStack() as stack:
        folder = Path(
            tempfile.mkdtemp(prefix=f"{spec.id.stage}-{spec.id.task}-", dir=parts.scratch)
        )
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        storage = FolderStorage(Path(stream.folder))
        storage.prepare(spec.id.job)
        uploads = SnapshotUploads(storage, spec, parts.clock, parts.mailbox.say)
        stack.callback(uploads.close)
        top = root.input if isinstance(root, Sink) else root
        restored = Restored(storage, spec.id.job, spec.id.task, parts.n_tasks, stream)
        parts = replace(parts, splits=restored.splits(top, parts.splits))
        readers = _readers(top, parts)
        sources = Sources(readers, stream.source_gather_s)
        stack.callback(sources.close)
        stack.enter_context(parts.cancellation.waking(sources.interrupt))
        chain = _chain(root, parts, folder, restored, stack)
        sink = _sink(root, parts, folder, stack)
        results = _results(parts, folder)
        restored.sink(sink)
        restored.results(f"{root.path}#result", results, parts.outputs)
        restored.sources(readers, parts.splits)
        meeting = Meeting(
            stream.exchange_gather_s, stream.source_gather_s, stream.exchange_behind_s
        )
        edges = Edges(parts.inputs, parts.clock, meeting, may_rest=_may_rest(spec.deploy))
        _read_tables(chain, parts)
        task = StreamTask(
            node=root.path,
            chain=chain,
            sources=sources,
            channels=Channels(
                edges.producers,
                has_sources=bool(readers),
                held_bytes_max=stream.held_bytes_max,
                restored=stream.checkpoint,
            ),
            edges=edges,
            outputs=parts.outputs,
            sink=sink,
            results=results,
            uploads=uploads,
            mailbox=parts.mailbox,
            progress=Progress(
                spec.key, parts.outputs, parts.mailbox.say, parts.clock.monotonic_s()
            ),
            cancellation=parts.cancellation,
            clock=parts.clock,
            lent=isinstance(chain, SlotChain),
            unreadable=_unreadable_side(top),
        )
        ack = task.run()
        written = None if sink is None else sink.rows
        return StreamDone(ack, task.rows_in, task.rows_out, written, task.counts())


def _chain(
    root: Node, parts: Parts, folder: Path, restored: Restored, stack: ExitStack
) -> StreamChain:
    """The operators with their state: in a process of their own where functions are among them."""
    top = root.input if isinstance(root, Sink) else root
    if parts.slots is not None and parts.engine.has_functions(top):
        return _in_slot(top, parts, parts.slots, folder, stack)
    begin = _begin(parts, folder)
    chain = parts.engine.chain(top, context_of(root.path, begin), splits_of(begin))
    stack.callback(chain.close)
    restored.chain(chain)
    return chain


def _in_slot(
    top: Node, parts: Parts, slots: SlotPool, folder: Path, stack: ExitStack
) -> StreamChain:
    spec = parts.spec
    slot = stack.enter_context(slots.slot(spec.id.job, compiles=compiles_functions(top)))
    stack.enter_context(parts.cancellation.waking(slot.kill))
    supervisor = SlotSupervisor(slot, slots.limits, spec, top)
    chain = stack.enter_context(SlotChain(slot, supervisor, top))
    chain.begin(_begin(parts, folder))
    return chain


def _begin(parts: Parts, folder: Path) -> sp.Begin:
    """What a chain must know to begin, wherever it is."""
    spec = parts.spec
    return sp.Begin(
        fragment=spec.deploy.fragment,
        job=spec.id.job,
        stage=spec.id.stage,
        task=spec.id.task,
        n_tasks=parts.n_tasks,
        attempt=spec.id.attempt,
        scratch=str(folder),
        splits=[
            sp.Splits(edge=-1 - scan, names=[split.uri for split in found])
            for scan, found in parts.splits.items()
        ],
        stream=spec.deploy.stream,
    )


def _readers(top: Node, parts: Parts) -> dict[int, tuple[str, StreamReader]]:
    found = {}
    for node in walk(top):
        if isinstance(node, StreamScan):
            reader = parts.engine.open_reader(node, Share(parts.spec.id.task, parts.n_tasks))
            reader.open(parts.splits.get(node.scan_id, []))
            found[-1 - node.scan_id] = (node.path, reader)
    return found


def _sink(root: Node, parts: Parts, folder: Path, stack: ExitStack) -> StreamSink | None:
    if not isinstance(root, Sink):
        return None
    schema = parts.engine.schema_of(root.input)
    stream = parts.spec.deploy.stream
    state, _ = state_of(stream.states[root.path])
    start = SinkStart(stream.turn, stream.folder, folder / "sink", state)
    writer = parts.engine.open_stream_sink(root.target, schema, parts.spec.id, parts.n_tasks, start)
    stack.callback(writer.abandon)  # what was prepared stays
    stack.enter_context(parts.cancellation.waking(writer.interrupt))
    return StreamSink(root.path, writer)


def _unreadable_side(top: Node) -> str:
    """By which side the rows leave that the stage's scan can't read."""
    branches = top.inputs if isinstance(top, Branches) else ()
    own = (n for n, branch in enumerate(branches) if isinstance(branch, StreamScan))
    return next((branch_side(branch, UNREADABLE) for branch in own), UNREADABLE)


def _may_rest(deploy: pb.Deploy) -> bool:
    """Whether no other stage waits for the watermarks of this one."""
    return all(edge.mode != pb.MODE_PIPELINED or edge.is_result for edge in deploy.outputs)


def _results(parts: Parts, folder: Path) -> Results | None:
    edges = [edge for edge in parts.spec.deploy.outputs if edge.mode != pb.MODE_PIPELINED]
    return Results(pa.ipc.read_schema(pa.py_buffer(edges[0].schema)), folder) if edges else None


def _read_tables(chain: StreamChain, parts: Parts) -> None:
    """What lies whole beside the stream is read first, by every attempt anew."""
    for edge in parts.inputs.materialised:
        for batch in parts.inputs.stream(edge):
            chain.on_batch(edge, batch)
        chain.on_end(edge)
