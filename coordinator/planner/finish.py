"""The draft made whole: shared work, modes, regions, splits, numbers.

One job: a `StageGraph` from a `Draft`. Stages are numbered so that producers come first; splits are
dealt to tasks in contiguous blocks, so that task after task reads the source in order; those of a
stream in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fabric.coordinator.planner.draft import Draft
from fabric.coordinator.planner.regions import edge_modes, regions
from fabric.coordinator.planner.share import cut_shared
from fabric.coordinator.planner.sorts import in_order
from fabric.coordinator.planner.stages import (
    RESULT,
    Edge,
    EdgeMode,
    ScanSplits,
    Stage,
    StageGraph,
)
from fabric.plan.nodes import MapAsync, Node, NodeConfig, Scan, Sink, StageInput, StreamScan
from fabric.plan.sources import Split
from fabric.plan.stream_facts import task_of
from fabric.plan.walk import rewrite, walk


def finish(
    draft: Draft,
    scans: Sequence[Scan | StreamScan],
    splits: Mapping[str, Sequence[Split]],
    config: Mapping[str, NodeConfig],
) -> StageGraph:
    """Number and complete the stages of `draft`."""
    cut_shared(draft)
    consumers = _consumers(draft)
    order = _order(draft, consumers)
    number = {old: new for new, old in enumerate(order)}
    roots = {old: draft.stages[old].root for old in order}
    modes = edge_modes(draft.edges, draft.modes, consumers, roots)
    region = regions(order, draft.edges, consumers, modes)
    edges = sorted(
        (_finished(draft, edge, consumers, modes, number) for edge in draft.edges),
        key=lambda edge: (edge.producer, edge.edge),
    )
    renumbered = {edge.edge: new for new, edge in enumerate(edges)}
    by_path = {scan.scan_id: tuple(splits.get(scan.path, ())) for scan in scans}
    piped = {consumers[edge.edge] for edge in draft.edges if modes[edge.edge] == "pipelined"}
    latencies = _latencies(roots, config)
    stages = tuple(
        Stage(
            stage=new,
            path=roots[old].path,
            root=_renumber(roots[old], renumbered, draft.stages[old].n_tasks),
            kind="chain" if old in piped or draft.is_endless(roots[old]) else "fragment",
            n_tasks=draft.stages[old].n_tasks,
            splits=_deal(roots[old], by_path, draft.stages[old].n_tasks),
            region=region[old],
            is_sink=isinstance(roots[old], Sink),
            latency_us=latencies.get(old),
            states=_states(roots[old], config),
        )
        for new, old in enumerate(order)
    )
    return StageGraph(stages, tuple(replace(e, edge=renumbered[e.edge]) for e in edges))


def deal(splits: Sequence[Split], n_tasks: int) -> list[tuple[Split, ...]]:
    """Splits in order, in `n_tasks` contiguous blocks of about the same weight.

    >>> a, b, c = (Split("f", i, i + 1, n_rows=10) for i in range(3))
    >>> [len(block) for block in deal([a, b, c], 2)]
    [1, 2]
    """
    weights = [max(1, split.n_bytes or split.n_rows) for split in splits]
    whole = sum(weights)
    blocks: list[list[Split]] = [[] for _ in range(n_tasks)]
    before = 0
    for split, weight in zip(splits, weights, strict=True):
        middle = 2 * before + weight
        blocks[min(n_tasks - 1, middle * n_tasks // (2 * whole))].append(split)
        before += weight
    return [tuple(block) for block in blocks]


def by_name(splits: Sequence[Split], n_tasks: int) -> list[tuple[Split, ...]]:
    """Splits of a stream that finds more of them later: each to the task that its name says."""
    return [tuple(s for s in splits if task_of(s.uri, n_tasks) == task) for task in range(n_tasks)]


def in_turn(splits: Sequence[Split], n_tasks: int) -> list[tuple[Split, ...]]:
    """Splits of a stream, which are never done: the i-th goes to task i modulo `n_tasks`."""
    return [tuple(splits[task::n_tasks]) for task in range(n_tasks)]


def _latencies(roots: Mapping[int, Node], config: Mapping[str, NodeConfig]) -> dict[int, int]:
    """The least latency of each stage's steps, where one has its own.

    A step that is no longer there, because a rule made it part of another one, may be anywhere: all
    stages are as quick as it asks for.
    """
    lost = {p: one.latency_us for p, one in config.items() if one.latency_us is not None}
    found: dict[int, list[int]] = {}
    for stage, root in roots.items():
        for node in walk(root):
            named = config.get(node.path, NodeConfig()).latency_us
            if named is not None:
                lost.pop(node.path, None)
                found.setdefault(stage, []).append(named)
    for stage in roots if lost else ():
        found.setdefault(stage, []).extend(lost.values())
    return {stage: min(named) for stage, named in found.items()}


def _states(root: Node, config: Mapping[str, NodeConfig]) -> tuple[tuple[str, NodeConfig], ...]:
    """What steps of a stage were configured with about their state."""
    given = ((node.path, config.get(node.path, NodeConfig())) for node in walk(root))
    found = {p: NodeConfig(state=one.state, state_memory=one.state_memory) for p, one in given}
    return tuple(sorted((p, one) for p, one in found.items() if one != NodeConfig()))


def _consumers(draft: Draft) -> dict[int, int]:
    """The stage that reads each edge; `RESULT` for the result."""
    found = {edge.edge: RESULT for edge in draft.edges}
    for number, stage in enumerate(draft.stages):
        for node in walk(stage.root):
            if isinstance(node, StageInput):
                found[node.edge] = number
    return found


def _order(draft: Draft, consumers: Mapping[int, int]) -> list[int]:
    """Stages with producers first, and those only that lead to the result."""
    producers: dict[int, list[int]] = {}
    for edge in draft.edges:
        producers.setdefault(consumers[edge.edge], []).append(edge.producer)
    (last,) = (edge.producer for edge in draft.edges if edge.is_result)
    order: list[int] = []
    stack: list[tuple[int, bool]] = [(last, False)]
    seen: set[int] = set()
    while stack:
        stage, ready = stack.pop()
        if ready:
            order.append(stage)
        elif stage not in seen:
            seen.add(stage)
            stack.append((stage, True))
            stack.extend((p, False) for p in reversed(producers.get(stage, [])))
    return order


def _finished(
    draft: Draft,
    edge: Edge,
    consumers: Mapping[int, int],
    modes: Mapping[int, EdgeMode],
    number: Mapping[int, int],
) -> Edge:
    consumer, kind, mode = consumers[edge.edge], edge.kind, modes[edge.edge]
    if kind == "forward" and draft.stages[edge.producer].n_tasks != edge.n_partitions:
        kind = "round_robin"  # a scan that others wanted in more tasks
    return replace(
        edge,
        producer=number[edge.producer],
        consumer=RESULT if consumer == RESULT else number[consumer],
        kind=kind,
        mode=mode,
        adaptive=edge.adaptive and mode == "materialised",
        ordered=kind == "forward" and in_order(draft.stages[edge.producer].root),
    )


def _renumber(root: Node, edges: Mapping[int, int], n_tasks: int) -> Node:
    """`root` with the final edge ids in its leaves, and the number of tasks that share a rate."""

    def one(node: Node) -> Node:
        if isinstance(node, MapAsync) and node.rate_per_s:
            return replace(node, n_tasks=n_tasks)
        if isinstance(node, StageInput) and edges[node.edge] != node.edge:
            return replace(node, edge=edges[node.edge])
        return node

    return rewrite(root, one)


def _dealing(
    scan: Scan | StreamScan,
) -> Callable[[Sequence[Split], int], list[tuple[Split, ...]]]:
    if isinstance(scan, Scan):
        return deal
    return by_name if scan.source.FINDS_SPLITS else in_turn


def _deal(
    root: Node, splits: Mapping[int, tuple[Split, ...]], n_tasks: int
) -> tuple[ScanSplits, ...]:
    """What each task scans; empty when the stage scans nothing."""
    scans = {n.scan_id: n for n in walk(root) if isinstance(n, Scan | StreamScan)}
    if not scans:
        return ()
    dealt = [
        (scan_id, _dealing(scan)(splits[scan_id], n_tasks))
        for scan_id, scan in sorted(scans.items())
    ]
    return tuple(
        tuple((scan_id, blocks[task]) for scan_id, blocks in dealt) for task in range(n_tasks)
    )
