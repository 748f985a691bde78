"""What is changed of a stage just before it starts.

`adapted` tries the rules in turn. A stage whose rows are few is coalesced; else a side that turned
out small is broadcast; else hot partitions are split and tiny ones coalesced. Pure: sizes, settings
and slots come in, a graph comes out.

A side of a join that turned out small goes to every task:

    Join                          Join
      L by key ── task p reads  =>  L: task i reads what producer i wrote, where it lies
      R by key    partition p       R: every task reads all of it

The rows of the large side stay on their agents, and no key is hot any more. That costs a copy of
the small side a task: it must be small (`broadcast_bytes`), and all copies together must be less
than the large side. With several joins of the same keys, all other sides must be.
"""

from __future__ import annotations

from fabric.config import AdaptiveConfig
from fabric.coordinator.planner.adaptive.distribution import dealing
from fabric.coordinator.planner.adaptive.sizes import Inputs, Sizes, inputs_of
from fabric.coordinator.planner.adaptive.split import split_and_coalesce
from fabric.coordinator.planner.adaptive.tasks import TaskReads, Tasks, even, mib, rewired
from fabric.coordinator.planner.stages import Read, Stage, StageGraph
from fabric.plan.nodes import Join
from fabric.plan.walk import walk


def adapted(
    graph: StageGraph, number: int, sizes: Sizes, settings: AdaptiveConfig, n_slots: int
) -> StageGraph:
    """`graph` with other tasks for stage `number`; itself when those it has are fine.

    Parameters
    ----------
    number
        A stage whose inputs are complete and which has not started.
    sizes
        What was measured of the adaptive edges into it.
    n_slots
        Tasks that may run at once.
    """
    stage = graph.stages[number]
    inputs = inputs_of(graph, stage, sizes) if settings.enabled else None
    if inputs is None:
        return graph
    tasks = None
    if inputs.n_bytes > settings.tiny_bytes:
        tasks = switch(graph, stage, inputs, settings)
    if tasks is None:
        tasks = split_and_coalesce(graph, stage, inputs, settings, n_slots)
    return graph if tasks is None else rewired(graph, stage, tasks)


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
