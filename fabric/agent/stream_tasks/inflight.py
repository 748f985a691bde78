"""Rows in flight in a checkpoint: what a task had not worked on at an unaligned barrier.

    <edge path>#inflight    000003.arrow    the rows of producer 3, as an Arrow IPC stream
                            edge.json       {"readers": ["totals"], "keys": ["k"]}

One job: `InflightEdge`, an edge as its reader knows it; `snapshots_of`, which names what was
recorded; and `restored_rows`, which finds the rows that a task goes on with. They belong to the
steps that were to read them, since each step is there in any number of tasks, in one stage, while
edges come and go: over an edge that leads to the same steps, else straight into these steps.
Rows go to the task that has their key group now, where the edge or a step has keys; others go from
old task i to task ``i % n``.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from fabric._cython.kernels.hash import hash_columns
from fabric._cython.shuffle.ring.ring import Rows
from fabric.agent.pipes import Item
from fabric.agent.router import producers_of, read_schema
from fabric.agent.stream_tasks.channels import Recording
from fabric.checkpoint.manifest import INFLIGHT, Manifest, TaskSnapshot
from fabric.control import control_pb2 as pb
from fabric.errors import DataError
from fabric.operators.snapshots import key_groups
from fabric.plan.expr import kept_names, output_name
from fabric.plan.nodes import Keyed, KeyedProcess, Node, Select, StageInput, TwoStreams
from fabric.plan.walk import walk
from fabric.state.backend import Snapshot, SnapshotReader, SnapshotWriter
from fabric.state.opened import group_of

_EDGE = "edge.json"


@dataclass(frozen=True, slots=True)
class InflightEdge:
    """A pipelined edge into a task: its number and path, and what rows in flight need of it."""

    edge: int
    path: str
    readers: tuple[str, ...]
    """The steps that its rows are on their way to; one that reads it twice is here twice."""
    keys: tuple[str, ...]
    """By which the rows are where they are; none: any task may have any row."""
    schema: pa.Schema
    producers: tuple[int, ...]
    """Tasks whose rows come over it to this one."""

    def fits(self, there: pa.Schema) -> bool:
        """Whether it carries rows with these columns."""
        return (there.names, there.types) == (self.schema.names, self.schema.types)

    def producer(self, number: int) -> int:
        """A producer of the edge, the same for all rows of an old one."""
        producers = self.producers
        return number if number in producers else producers[number % len(producers)]


def inflight_edges(inputs: Iterable[pb.InputEdge], task: int) -> list[InflightEdge]:
    """The pipelined edges into task `task` of a stage that may have rows in flight."""
    return [
        InflightEdge(
            edge.edge, edge.node_path, tuple(edge.readers) or _step_of(edge.node_path),
            tuple(edge.keys) if edge.kind in (pb.EDGE_HASH, pb.EDGE_FORWARD) else (),
            read_schema(edge.schema), tuple(sorted(p.task for p in producers_of(edge, task))),
        )
        for edge in inputs
        if edge.mode == pb.MODE_PIPELINED and edge.kind != pb.EDGE_BROADCAST
    ]  # fmt: skip


def steps_of(root: Node) -> dict[str, tuple[str, ...]]:
    """The steps of a stage from the leaves to the root, and the columns of rows into each by which
    the next keyed step of the stage tells them apart: it may have no exchange of its own."""
    below: dict[int, tuple[str, ...]] = {}
    found: dict[str, tuple[str, ...]] = {}
    for node in reversed(walk(root)):
        if isinstance(node, StageInput) and node is not root:
            continue
        keys = below.get(id(node), ())
        if isinstance(node, TwoStreams):  # rows come into a step of each side
            sides = zip(node.children, (node.left_keys, node.right_keys), strict=True)
            below.update((id(side), tuple(map(output_name, asked))) for side, asked in sides)
            found[node.path] = ()
            continue
        if isinstance(node, Keyed) and node.keys:
            keys = tuple(map(output_name, node.keys))
        elif isinstance(node, Select):
            before = {new: old for old, new in kept_names(node.exprs).items()}
            keys = tuple(before[name] for name in keys) if before.keys() >= set(keys) else ()
        found[node.path] = keys
        # what is broadcast has no keys
        told = node.children[:1] if isinstance(node, KeyedProcess) else node.children
        below.update((id(child), keys) for child in told if keys)
    return dict(reversed(found.items()))


@dataclass(frozen=True, slots=True)
class InflightRows:
    """The rows in flight of one edge, by producer."""

    edge: InflightEdge
    rows: Mapping[int, list[pa.RecordBatch]]

    def write(self, out: SnapshotWriter) -> int:
        """See `Snapshot`; a file a producer. What is in flight is not in a state yet."""
        facts = {"readers": self.edge.readers, "keys": self.edge.keys}
        out.put(_EDGE, json.dumps(facts).encode())
        for producer, batches in sorted(self.rows.items()):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batches[0].schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            out.put(f"{producer:06d}.arrow", sink.getvalue())
        return 0


def snapshots_of(recording: Recording, edges: Iterable[InflightEdge]) -> dict[str, Snapshot]:
    """What was recorded, by the name that it has in a checkpoint."""
    by_edge: dict[int, dict[int, list[pa.RecordBatch]]] = {}
    for (edge, producer), batches in recording.rows.items():
        by_edge.setdefault(edge, {})[producer] = batches
    return {
        f"{edge.path}{INFLIGHT}": InflightRows(edge, by_edge[edge.edge])
        for edge in edges
        if edge.edge in by_edge
    }


@dataclass(slots=True)
class RestoredRows:
    """What was in flight to a task: over its edges, and into its steps, by their paths."""

    items: list[tuple[int, Item]] = field(default_factory=list)
    into: deque[tuple[str, pa.RecordBatch]] = field(default_factory=deque)


def restored_rows(
    manifest: Manifest,
    read: Callable[[TaskSnapshot], SnapshotReader],
    edges: Sequence[InflightEdge],
    steps: Mapping[str, tuple[str, ...]],
    task: tuple[int, int],
) -> RestoredRows:
    """The rows in flight that task `task` (its number, of how many) goes on with.

    `edges` lead to it, `steps` are its steps as `steps_of` gives them. Rows into the last steps
    come first: they were ahead of those that earlier steps have still to work on.
    """
    found, places = RestoredRows(), {step: place for place, step in enumerate(steps)}
    farther: list[tuple[int, Item]] = []
    """Over edges that led to the one into this task."""
    for snapshot in manifest.inflight():
        old = _Old.of(snapshot, read(snapshot), edges)
        left = [step for step in old.readers if step in places]
        for edge in old.same(edges, left) if left else ():
            for producer, batch in old.rows(edge.keys, task):
                item = edge.edge, Rows(edge.producer(producer), batch)
                (found.items if old.path == edge.path else farther).append(item)
        for step in left:
            keys = next((edge.keys for edge in edges if step in edge.readers), steps[step])
            found.into += [(step, batch) for _, batch in old.rows(keys, task)]
    found.items += farther
    found.into = deque(sorted(found.into, key=lambda one: -places[one[0]]))
    return found


@dataclass(frozen=True, slots=True)
class _Old:
    """The rows in flight of one edge to one old task."""

    path: str
    readers: tuple[str, ...]
    keys: tuple[str, ...] | None
    """None: an earlier release did not write them."""
    snapshot: TaskSnapshot
    reader: SnapshotReader

    @classmethod
    def of(
        cls, snapshot: TaskSnapshot, reader: SnapshotReader, edges: Sequence[InflightEdge]
    ) -> _Old:
        path = snapshot.node.removesuffix(INFLIGHT)
        if _EDGE in reader.names():
            facts = json.loads(bytes(reader.read(_EDGE)))
            return cls(path, tuple(facts["readers"]), tuple(facts["keys"]), snapshot, reader)
        same = (edge.readers for edge in edges if edge.path == path)
        return cls(path, next(same, _step_of(path)), None, snapshot, reader)

    def same(self, edges: Sequence[InflightEdge], left: list[str]) -> Iterator[InflightEdge]:
        """The edges that lead to steps in `left`, and to no others; takes these steps out of it.

        Raises `DataError` when the plan has other columns there.
        """
        with pa.ipc.open_stream(self.reader.read(self._files()[0])) as batches:
            schema = batches.schema
        for edge in sorted(edges, key=lambda edge: (not edge.fits(schema), edge.path != self.path)):
            if Counter(edge.readers) - Counter(left):
                continue
            if not edge.fits(schema):
                raise DataError(
                    f"the checkpoint has rows in flight at {self.path} with the columns "
                    f"{schema.names}, and this plan needs {edge.schema.names}; run the program "
                    "that wrote it"
                )
            left[:] = (Counter(left) - Counter(edge.readers)).elements()
            yield edge

    def rows(
        self, keys: tuple[str, ...], task: tuple[int, int]
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Those that are task `task`'s now, by producer."""
        number, n_tasks = task
        keys = keys if n_tasks > 1 else ()
        groups, theirs = key_groups(number, n_tasks), self.snapshot.key_groups
        if not keys and self.snapshot.task % n_tasks != number:
            return
        stay = keys == self.keys
        if keys and stay and (theirs.stop <= groups.start or theirs.start >= groups.stop):
            return
        is_whole = stay and groups.start <= theirs.start and theirs.stop <= groups.stop
        for name in self._files():
            with pa.ipc.open_stream(self.reader.read(name)) as batches:
                for batch in batches:
                    rows = batch if not keys or is_whole else _of_groups(batch, keys, groups)
                    if rows.num_rows:
                        yield int(name.partition(".")[0]), rows

    def _files(self) -> list[str]:
        return [name for name in sorted(self.reader.names()) if name != _EDGE]


def _step_of(path: str) -> tuple[str]:
    """The step that an edge leads to, by its path alone: all that an earlier release knew."""
    return (path.rpartition("/")[0],)


def _of_groups(batch: pa.RecordBatch, keys: tuple[str, ...], groups: range) -> pa.RecordBatch:
    found = group_of(hash_columns([batch.column(name) for name in keys]))
    return batch.filter(pa.array((found >= groups.start) & (found < groups.stop)))
