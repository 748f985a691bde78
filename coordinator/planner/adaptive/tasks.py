"""Other tasks for one stage: `Tasks`, what each of them reads, and `rewired`, which puts them in.

Task numbers change, so stages that are sent rows straight on follow; a stage that is cut sends its
parts to an added one, which goes on as the old one did:

    S: f(Aggregate(X)) ── out     S: partial(X) ── hash by the keys ── N: f(final) ── out

Edges and stages keep their numbers: agents and clients know them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fabric.coordinator.planner.adaptive.distribution import Cut
from fabric.coordinator.planner.adaptive.sizes import straight
from fabric.coordinator.planner.aggregates import final_of, partial_of
from fabric.coordinator.planner.stages import Edge, Read, Stage, StageGraph
from fabric.plan.expr import output_name
from fabric.plan.nodes import Aggregate, Node, StageInput
from fabric.plan.schema import schema_of
from fabric.plan.walk import rewrite

TaskReads = dict[int, Read]
"""Of one task: what it reads of each measured edge, by edge."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """What every task reads; `why` for people; `cut` as in `Dealing`."""

    reads: tuple[TaskReads, ...]
    why: tuple[str, ...]
    cut: Cut | None = None


def whole(edges: Iterable[Edge], begin: int, end: int) -> TaskReads:
    """Partitions [begin, end) of each of `edges`."""
    return {edge.edge: Read((begin, end)) for edge in edges}


def even(weights: Sequence[int], n: int) -> list[tuple[int, int]]:
    """All of `weights` in at most `n` ranges of about equal weight; none is without weight.

    >>> even([3, 1, 2, 0, 6], 2), even([0, 5, 0], 3)
    ([(0, 4), (4, 5)], [(0, 3)])
    """
    total, before = sum(weights), 0
    ranges: list[tuple[int, int]] = []
    last = -1
    for index, weight in enumerate(weights):
        part = (2 * before + weight) * n // (2 * total) if total else 0
        if ranges and (part == last or not weight or not sum(weights[slice(*ranges[-1])])):
            ranges[-1] = (ranges[-1][0], index + 1)
        else:
            ranges.append((index, index + 1))
        last = part if weight else last
        before += weight
    return ranges


def mib(n_bytes: int) -> str:
    """Bytes for people.

    >>> mib(3), mib(5 << 20)
    ('3 bytes', '5.0 MiB')
    """
    if n_bytes < 1 << 10:
        return f"{n_bytes} bytes"
    unit, name = (20, "MiB") if n_bytes >= 1 << 20 else (10, "KiB")
    return f"{n_bytes / (1 << unit):,.1f} {name}"


def rewired(graph: StageGraph, stage: Stage, tasks: Tasks) -> StageGraph:
    """`graph` with `tasks` for `stage`, which has not started."""
    changed = replace(
        stage,
        n_tasks=len(tasks.reads),
        reads=tuple(
            (edge.edge, tuple(reads.get(edge.edge, Read((0, 1))) for reads in tasks.reads))
            for edge in graph.inputs[stage.stage]
        ),
        adapted=(*stage.adapted, *tasks.why),
    )
    if tasks.cut is not None:
        return _cut(graph, changed, stage.n_tasks, tasks.cut)
    stages, edges = {stage.stage: changed}, dict[int, Edge]()
    _follow(graph, stage, changed.n_tasks, stages, edges)
    return _with(graph, stages, edges)


def _follow(
    graph: StageGraph, stage: Stage, n: int, stages: dict[int, Stage], edges: dict[int, Edge]
) -> None:
    """The edges out of `stage` that have a partition a task, and the stages behind them."""
    for edge in graph.outputs[stage.stage]:
        if edge.kind == "forward":
            edges[edge.edge] = replace(edge, n_partitions=n)
    for edge in straight(graph, stage):
        consumer = graph.stages[edge.consumer]
        all_rows = tuple(Read((0, 1)) for _ in range(n))
        others = [e for e in graph.inputs[edge.consumer] if e is not edge]
        reads = tuple((other.edge, all_rows) for other in others)
        stages[edge.consumer] = replace(consumer, n_tasks=n, reads=reads)
        _follow(graph, consumer, n, stages, edges)


def _cut(graph: StageGraph, stage: Stage, n: int, cut: Cut) -> StageGraph:
    partial = partial_of(cut, cut.input) if isinstance(cut, Aggregate) else cut
    added, number = len(graph.stages), len(graph.edges)
    schema = schema_of(partial)
    if isinstance(cut, Aggregate):
        keys = tuple(output_name(key) for key in cut.keys)
    else:
        keys = tuple(schema.names)
    merge = Edge(
        edge=number,
        path=_unused(graph, f"{cut.path}/exchange"),
        producer=stage.stage,
        consumer=added,
        kind="hash",
        mode="materialised",
        n_partitions=n,
        keys=keys,
        schema=schema,
        compression=graph.inputs[stage.stage][0].compression,
        adaptive=True,
    )
    leaf = StageInput(number, schema, path=merge.path)
    whole: Node = replace(cut, input=leaf)
    if isinstance(cut, Aggregate):
        whole = final_of(cut, leaf)
    rest = replace(
        stage,
        stage=added,
        root=rewrite(stage.root, lambda node: whole if node is cut else node),
        n_tasks=n,
        region=1 + max(each.region for each in graph.stages),
        reads=(),
        adapted=(f"merges the parts of {cut.path} that stage {stage.stage} makes",),
        added=True,
    )
    parts = replace(stage, root=partial, path=partial.path, is_sink=False)
    moved = {e.edge: replace(e, producer=added) for e in graph.outputs[stage.stage]}
    return _with(graph, {stage.stage: parts, added: rest}, moved | {number: merge})


def _unused(graph: StageGraph, path: str) -> str:
    known = {edge.path for edge in graph.edges}
    while path in known:
        path += "_"
    return path


def _with(graph: StageGraph, stages: dict[int, Stage], edges: dict[int, Edge]) -> StageGraph:
    """`graph` with these in the places of their numbers."""
    all_stages = {stage.stage: stage for stage in graph.stages} | stages
    all_edges = {edge.edge: edge for edge in graph.edges} | edges
    return StageGraph(tuple(all_stages.values()), tuple(all_edges.values()))
