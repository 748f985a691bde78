"""Which stages a node path means.

One job: `stages_from`: the stages that have to run again when a node is to.
"""

from __future__ import annotations

import difflib

from fabric.coordinator.planner.stages import StageGraph
from fabric.errors import NotFoundError
from fabric.plan.walk import walk


def stages_from(graph: StageGraph, path: str) -> frozenset[int]:
    """The stage of the node (or of all nodes below the path), and all stages that follow.

    Raises `NotFoundError` for a path that no node has, with the nearest that one does.
    """
    paths = {stage.stage: _paths(graph, stage.stage) for stage in graph.stages}
    begin = path.rstrip("/") + "/"
    found = {
        stage
        for stage, known in paths.items()
        if path in known or any(name.startswith(begin) for name in known)
    }
    if not found:
        known = sorted({name for names in paths.values() for name in names})
        near = difflib.get_close_matches(path, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known[:20])}"
        raise NotFoundError(f"the job has no node {path[:128]!r}; {hint}")
    pending = list(found)
    while pending:
        for edge in graph.outputs[pending.pop()]:
            if not edge.is_result and edge.consumer not in found:
                found.add(edge.consumer)
                pending.append(edge.consumer)
    return frozenset(found)


def _paths(graph: StageGraph, stage: int) -> set[str]:
    """Of the nodes of a stage and of the exchanges that leave it."""
    nodes = {node.path for node in walk(graph.stages[stage].root)}
    return {*nodes, *(edge.path for edge in graph.outputs[stage])} - {""}
