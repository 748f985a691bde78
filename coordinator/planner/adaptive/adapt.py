"""What is changed of a stage just before it starts.

One job: `adapted`, which tries the rules in turn. A stage whose rows are few is coalesced; else a
side that turned out small is broadcast; else hot partitions are split and tiny ones coalesced.
Pure: sizes, settings and slots come in, a graph comes out.
"""

from __future__ import annotations

from fabric.config import AdaptiveConfig
from fabric.coordinator.planner.adaptive.measured import Sizes, inputs_of
from fabric.coordinator.planner.adaptive.rewire import rewired
from fabric.coordinator.planner.adaptive.split import split_and_coalesce
from fabric.coordinator.planner.adaptive.switch import switch
from fabric.coordinator.planner.stages import StageGraph


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
