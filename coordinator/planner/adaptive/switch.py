"""A side of a join that turned out small goes to every task.

    Join                          Join
      L by key ── task p reads  =>  L: task i reads what producer i wrote, where it lies
      R by key    partition p       R: every task reads all of it

One job: see when. The rows of the large side stay on their agents, and no key is hot any more. That
costs a copy of the small side a task: it must be small (`broadcast_bytes`), and all copies together
must be less than the large side. With several joins of the same keys, all other sides must be.
"""

from __future__ import annotations

from fabric.config import AdaptiveConfig
from fabric.coordinator.planner.adaptive.dealing import dealing
from fabric.coordinator.planner.adaptive.measured import Inputs
from fabric.coordinator.planner.adaptive.tasks import TaskReads, Tasks, even, mib
from fabric.coordinator.planner.stages import Read, Stage, StageGraph
from fabric.plan.nodes import Join
from fabric.plan.walk import walk

_SLACK = 1.5
"""The largest task may become so much larger: producers are seldom perfectly even."""


def switch(
    graph: StageGraph, stage: Stage, inputs: Inputs, settings: AdaptiveConfig
) -> Tasks | None:
    """Tasks that read one edge where it lies, and all others whole."""
    large = max(inputs.edges, key=inputs.of_edge)
    others = [edge for edge in inputs.edges if edge is not large]
    small_bytes = sum(map(inputs.of_edge, others))
    producers = inputs.producers(large)
    groups = even(producers, len(producers))
    n_bytes = inputs.of_edge(large)
    if not others or len(groups) < 2 or large.kind != "hash" or _wants_hash(stage):
        return None
    if small_bytes > settings.broadcast_bytes or small_bytes * len(groups) > n_bytes:
        return None
    if max(producers) + small_bytes > _SLACK * max(inputs.tasks()):
        return None
    if (found := dealing(graph, stage, large.edge)) is None:
        return None
    everything = (0, inputs.n_partitions)
    reads: list[TaskReads] = [
        {edge.edge: Read(everything) for edge in others} | {large.edge: Read(everything, group)}
        for group in groups
    ]
    names = ", ".join(edge.path for edge in others)
    why = (
        f"{names} turned out small ({mib(small_bytes)}): broadcast instead of hash; each of "
        f"{len(groups)} tasks reads its part of {large.path} ({mib(n_bytes)}) where it lies"
    )
    return Tasks(tuple(reads), (why,), found.cut)


def _wants_hash(stage: Stage) -> bool:
    return any(isinstance(node, Join) and node.strategy == "hash" for node in walk(stage.root))
