"""Which edges are pipelined, and which stages therefore run together.

Stages joined by pipelined edges form a region, whose tasks all run at once. The consumer of a
pipelined edge must be a chain, since a fragment waits for all of its input. An edge inside a region
can't be materialised, nor can one leave a region and come back: the consumer would wait for a
producer that waits for it. Such plans are refused.

`materialised` takes apart a region that can't run at once: its pipelined edges become materialised
ones, and its stages regions of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fabric.coordinator.planner.stages import RESULT, Edge, EdgeMode, StageGraph
from fabric.errors import PlanError
from fabric.plan.nodes import (
    NODES,
    ROW_BY_ROW,
    ExchangeMode,
    Limit,
    Match,
    Node,
    Sink,
    StageInput,
    Union,
)
from fabric.plan.walk import walk

_OF_STREAM = tuple(kind for kind in NODES if kind.OF_STREAM)
_CHAINABLE: tuple[type[Node], ...] = (*ROW_BY_ROW, Union, Limit, StageInput, *_OF_STREAM)


def edge_modes(
    edges: Sequence[Edge],
    wanted: Mapping[int, ExchangeMode],
    consumers: Mapping[int, int],
    roots: Mapping[int, Node],
) -> dict[int, EdgeMode]:
    """The mode of every edge, by what is `wanted` of it.

    "auto" is materialised unless both ends run together anyway.
    """
    piped = [edge for edge in edges if wanted[edge.edge] == "pipelined" and not edge.is_result]
    region = _joined(roots, [(e.producer, consumers[e.edge]) for e in piped])
    modes: dict[int, EdgeMode] = {}
    for edge in edges:
        consumer = consumers[edge.edge]
        together = consumer != RESULT and region[edge.producer] == region[consumer]
        if together and wanted[edge.edge] == "materialised":
            raise PlanError(
                "this exchange can't be materialised, because its two ends are also joined by a "
                "pipelined one and run together; make both pipelined or both materialised",
                node=edge.path,
            )
        modes[edge.edge] = "pipelined" if together else "materialised"
        if together and (bad := _not_chainable(roots[consumer])) is not None:
            raise PlanError(
                f"the exchange can't be pipelined, because {type(bad).__name__.lower()} "
                f"{bad.path!r} after it needs its whole input first; leave 'pipelined' out",
                node=edge.path,
            )
    return modes


def regions(
    order: Sequence[int],
    edges: Sequence[Edge],
    consumers: Mapping[int, int],
    modes: Mapping[int, EdgeMode],
) -> dict[int, int]:
    """Region by stage, counted in the order of their first stages; refuses circles."""
    inner = [e for e in edges if not e.is_result and modes[e.edge] == "pipelined"]
    root = _joined(dict.fromkeys(order), [(e.producer, consumers[e.edge]) for e in inner])
    names: dict[int, int] = {}
    for stage in order:
        names.setdefault(root[stage], len(names))
    found = {stage: names[root[stage]] for stage in order}
    outer = [e for e in edges if not e.is_result and modes[e.edge] == "materialised"]
    _refuse_circles(found, outer, consumers)
    return found


def _joined(stages: Mapping[int, object], pairs: Sequence[tuple[int, int]]) -> dict[int, int]:
    """A representative of each stage's set, after joining every pair."""
    parent = {stage: stage for stage in stages}

    def find(stage: int) -> int:
        while parent[stage] != stage:
            parent[stage] = parent[parent[stage]]
            stage = parent[stage]
        return stage

    for a, b in pairs:
        parent[find(a)] = find(b)
    return {stage: find(stage) for stage in stages}


def _not_chainable(root: Node) -> Node | None:
    """The node nearest to the input that no chain can run; a sink may be on top."""
    return next(
        (
            node
            for node in walk(root)
            if not _is_chainable(node) and not (node is root and isinstance(node, Sink))
        ),
        None,
    )


def _is_chainable(node: Node) -> bool:
    return isinstance(node, _CHAINABLE) or (isinstance(node, Match) and node.endless)


def _refuse_circles(
    region: Mapping[int, int], edges: Sequence[Edge], consumers: Mapping[int, int]
) -> None:
    waiting = [(region[edge.producer], region[consumers[edge.edge]], edge) for edge in edges]
    alive = set(region.values())
    while alive:
        blocked = {to for source, to, _ in waiting if source in alive and to in alive}
        if blocked == alive:
            edge = next(e for source, to, e in waiting if source in alive and to in alive)
            raise PlanError(
                "this materialised exchange leaves stages that are joined by pipelined ones and "
                "leads back to them, so both would wait for each other; make it pipelined too",
                node=edge.path,
            )
        alive = blocked


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
