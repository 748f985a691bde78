"""A stage graph as one plan again: what people look at while it runs.

One job: `joined` puts each stage under the inputs that read it, with an exchange between, and
`explain` shows that. Exchanges by range, which no plan of a user can have, are drawn too.
"""

from __future__ import annotations

from functools import partial
from typing import cast

from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.planner.stages import StageGraph, graph_text
from fabric.coordinator.planner.states import state_lines
from fabric.plan.nodes import Exchange, ExchangeKind, Node, SideOutput, StageInput
from fabric.plan.printer import tree
from fabric.plan.svg import svg
from fabric.plan.walk import rewrite


def joined(graph: StageGraph) -> Node:
    """The plan of the whole graph, from its sources to its result."""
    edges = {edge.edge: edge for edge in graph.edges}
    done: dict[int, Node] = {}

    def below(node: Node) -> Node:
        if not isinstance(node, StageInput):
            return node
        edge = edges[node.edge]
        kind = cast(ExchangeKind, edge.kind)
        made = done[edge.producer]
        return Exchange(
            SideOutput(made, edge.side, path=f"{edge.path}/side") if edge.side else made,
            kind,
            edge.keys if edge.kind == "hash" else (),
            edge.n_partitions,
            edge.mode,
            edge.compression,
            path=edge.path,
        )

    for stage in _producers_first(graph):
        done[stage] = rewrite(graph.stages[stage].root, below)
    return done[graph.result.producer]


def explain(graph: StageGraph, checkpoint: CheckpointConfig) -> pb.ExplainReply:
    """What is known of a job's plan while it runs, also after it was planned anew."""
    root = joined(graph)
    stages = graph_text(graph, partial(state_lines, graph, config=checkpoint))
    return pb.ExplainReply(optimised=tree(root), stages=stages, svg=svg(root))


def _producers_first(graph: StageGraph) -> list[int]:
    """Stage numbers; an added stage comes last in the graph, wherever its rows go."""
    left = {stage.stage for stage in graph.stages}
    ordered: list[int] = []
    while left:
        ready = [s for s in sorted(left) if left.isdisjoint(e.producer for e in graph.inputs[s])]
        ordered += ready
        left.difference_update(ready)
    return ordered
