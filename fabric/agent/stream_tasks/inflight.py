"""Rows in flight in a checkpoint: what a task had not worked on at an unaligned barrier.

    <edge path>#inflight    000003.arrow    the rows of producer 3, as an Arrow IPC stream

One job: `InflightRows`, which writes those of one edge, and `restored_rows`, which finds the rows
that a task goes on with. Edges are known by their paths, as another parallelism has other numbers.
Rows of a hash edge go to the task that has their key group now, others from old task i to task
``i % n``. Where the plan no longer has the edge (one task has no exchange), its rows come to the
step that it led to: an edge is called ``<step>/exchange`` or the like.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from fabric._cython.kernels.hash import hash_columns
from fabric._cython.shuffle.ring.ring import Rows
from fabric.agent.pipes import Item
from fabric.agent.router import read_schema
from fabric.agent.stream_tasks.channels import Recording
from fabric.checkpoint.manifest import INFLIGHT, Manifest, TaskSnapshot
from fabric.control import control_pb2 as pb
from fabric.errors import DataError
from fabric.operators.snapshots import key_groups
from fabric.state.backend import Snapshot, SnapshotReader, SnapshotWriter
from fabric.state.opened import group_of


@dataclass(frozen=True, slots=True)
class InflightRows:
    """The rows in flight of one edge, by producer."""

    rows: Mapping[int, list[pa.RecordBatch]]

    def write(self, out: SnapshotWriter) -> int:
        """See `Snapshot`; a file a producer. What is in flight is not in a state yet."""
        for producer, batches in sorted(self.rows.items()):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batches[0].schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            out.put(f"{producer:06d}.arrow", sink.getvalue())
        return 0


def snapshots_of(recording: Recording, inputs: Iterable[pb.InputEdge]) -> dict[str, Snapshot]:
    """What was recorded, by the name that it has in a checkpoint."""
    by_edge: dict[int, dict[int, list[pa.RecordBatch]]] = {}
    for (edge, producer), batches in recording.rows.items():
        by_edge.setdefault(edge, {})[producer] = batches
    paths = {edge.edge: edge.node_path for edge in inputs}
    return {f"{paths[edge]}{INFLIGHT}": InflightRows(rows) for edge, rows in by_edge.items()}


@dataclass(slots=True)
class RestoredRows:
    """What was in flight to a task: over its edges, and into its steps, by their paths."""

    items: list[tuple[int, Item]] = field(default_factory=list)
    into: deque[tuple[str, pa.RecordBatch]] = field(default_factory=deque)


def restored_rows(
    manifest: Manifest,
    read: Callable[[TaskSnapshot], SnapshotReader],
    inputs: Iterable[pb.InputEdge],
    steps: Sequence[str],
    task: tuple[int, int],
) -> RestoredRows:
    """The rows in flight that task `task` (its number, of how many) goes on with.

    `inputs` are its edges, `steps` the paths of its steps, from the leaves to the root. Rows into
    the last steps come first: they were ahead of those that earlier steps have still to work on.
    """
    found, places = RestoredRows(), {step: place for place, step in enumerate(steps)}
    edges = {edge.node_path: edge for edge in inputs if edge.mode == pb.MODE_PIPELINED}
    for snapshot in manifest.inflight():
        path = snapshot.node.removesuffix(INFLIGHT)
        edge, step = edges.get(path), path.rpartition("/")[0]
        if edge is None and step not in places:
            continue
        for producer, batch in _own(snapshot, read, edge, task):
            if edge is None:
                found.into.append((step, batch))
            else:
                _check_schema(path, batch.schema, read_schema(edge.schema))
                found.items.append((edge.edge, Rows(_producer(edge, producer), batch)))
    found.into = deque(sorted(found.into, key=lambda one: -places[one[0]]))
    return found


def _own(
    snapshot: TaskSnapshot,
    read: Callable[[TaskSnapshot], SnapshotReader],
    edge: pb.InputEdge | None,
    task: tuple[int, int],
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of an old task that are this task's now, by producer."""
    number, n_tasks = task
    groups, theirs = key_groups(number, n_tasks), snapshot.key_groups
    keys = list(edge.keys) if edge is not None and edge.kind == pb.EDGE_HASH else []
    if keys and (theirs.stop <= groups.start or theirs.start >= groups.stop):
        return
    if not keys and snapshot.task % n_tasks != number:
        return
    is_whole = groups.start <= theirs.start and theirs.stop <= groups.stop
    reader = read(snapshot)
    for name in reader.names():
        with pa.ipc.open_stream(reader.read(name)) as batches:
            for batch in batches:
                rows = batch if not keys or is_whole else _of_groups(batch, keys, groups)
                if rows.num_rows:
                    yield int(name.partition(".")[0]), rows


def _of_groups(batch: pa.RecordBatch, keys: list[str], groups: range) -> pa.RecordBatch:
    found = group_of(hash_columns([batch.column(name) for name in keys]))
    return batch.filter(pa.array((found >= groups.start) & (found < groups.stop)))


def _producer(edge: pb.InputEdge, number: int) -> int:
    """A producer of the edge, the same for all rows of an old one."""
    producers = sorted(producer.task for producer in edge.producers)
    return number if number in producers else producers[number % len(producers)]


def _check_schema(path: str, there: pa.Schema, wanted: pa.Schema) -> None:
    if there.names != wanted.names or there.types != wanted.types:
        raise DataError(
            f"the checkpoint has rows in flight at {path} with the columns {there.names}, and this "
            f"plan needs {wanted.names}; run the program that wrote it"
        )
