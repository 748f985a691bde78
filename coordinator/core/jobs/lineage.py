"""Who reads what: the tasks before and after a task.

One job: `producers_of` and `readers_of`, from the stage graph alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric.coordinator.planner.stages import Edge, StageGraph

Key = tuple[int, int]
"""(stage, task)."""


def readers_of(graph: StageGraph, key: Key) -> Iterator[Key]:
    """The tasks that read rows of task `key`."""
    for edge in graph.outputs[key[0]]:
        if edge.is_result:
            continue
        for reader in range(graph.stages[edge.consumer].n_tasks):
            if _reads(graph, edge, reader, key[1]):
                yield edge.consumer, reader


def producers_of(graph: StageGraph, key: Key) -> Iterator[Key]:
    """The tasks whose rows task `key` reads."""
    for edge in graph.inputs[key[0]]:
        for producer in range(graph.stages[edge.producer].n_tasks):
            if _reads(graph, edge, key[1], producer):
                yield edge.producer, producer


def _reads(graph: StageGraph, edge: Edge, reader: int, producer: int) -> bool:
    read = graph.stages[edge.consumer].read(edge.edge, reader)
    begin, end = read.partitions if read is not None else (reader, reader + 1)
    if read is not None and read.producers is not None:
        first, last = read.producers
        if not first <= producer < last:
            return False
    return edge.kind != "forward" or begin <= producer % edge.n_partitions < end
