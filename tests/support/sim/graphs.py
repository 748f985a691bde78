"""Stage graphs of any shape the planner may make.

One job: `random_graph`. Every stage leads to the last one; some edges are pipelined, and the stages
they join form regions.
"""

from __future__ import annotations

from functools import cache
from random import Random

import pyarrow as pa

from fabric.coordinator.planner.stages import RESULT, Edge, EdgeKind, EdgeMode, Stage, StageGraph
from fabric.plan.codec import encode
from fabric.plan.nodes import Plan, Sink, StageInput
from fabric.plan.targets import GateTarget

SCHEMA = pa.schema([("source", pa.string()), ("seq", pa.int64()), ("key", pa.int64())])
TASKS_MAX = 4


def random_graph(rng: Random, n_stages: int, *, sink: bool) -> StageGraph:
    """Stages and edges; the last stage writes to a sink or its rows are the result."""
    n_tasks = [rng.randint(1, TASKS_MAX) for _ in range(n_stages)]
    inputs = _inputs(rng, n_stages)
    piped = {s for s in range(n_stages) if len(inputs[s]) == 1 and rng.random() < 0.25}
    edges = [
        _edge(rng, (number, producer, consumer), n_tasks, piped=consumer in piped)
        for number, (producer, consumer) in enumerate(
            (producer, consumer) for consumer in range(n_stages) for producer in inputs[consumer]
        )
    ]
    last = n_stages - 1
    edges.append(_made((len(edges), last, RESULT), "forward", "materialised", n_tasks[last]))
    region = list(range(n_stages))
    for stage in sorted(piped):
        region[stage] = region[inputs[stage][0]]
    stages = tuple(
        Stage(
            stage=s,
            path=f"node_{s}",
            root=_root(s, sink and s == last),
            kind="chain" if s in piped else "fragment",
            n_tasks=n_tasks[s],
            splits=(),
            region=region[s],
            is_sink=sink and s == last,
        )
        for s in range(n_stages)
    )
    return StageGraph(stages, tuple(edges))


def fragments(graph: StageGraph) -> tuple[bytes, ...]:
    """The encoded stages, in order."""
    return tuple(_encoded(stage.stage, stage.is_sink) for stage in graph.stages)


def _inputs(rng: Random, n_stages: int) -> list[list[int]]:
    """The stages each stage reads; every one but the last is read by somebody."""
    inputs: list[list[int]] = [[] for _ in range(n_stages)]
    for stage in range(1, n_stages):
        if rng.random() < 0.85 or stage == n_stages - 1:
            inputs[stage] = sorted(rng.sample(range(stage), min(stage, rng.choice((1, 1, 2)))))
    for stage in range(n_stages - 1):
        if not any(stage in read for read in inputs):
            inputs[rng.randrange(stage + 1, n_stages)].append(stage)
    return [sorted(read) for read in inputs]


def _edge(rng: Random, ends: tuple[int, int, int], n_tasks: list[int], *, piped: bool) -> Edge:
    _, producer, consumer = ends
    kinds: list[EdgeKind] = ["hash", "hash", "round_robin"]
    if not piped:
        kinds.append("broadcast")
    if n_tasks[producer] == n_tasks[consumer]:
        kinds.append("forward")
    if n_tasks[consumer] == 1:
        kinds.append("gather")
    mode: EdgeMode = "pipelined" if piped else "materialised"
    return _made(ends, rng.choice(kinds), mode, n_tasks[consumer])


def _made(ends: tuple[int, int, int], kind: EdgeKind, mode: EdgeMode, n: int) -> Edge:
    number, producer, consumer = ends
    return Edge(
        edge=number,
        path=f"node_{producer}/edge_{number}",
        producer=producer,
        consumer=consumer,
        kind=kind,
        mode=mode,
        n_partitions=n,
        keys=("key",) if kind == "hash" else (),
        schema=SCHEMA,
    )


@cache
def _root(stage: int, sink: bool) -> Sink | StageInput:
    read = StageInput(0, SCHEMA, path=f"node_{stage}")
    return Sink(read, GateTarget("outside"), path=f"sink_{stage}") if sink else read


@cache
def _encoded(stage: int, sink: bool) -> bytes:
    return encode(Plan(_root(stage, sink)))
