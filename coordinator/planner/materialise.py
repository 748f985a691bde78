"""A pipelined region that can't run at once, made one that need not.

One job: `materialised`: the pipelined edges inside a region become materialised ones, and its
stages regions of their own.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.planner.stages import StageGraph


def materialised(graph: StageGraph, region: int) -> StageGraph:
    """`graph` without the pipelined edges of `region`."""
    inside = {stage.stage for stage in graph.stages if stage.region == region}
    free = max(stage.region for stage in graph.stages) + 1
    numbers = {stage: free + n for n, stage in enumerate(sorted(inside)[1:])}
    stages = tuple(
        replace(stage, region=numbers.get(stage.stage, stage.region)) for stage in graph.stages
    )
    edges = tuple(
        replace(edge, mode="materialised")
        if edge.producer in inside and edge.consumer in inside
        else edge
        for edge in graph.edges
    )
    return StageGraph(stages, edges)
