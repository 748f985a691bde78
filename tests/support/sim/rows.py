"""Rows that show loss and duplication, and where they go.

One job: what a task puts out. A row is (source task, sequence number, key); a stage puts out the
rows of all its inputs, so the result of a job is a multiset that a missing or doubled row changes.
Rows come in any order, so what a round-robin edge does with them differs from attempt to attempt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from fabric.coordinator.planner.stages import Edge, StageGraph

Row = tuple[str, int, int]
Partitions = tuple[tuple[Row, ...], ...]
ROWS_MAX = 12


def source_rows(stage: int, task: int) -> tuple[Row, ...]:
    """What a task without input puts out; the same for every attempt."""
    name = f"{stage}.{task}"
    n_rows = (stage * 7 + task * 5) % ROWS_MAX + 1
    return tuple((name, seq, (seq * 31 + task * 17 + stage) % 97) for seq in range(n_rows))


def output_rows(stage: int, task: int, inputs: Iterable[Iterable[Row]] | None) -> tuple[Row, ...]:
    """What a task puts out: the rows of its inputs (None: it has none), as they came."""
    if inputs is None:
        return source_rows(stage, task)
    return tuple(row for rows in inputs for row in rows)


def route(kind: str, n: int, task: int, rows: tuple[Row, ...]) -> Partitions:
    """Rows of producer `task` by partition of an edge of that kind.

    >>> route("hash", 2, 0, (("0.0", 0, 4), ("0.0", 1, 7)))
    ((('0.0', 0, 4),), (('0.0', 1, 7),))
    """
    if kind == "broadcast":
        return (rows,) * n
    found: list[list[Row]] = [[] for _ in range(n)]
    for number, row in enumerate(rows):
        found[_partition(kind, n, task, number, row)].append(row)
    return tuple(map(tuple, found))


def _partition(kind: str, n: int, task: int, number: int, row: Row) -> int:
    match kind:
        case "hash" | "range":
            return row[2] % n
        case "forward":
            return task % n
        case "round_robin":
            return (task + number) % n
        case _:
            return 0


def producers(kind: str, n_partitions: int, partition: int, n_producers: int) -> list[int]:
    """The producing tasks that have rows for a partition."""
    every = range(n_producers)
    if kind != "forward":
        return list(every)
    return [task for task in every if task % n_partitions == partition]


def reference(graph: StageGraph) -> Counter[Row]:
    """What a job ends with when nothing goes wrong: the rows of its result or of its sink."""
    made: dict[tuple[int, int], tuple[Row, ...]] = {}
    for stage in graph.stages:
        for task in range(stage.n_tasks):
            edges = graph.inputs[stage.stage]
            inputs = [_input(graph, edge, task, made) for edge in edges] if edges else None
            made[stage.stage, task] = output_rows(stage.stage, task, inputs)
    last = graph.result.producer
    return Counter(row for (stage, _), rows in made.items() if stage == last for row in rows)


def _input(
    graph: StageGraph,
    edge: Edge,
    partition: int,
    made: Mapping[tuple[int, int], tuple[Row, ...]],
) -> list[Row]:
    n_producers = graph.stages[edge.producer].n_tasks
    return [
        row
        for task in producers(edge.kind, edge.n_partitions, partition, n_producers)
        for row in route(edge.kind, edge.n_partitions, task, made[edge.producer, task])[partition]
    ]
