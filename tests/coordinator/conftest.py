"""Plans in few words, and a tiny executor, for the tests of optimizer and planner."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest

from fabric.config import AdaptiveConfig
from fabric.coordinator.planner.adaptive.adapt import adapted
from fabric.coordinator.planner.stages import Edge, Read, Stage, StageGraph
from fabric.operators.fragment import execute_fragment
from fabric.plan.expr import Alias, Call, Column, Expr, Literal
from fabric.plan.nodes import Scan
from fabric.plan.schema import schema_of
from fabric.plan.sources import FileSource, MemorySource


def _value(value: Any) -> Expr:
    if isinstance(value, str):
        return Column(value)
    if isinstance(value, int):
        return Literal(value, pa.int64())
    return value


def call(function: str, *args: Any) -> Expr:
    """A call; strings are columns, ints are int64 constants."""
    return Call(function, tuple(_value(arg) for arg in args))


def alias(expr: Any, name: str) -> Expr:
    return Alias(_value(expr), name)


def both(*parts: Expr) -> Expr:
    """A conjunction, nested to the left as users write it."""
    joined = parts[0]
    for part in parts[1:]:
        joined = Call("and", (joined, part))
    return joined


def table(path: str = "t", **types: pa.DataType) -> Scan:
    """A scan of memory: no predicate can go there."""
    schema = pa.schema(types or {"a": pa.int64(), "b": pa.int64(), "s": pa.string()})
    return Scan(MemorySource(path, 0), schema, path=path)


def file(path: str = "f", **types: pa.DataType) -> Scan:
    schema = pa.schema(types or {"a": pa.int64(), "b": pa.int64(), "s": pa.string()})
    return Scan(FileSource("parquet", (f"/{path}.parquet",)), schema, path=path)


@pytest.fixture
def p() -> SimpleNamespace:
    """The words above under one short name."""
    return SimpleNamespace(call=call, alias=alias, both=both, table=table, file=file)


Parts = dict[int, list[list[list[pa.RecordBatch]]]]
"""Batches by edge, producer and partition."""


def run_graph(graph: StageGraph, adaptive: AdaptiveConfig | None = None) -> pa.Table:
    """Run a stage graph in this thread: one task after the other, edges as lists of batches.

    With `adaptive` each stage is planned anew before it starts; a row counts 8 bytes, and two tasks
    may run at once.
    """
    return run_adaptive(graph, adaptive)[0]


def run_adaptive(graph: StageGraph, adaptive: AdaptiveConfig | None) -> tuple[pa.Table, StageGraph]:
    """What `run_graph` gives, and the graph in the end."""
    parts: Parts = {}
    done: set[int] = set()
    while len(done) < len(graph.stages):
        number = next(
            s.stage
            for s in graph.stages
            if s.stage not in done and all(edge.producer in done for edge in graph.inputs[s.stage])
        )
        assert len(graph.stages) < 100, "stages are added for ever"
        if adaptive is not None:
            graph = adapted(graph, number, _sizes(graph, number, parts), adaptive, 2)
        _run_stage(graph, graph.stages[number], parts)
        done.add(number)
    batches = [
        batch
        for partition in range(graph.result.n_partitions)
        for producer in parts[graph.result.edge]
        for batch in producer[partition]
    ]
    return pa.Table.from_batches(batches, graph.result.schema), graph


def _run_stage(graph: StageGraph, stage: Stage, parts: Parts) -> None:
    for edge in graph.outputs[stage.stage]:
        parts[edge.edge] = []
    for task in range(stage.n_tasks):
        inputs = {e.edge: _read(stage, e, task, parts) for e in graph.inputs[stage.stage]}
        splits = dict(stage.splits[task]) if stage.splits else {}
        batches = list(execute_fragment(stage.root, inputs, splits))
        schema = schema_of(stage.root)
        rows = pa.Table.from_batches(batches, schema).combine_chunks()
        for edge in graph.outputs[stage.stage]:
            assert schema.equals(edge.schema)
            parts[edge.edge].append([[] for _ in range(edge.n_partitions)])
            _send(edge, task, rows, parts[edge.edge][task])


def _read(stage: Stage, edge: Edge, task: int, parts: Parts) -> list[pa.RecordBatch]:
    read = stage.read(edge.edge, task) or Read((task, task + 1))
    producers = parts[edge.edge][slice(*read.producers)] if read.producers else parts[edge.edge]
    return [
        batch
        for partition in range(*read.partitions)
        for producer in producers
        for batch in producer[partition]
    ]


def _sizes(graph: StageGraph, number: int, parts: Parts) -> dict[int, list[list[int]]]:
    return {
        edge.edge: [
            [8 * sum(batch.num_rows for batch in part) for part in producer]
            for producer in parts[edge.edge]
        ]
        for edge in graph.inputs[number]
        if edge.adaptive
    }


def _send(edge: Edge, task: int, rows: pa.Table, parts: list[list[pa.RecordBatch]]) -> None:
    if edge.kind == "broadcast":
        targets = [list(range(rows.num_rows)) for _ in parts]
    else:
        targets = [[] for _ in parts]
        keys = [rows.column(key).to_pylist() for key in edge.keys]
        for row in range(rows.num_rows):
            targets[_target(edge, task, row, [key[row] for key in keys])].append(row)
    for part, chosen in zip(parts, targets, strict=True):
        part.extend(rows.take(pa.array(chosen, pa.int64())).to_batches())


def _target(edge: Edge, task: int, row: int, values: list[Any]) -> int:
    match edge.kind:
        case "hash":
            return crc32(repr([_plain(value) for value in values]).encode()) % edge.n_partitions
        case "round_robin":
            return (task + row) % edge.n_partitions
        case "forward":
            return task
        case "range":
            return int(values[0])
        case _:
            return 0


def _plain(value: Any) -> Any:
    """NaNs and zeros of either sign are one value each."""
    if isinstance(value, float):
        return "nan" if value != value else value + 0.0  # noqa: PLR0124
    return value


def rows_of(table: pa.Table) -> list[str]:
    """Rows as sorted text, for comparison as a multiset."""
    columns = [column.to_pylist() for column in table.columns]
    return sorted(repr([_plain(value) for value in row]) for row in zip(*columns, strict=True))


@pytest.fixture
def runner() -> SimpleNamespace:
    """`run_graph`, `run_adaptive` and `rows_of` under one short name."""
    return SimpleNamespace(run=run_graph, run_adaptive=run_adaptive, rows=rows_of)
