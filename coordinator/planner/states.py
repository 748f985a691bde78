"""Where the nodes of a stream keep their state, by what job and nodes were configured with.

One job: what a task is told, `node_states`, and what a person is told, `state_lines`.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric.config import CheckpointConfig, StateBackend
from fabric.control import control_pb2 as pb
from fabric.coordinator.planner.stages import Stage, StageGraph
from fabric.plan.nodes import Node, NodeConfig, Sink
from fabric.plan.walk import walk
from fabric.state.column_stores import column_engine


def node_states(
    graph: StageGraph, stage: Stage, config: CheckpointConfig
) -> dict[str, pb.NodeState]:
    """Of each node of a stage that keeps state, by path: where, and how much in memory, if not all.

    The tasks of a job with the same number share a slot. Its nodes share the job's `state_memory`
    in equal parts, but for those that have a budget of their own.
    """
    shared = max(1, config.state_memory // max(1, _n_sharing(graph, config)))
    found = {}
    for node, own in _keeping(stage):
        state = own.state or config.state
        room = own.state_memory or shared
        in_files = _has_files(node, state)
        found[node.path] = pb.NodeState(state=state, bytes=room if in_files else None)
    return found


def state_lines(graph: StageGraph, stage: Stage, config: CheckpointConfig) -> list[str]:
    """A line for each node of a stage that knows something of its keys."""
    found = node_states(graph, stage, config)
    return [
        f"state of {node.path}: {_where(node, found[node.path])}" for node, _ in _keeping(stage)
    ]


def _where(node: Node, told: pb.NodeState) -> str:
    if isinstance(node, Sink):
        return "in memory" if told.state in ("memory", "rocksdb") else "in files (arrow)"
    if told.HasField("bytes"):
        engine = "tonbo" if told.state == "tonbo" else "arrow"
        return f"up to {told.bytes:,} bytes of a task in memory, more in files ({engine})"
    return "in RocksDB" if told.state in ("rocksdb", "auto") else "in memory"


def _keeping(stage: Stage) -> Iterator[tuple[Node, NodeConfig]]:
    """The nodes of a stage that keep state, and what was said of it."""
    given = dict(stage.states)
    for node in walk(stage.root):
        if node.state_places:
            yield node, given.get(node.path, NodeConfig())


def _has_files(node: Node, state: StateBackend) -> bool:
    """Whether it hands groups down once its budget is spent."""
    return node.hands_down and column_engine(state) != "memory"


def _n_sharing(graph: StageGraph, config: CheckpointConfig) -> int:
    """How many nodes share the job's budget."""
    every = (each for stage in graph.stages for each in _keeping(stage))
    return sum(
        own.state_memory is None and _has_files(node, own.state or config.state)
        for node, own in every
    )
