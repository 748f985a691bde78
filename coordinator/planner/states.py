"""Where the nodes of a stream keep their state, by what the job was configured with.

One job: what a task is told, `state_bytes`, and what a person is told, `state_lines`.
"""

from __future__ import annotations

from fabric.config import CheckpointConfig
from fabric.coordinator.planner.stages import Stage, StageGraph
from fabric.plan.nodes import Node
from fabric.plan.stream_kinds import hands_down
from fabric.plan.streams import KeyedProcess
from fabric.plan.walk import walk


def state_bytes(graph: StageGraph, config: CheckpointConfig) -> int:
    """What each node that hands state down may have in memory; 0: all it wants.

    The tasks of a job with the same number share a slot, and their nodes share its `state_memory`.
    """
    if config.state not in ("arrow", "tonbo", "auto"):
        return 0
    nodes = (node for stage in graph.stages for node in walk(stage.root))
    return max(1, config.state_memory // max(1, sum(map(hands_down, nodes))))


def state_lines(graph: StageGraph, stage: Stage, config: CheckpointConfig) -> list[str]:
    """A line for each node of a stage that knows something of its keys."""
    room = state_bytes(graph, config)
    return [
        f"state of {node.path}: {_where(node, config, room)}"
        for node in walk(stage.root)
        if isinstance(node, KeyedProcess) or hands_down(node)
    ]


def _where(node: Node, config: CheckpointConfig, room: int) -> str:
    if isinstance(node, KeyedProcess):
        return "in RocksDB" if config.state in ("rocksdb", "auto") else "in memory"
    if room:
        engine = "tonbo" if config.state == "tonbo" else "arrow"
        return f"up to {room:,} bytes of a task in memory, more in files ({engine})"
    return "in memory"
