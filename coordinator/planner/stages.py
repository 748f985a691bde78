"""The stage graph: what the planner makes of a plan, before any agent is chosen.

A *stage* is a piece of the plan without an exchange inside, run by `n_tasks` tasks; an *edge*
carries the rows of one stage to another, or to whoever collects the result. Task i reads partition
i of every edge into its stage. `readers_of` and `producers_of` find the tasks after and before a
task, `stages_from` the stages that have to run again when a node is to.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from fabric.errors import InternalError, NotFoundError
from fabric.plan.faults import quoted
from fabric.plan.nodes import Compression, Node, NodeConfig, StageInput, StreamScan
from fabric.plan.printer import tree
from fabric.plan.sources import Split
from fabric.plan.walk import walk

StageKind = Literal["fragment", "chain"]
EdgeKind = Literal["hash", "broadcast", "round_robin", "gather", "forward", "range"]
EdgeMode = Literal["materialised", "pipelined"]
ScanSplits = tuple[tuple[int, tuple[Split, ...]], ...]
"""For one task: the splits of every scan, by scan id."""
Key = tuple[int, int]
"""A task: (stage, number)."""

RESULT = -1
"""The consumer of the result edge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Rows of stage `producer` on their way to stage `consumer`.

    `path` is the address under which a Flight client finds the partitions. With kind "broadcast"
    every partition holds all rows; with "forward" task i writes partition i alone, and `keys`, if
    any, are those by which an earlier edge has hashed the rows; with "range" the one key is the
    number of the partition. The consumer of an `adaptive` one may be planned anew once its rows are
    measured. `ordered`: one partition after the other holds the rows as a sort put them. `side` is
    the tag of the side output of the producer's root that flows here.
    """

    edge: int
    path: str
    producer: int
    consumer: int
    kind: EdgeKind
    mode: EdgeMode
    n_partitions: int
    keys: tuple[str, ...] = ()
    schema: pa.Schema
    buffer_batches: int = 0
    compression: Compression = "none"
    adaptive: bool = False
    ordered: bool = False
    side: str = ""

    @property
    def is_result(self) -> bool:
        """Whether no stage reads it."""
        return self.consumer == RESULT


@dataclass(frozen=True, slots=True)
class Read:
    """What one task reads of an edge: partitions [begin, end), of all producers or [begin, end)."""

    partitions: tuple[int, int]
    producers: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One fragment or chain. `splits` has an entry a task, empty when nothing is scanned.

    A stage that was planned anew has `reads`: for each edge into it what each task reads; `adapted`
    says why, and `added` marks one that was not planned at first. `latency_us` is the least of what
    its steps were configured with; `states` has what was said of their state alone, by path.
    """

    stage: int
    path: str
    root: Node
    kind: StageKind
    n_tasks: int
    splits: tuple[ScanSplits, ...]
    region: int
    is_sink: bool = False
    reads: tuple[tuple[int, tuple[Read, ...]], ...] = ()
    adapted: tuple[str, ...] = ()
    added: bool = False
    latency_us: int | None = None
    states: tuple[tuple[str, NodeConfig], ...] = ()

    @property
    def reads_stream(self) -> bool:
        """Whether it reads a stream."""
        return any(isinstance(node, StreamScan) for node in walk(self.root))

    def read(self, edge: int, task: int) -> Read | None:
        """What `task` reads of an edge; None: the partition of its own number."""
        return next((reads[task] for number, reads in self.reads if number == edge), None)


@dataclass(frozen=True, slots=True)
class StageGraph:
    """All stages and edges of a job; a stage's id is its position, producers come first.

    Only an added stage comes last, wherever its rows go.
    Stages with the same `region` are joined by pipelined edges and run at once.
    """

    stages: tuple[Stage, ...]
    edges: tuple[Edge, ...]
    inputs: dict[int, tuple[Edge, ...]] = field(init=False, compare=False, repr=False)
    outputs: dict[int, tuple[Edge, ...]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        ids = range(len(self.stages))
        inputs: dict[int, list[Edge]] = {i: [] for i in ids}
        outputs: dict[int, list[Edge]] = {i: [] for i in ids}
        for edge in self.edges:
            outputs[edge.producer].append(edge)
            if not edge.is_result:
                inputs[edge.consumer].append(edge)
        for name, found in (("inputs", inputs), ("outputs", outputs)):
            object.__setattr__(self, name, {i: tuple(edges) for i, edges in found.items()})
        self._check()

    @property
    def result(self) -> Edge:
        """The one edge that no stage reads."""
        (edge,) = (e for e in self.edges if e.is_result)
        return edge

    @property
    def stream_region(self) -> int | None:
        """The region that reads streams; None: the job has an end of its own."""
        return next((stage.region for stage in self.stages if stage.reads_stream), None)

    def edge(self, number: int) -> Edge:
        """The edge of that number."""
        return next(edge for edge in self.edges if edge.edge == number)

    def regions(self) -> dict[int, tuple[Stage, ...]]:
        """Stages by region, in order of the first stage."""
        found: dict[int, list[Stage]] = {}
        for stage in self.stages:
            found.setdefault(stage.region, []).append(stage)
        return {region: tuple(stages) for region, stages in found.items()}

    def region_inputs(self, region: int) -> tuple[Edge, ...]:
        """The materialised edges that must be complete before `region` may start."""
        return tuple(
            edge
            for edge in self.edges
            if not edge.is_result
            and self.stages[edge.consumer].region == region
            and self.stages[edge.producer].region != region
        )

    def _check(self) -> None:
        if [s.stage for s in self.stages] != list(range(len(self.stages))):
            raise InternalError("stages of a job must be numbered by position")
        if sum(e.is_result for e in self.edges) != 1:
            raise InternalError("a job must have exactly one result edge")
        for edge in self.edges:
            if edge.is_result:
                continue
            consumer = self.stages[edge.consumer]
            if edge.producer >= edge.consumer and not self.stages[edge.producer].added:
                raise InternalError(f"edge {edge.path} runs backwards")
            reads = dict(consumer.reads).get(edge.edge)
            if (edge.n_partitions if reads is None else len(reads)) != consumer.n_tasks:
                raise InternalError(f"edge {edge.path} has not one partition a consuming task")


def steps_after(graph: StageGraph, edge: Edge) -> tuple[str, ...]:
    """The steps that rows of an edge are on their way to; one that reads it twice is here twice.

    They are there in any number of tasks, in one stage each. A stage without a step passes rows on;
    where these are the result, the edge itself stands for the step.
    """
    root = graph.stages[edge.consumer].root
    if isinstance(root, StageInput):
        outputs = graph.outputs[edge.consumer]
        after = ((root.path,) if out.is_result else steps_after(graph, out) for out in outputs)
        return tuple(sorted(step for steps in after for step in steps))
    return tuple(
        sorted(
            node.path
            for node in walk(root)
            for child in node.children
            if isinstance(child, StageInput) and child.edge == edge.edge
        )
    )


def graph_text(graph: StageGraph, more: Callable[[Stage], Sequence[str]] = lambda _: ()) -> str:
    """The stages as a person reads them: one block a stage, `more` about it, its edges below."""
    lines = (line for stage in graph.stages for line in _stage_lines(graph, stage, more(stage)))
    return "\n".join(lines) + "\n"


def _stage_lines(graph: StageGraph, stage: Stage, more: Sequence[str]) -> list[str]:
    tasks = "1 task" if stage.n_tasks == 1 else f"{stage.n_tasks} tasks"
    lines = [f"stage {stage.stage} ({stage.path}): {tasks}, {stage.kind}"]
    lines += [f"  ! {line}" for line in stage.adapted]
    lines += [f"    {line}" for line in tree(stage.root).splitlines()]
    lines += [f"  = {line}" for line in more]
    lines += [f"  → {_edge_text(edge)}" for edge in graph.outputs[stage.stage]]
    return lines


def _edge_text(edge: Edge) -> str:
    to = "the result" if edge.is_result else f"stage {edge.consumer}"
    by = f" by {', '.join(edge.keys)}" if edge.keys else ""
    parts = "1 partition" if edge.n_partitions == 1 else f"{edge.n_partitions} partitions"
    packed = "" if edge.compression == "none" else f", {edge.compression} between agents"
    adaptive = ", adaptive" if edge.adaptive else ""
    side = f", side {quoted(edge.side)}" if edge.side else ""
    how = f"{edge.kind}{by}, {parts}, {edge.mode}{packed}{adaptive}{side}"
    return f"edge {edge.edge} ({edge.path}) to {to}: {how}"


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
