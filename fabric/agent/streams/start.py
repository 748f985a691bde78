"""A task of a stream set up: its chain, sources, sink and state, from a deploy.

One job: build the parts of a `StreamTask`, and put back what a checkpoint has of them, before the
first row. `run_stream` then runs it, and lets go of everything.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from fabric import failpoints
from fabric.agent.cancellation import Cancellation
from fabric.agent.engine import Engine
from fabric.agent.held import TaskSpec
from fabric.agent.inputs import Inputs
from fabric.agent.outputs import Outputs
from fabric.agent.streams.edges import Edges
from fabric.agent.streams.inputs import Channels
from fabric.agent.streams.orders import Orders
from fabric.agent.streams.progress import Progress
from fabric.agent.streams.results import Results
from fabric.agent.streams.sink import StreamSink
from fabric.agent.streams.sources import Sources
from fabric.agent.streams.task import StreamTask
from fabric.agent.streams.uploads import Uploads
from fabric.checkpoint.manifest import Manifest, Seal
from fabric.checkpoint.storage import FolderStorage, SnapshotStorage
from fabric.clock import Clock
from fabric.config import StateBackend
from fabric.control import control_pb2 as pb
from fabric.io.streams.protocol import StreamReader
from fabric.operators.chain import Chain
from fabric.operators.contract import Context, SnapshotReader
from fabric.operators.key_groups import key_groups
from fabric.plan.nodes import Node, Sink
from fabric.plan.sources import Split
from fabric.plan.streams import StreamScan
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
    orders: Orders
    cancellation: Cancellation
    clock: Clock
    scratch: Path | None
    """Where operators may keep files; None: where the system has its temporary ones."""
    splits: dict[int, list[Split]]
    """By scan."""

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
        uploads = Uploads(storage, spec, parts.clock, parts.orders.say)
        stack.callback(uploads.close)
        top = root.input if isinstance(root, Sink) else root
        readers = _readers(top, parts)
        sources = Sources(readers)
        stack.callback(sources.close)
        stack.enter_context(parts.cancellation.waking(sources.interrupt))
        chain = parts.engine.chain(top, _context(root.path, parts, folder))
        stack.callback(chain.close)
        sink = _sink(root, parts, stack)
        results = _results(parts, folder)
        restored = _Restored(storage, parts)
        restored.chain(chain)
        restored.sink(sink)
        restored.results(f"{root.path}#result", results)
        restored.sources(readers)
        edges = Edges(parts.inputs)
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
            orders=parts.orders,
            progress=Progress(spec.key, parts.outputs, parts.orders.say, parts.clock.monotonic_s()),
            cancellation=parts.cancellation,
            clock=parts.clock,
        )
        ack = task.run()
        written = None if sink is None else sink.rows
        return StreamDone(ack, task.rows_in, task.rows_out, written, chain.counts())


def _context(node: str, parts: Parts, folder: Path) -> Context:
    splits = tuple(split.uri for found in parts.splits.values() for split in found)
    state: StateBackend = "rocksdb" if parts.spec.deploy.stream.state == "rocksdb" else "memory"
    return Context(node, parts.spec.id.task, parts.n_tasks, folder, splits, state)


def _readers(top: Node, parts: Parts) -> dict[int, tuple[str, StreamReader]]:
    found = {}
    for node in walk(top):
        if isinstance(node, StreamScan):
            reader = parts.engine.open_reader(node)
            reader.open(parts.splits.get(node.scan_id, []))
            found[-1 - node.scan_id] = (node.path, reader)
    return found


def _sink(root: Node, parts: Parts, stack: ExitStack) -> StreamSink | None:
    if not isinstance(root, Sink):
        return None
    schema = parts.engine.schema_of(root.input)
    turn = parts.spec.deploy.stream.turn
    writer = parts.engine.open_stream_sink(root.target, schema, parts.spec.id, parts.n_tasks, turn)
    stack.callback(writer.abandon)  # what was prepared stays
    return StreamSink(root.path, writer)


def _results(parts: Parts, folder: Path) -> Results | None:
    edges = [edge for edge in parts.spec.deploy.outputs if edge.mode != pb.MODE_PIPELINED]
    return Results(pa.ipc.read_schema(pa.py_buffer(edges[0].schema)), folder) if edges else None


def _read_tables(chain: Chain, parts: Parts) -> None:
    """What lies whole beside the stream is read first, by every attempt anew."""
    for edge in parts.inputs.materialised:
        for batch in parts.inputs.stream(edge):
            chain.on_batch(edge, batch)
        chain.on_end(edge)


class _Restored:
    """What the checkpoint that a task goes on from has of it; nothing where there is none."""

    def __init__(self, storage: SnapshotStorage, parts: Parts) -> None:
        stream = parts.spec.deploy.stream
        self._storage, self._parts = storage, parts
        self._manifest: Manifest | None = None
        if stream.checkpoint:
            failpoints.reach("stream.restoring")
            seal = Seal(stream.seal_bytes, stream.seal_crc32c)
            self._manifest = storage.load(parts.spec.id.job, stream.checkpoint, seal)

    def chain(self, chain: Chain) -> None:
        """The state of every operator."""
        if self._manifest is not None:
            groups = key_groups(self._parts.spec.id.task, self._parts.n_tasks)
            chain.restore(lambda path: [r for _, r in self._of(path)], groups)
            failpoints.reach("stream.state-restored")

    def sink(self, sink: StreamSink | None) -> None:
        """How many rows were written; the first task counts those of all."""
        if sink is not None and self._parts.spec.id.task == 0:
            for _, reader in self._of(sink.node):
                sink.rows += int.from_bytes(reader.read("rows").to_pybytes(), "little")

    def results(self, node: str, results: Results | None) -> None:
        """Rows that wait for whoever collects them."""
        if results is None:
            return
        for task, reader in self._of(node):
            if task % self._parts.n_tasks == self._parts.spec.id.task:
                for batch in results.restore([reader]):
                    self._parts.outputs.write(batch)

    def sources(self, readers: dict[int, tuple[str, StreamReader]]) -> None:
        """Where each split goes on."""
        if self._manifest is None:
            return
        failpoints.reach("stream.restored")
        for edge, (path, reader) in readers.items():
            mine = {split.uri for split in self._parts.splits.get(-1 - edge, [])}
            positions = self._manifest.positions(path)
            reader.seek({split: at for split, at in positions.items() if split in mine})

    def _of(self, node: str) -> Iterator[tuple[int, SnapshotReader]]:
        if self._manifest is not None:
            for snapshot in self._manifest.of_node(node):
                yield snapshot.task, self._storage.reader(self._manifest, snapshot)
