"""Where a task of a stream begins: what its operators are told, and what its checkpoint has of it.

One job: `context_of`, `splits_of`, and `Restored`, which hands every part of a task its own; in the
process where that part is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

from fabric import failpoints
from fabric.agent.outputs import Outputs
from fabric.agent.slot import slot_pb2 as sp
from fabric.agent.stream_tasks.inflight import (
    InflightEdge,
    RestoredRows,
    restored_rows,
    steps_of,
)
from fabric.agent.stream_tasks.sinks import Results, StreamSink
from fabric.checkpoint.manifest import Manifest, Seal
from fabric.checkpoint.places import Storage
from fabric.config import StateBackend
from fabric.control import control_pb2 as pb
from fabric.io.readers.reader import StreamReader
from fabric.operators.chain import Chain
from fabric.operators.contract import Context
from fabric.operators.snapshots import key_groups
from fabric.plan.nodes import Node, StreamScan
from fabric.plan.sources import Split
from fabric.plan.stream_facts import task_of
from fabric.plan.walk import walk
from fabric.state.backend import SnapshotReader


def context_of(node: str, begin: sp.Begin) -> Context:
    """The context of a chain below `node`."""
    return Context(
        node, begin.task, begin.n_tasks, Path(begin.scratch),
        states={path: state_of(state) for path, state in begin.stream.states.items()},
    )  # fmt: skip


def state_of(node: pb.NodeState) -> tuple[StateBackend, int | None]:
    """Where a node keeps its state, and how much of it may be in memory."""
    named = (name for name in get_args(StateBackend) if name == node.state)
    state: StateBackend = next(named, "memory")
    return state, node.bytes if node.HasField("bytes") else None


def splits_of(begin: sp.Begin) -> dict[int, Sequence[str]]:
    """What the task reads, by the chain's edges."""
    return {each.edge: each.names for each in begin.splits}


class Restored:
    """Of task `task` of `n_tasks` of a job; nothing where `stream` names no checkpoint."""

    def __init__(self, storage: Storage, task: int, n_tasks: int, stream: pb.StreamDeploy) -> None:
        self._storage, self._task, self._n_tasks = storage, task, n_tasks
        self._manifest: Manifest | None = None
        if stream.checkpoint:
            failpoints.reach("stream.restoring")
            seal = Seal(stream.seal_bytes, stream.seal_crc32c)
            self._manifest = storage.load(stream.state, stream.checkpoint, seal)

    def splits(self, top: Node, given: Mapping[int, Sequence[Split]]) -> dict[int, list[Split]]:
        """What the task reads, by scan: what it is given, and what was found while it ran before.

        Those have their places in event time, too, so whoever keeps these must know them by now.
        """
        found = {scan: list(splits) for scan, splits in given.items()}
        if self._manifest is None:
            return found
        for node in walk(top):
            if isinstance(node, StreamScan) and node.source.FINDS_SPLITS:
                mine = found.setdefault(node.scan_id, [])
                known = {split.uri for split in mine}
                for name in sorted(self._manifest.positions(node.path).keys() - known):
                    if task_of(name, self._n_tasks) == self._task:
                        mine.append(Split(name))
        return found

    def chain(self, chain: Chain) -> None:
        """The state of every operator."""
        if self._manifest is not None:
            groups = key_groups(self._task, self._n_tasks)
            chain.restore(lambda path: [r for _, r in self._of(path)], groups)
            failpoints.reach("stream.state-restored")

    def sink(self, sink: StreamSink | None) -> None:
        """How many rows were written, which the first task counts of all, and a sink's state."""
        if sink is not None and self._manifest is not None:
            readers = [reader for _, reader in self._of(sink.node)]
            sink.restore(readers, key_groups(self._task, self._n_tasks), counts=self._task == 0)

    def results(self, node: str, results: Results | None, outputs: Outputs) -> None:
        """Rows that wait for whoever collects them."""
        if results is None:
            return
        for task, reader in self._of(node):
            if task % self._n_tasks == self._task:
                for batch in results.restore([reader]):
                    outputs.write(batch)

    def inflight(self, root: Node, edges: Sequence[InflightEdge]) -> RestoredRows:
        """Rows that were on their way to the task."""
        if (manifest := self._manifest) is None:
            return RestoredRows()
        return restored_rows(
            manifest, lambda snapshot: self._storage.reader(manifest, snapshot), edges,
            steps_of(root), (self._task, self._n_tasks),
        )  # fmt: skip

    def sources(
        self,
        readers: Mapping[int, tuple[str, StreamReader]],
        splits: Mapping[int, Sequence[Split]],
    ) -> None:
        """Where each split goes on."""
        if self._manifest is None:
            return
        failpoints.reach("stream.restored")
        for edge, (path, reader) in readers.items():
            mine = {split.uri for split in splits.get(-1 - edge, [])}
            positions = self._manifest.positions(path)
            reader.seek({split: at for split, at in positions.items() if split in mine})

    def _of(self, node: str) -> Iterator[tuple[int, SnapshotReader]]:
        if self._manifest is not None:
            for snapshot in self._manifest.of_node(node):
                yield snapshot.task, self._storage.reader(self._manifest, snapshot)
