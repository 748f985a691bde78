"""What a stage is about to read, as its producers measured it.

One job: `Inputs`, the bytes of every partition of the edges into one stage, by producer. A producer
tells at most 128 numbers an edge, so the coordinator keeps O(tasks); they are dropped as soon as
the stage has started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabric.coordinator.planner.stages import Edge, Stage, StageGraph
from fabric.plan.nodes import Scan
from fabric.plan.walk import walk

Sizes = Mapping[int, Sequence[Sequence[int]]]
"""Bytes by edge, producer and partition."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The edges into a stage of which each task reads its part, and their bytes."""

    edges: tuple[Edge, ...]
    sizes: Sizes

    @property
    def n_partitions(self) -> int:
        """Of each of them."""
        return self.edges[0].n_partitions

    @property
    def n_bytes(self) -> int:
        """All of all."""
        return sum(self.of_edge(edge) for edge in self.edges)

    def of_edge(self, edge: Edge) -> int:
        """All bytes of an edge."""
        return sum(map(sum, self.sizes[edge.edge]))

    def partitions(self, edge: Edge) -> list[int]:
        """The bytes of each partition."""
        return [sum(each) for each in zip(*self.sizes[edge.edge], strict=True)]

    def producers(self, edge: Edge) -> list[int]:
        """What each producer wrote."""
        return [sum(each) for each in self.sizes[edge.edge]]

    def tasks(self) -> list[int]:
        """What each task would read: its partition of every edge."""
        return [sum(each) for each in zip(*map(self.partitions, self.edges), strict=True)]


def inputs_of(graph: StageGraph, stage: Stage, sizes: Sizes) -> Inputs | None:
    """What `stage` reads, when its tasks may be made anew: every edge is adaptive and measured.

    Not when it scans (its splits are dealt), runs with others, or sends its rows to a stage that
    could not follow.
    """
    edges = tuple(e for e in graph.inputs[stage.stage] if e.kind not in ("broadcast", "gather"))
    known = all(edge.adaptive and len(sizes.get(edge.edge, ())) > 0 for edge in edges)
    if not edges or not known or stage.reads or not _is_free(graph, stage):
        return None
    return Inputs(edges, sizes) if edges[0].n_partitions > 1 else None


def _is_free(graph: StageGraph, stage: Stage) -> bool:
    """Whether `stage` and those that read its rows straight on may get another number of tasks."""
    alone = sum(other.region == stage.region for other in graph.stages) == 1
    if not alone or any(isinstance(node, Scan) for node in walk(stage.root)):
        return False
    return all(
        _is_free(graph, graph.stages[edge.consumer])
        and all(e is edge or e.kind == "broadcast" for e in graph.inputs[edge.consumer])
        for edge in straight(graph, stage)
    )


def straight(graph: StageGraph, stage: Stage) -> list[Edge]:
    """The edges by which task i of `stage` sends its rows to task i of another stage."""
    outputs = graph.outputs[stage.stage]
    return [edge for edge in outputs if edge.kind == "forward" and not edge.is_result]
