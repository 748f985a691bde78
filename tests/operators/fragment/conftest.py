"""Running a plan over tables: what every test of fragments does."""

from collections.abc import Callable
from dataclasses import replace

import duckdb
import pyarrow as pa
import pytest

from fabric.operators.fragment import execute_fragment
from fabric.plan.expr import Column
from fabric.plan.nodes import Aggregate, Node, StageInput
from fabric.plan.schema import schema_of

Run = Callable[..., pa.Table]


@pytest.fixture
def run() -> Run:
    """``run(root, table0, table1, ...)``: table i arrives over edge i, in crumbs."""

    def go(root: Node, *tables: pa.Table, threads: int = 2, crumb: int = 3) -> pa.Table:
        inputs = {i: t.to_batches(max_chunksize=crumb) for i, t in enumerate(tables)}
        stream = execute_fragment(root, inputs, {}, target_partitions=threads, batch_rows=2 * crumb)
        batches = list(stream)
        assert all(batch.schema.equals(schema_of(root), check_metadata=True) for batch in batches)
        return pa.Table.from_batches(batches, schema_of(root))

    return go


@pytest.fixture
def edge() -> Callable[[int, pa.Table], StageInput]:
    """``edge(i, table)``: the stage input that `table` arrives over."""
    return lambda i, table: StageInput(i, table.schema)


@pytest.fixture
def ask() -> Callable[..., list[tuple[object, ...]]]:
    """DuckDB's rows of a query over tables given by name, sorted."""

    def go(query: str, **tables: pa.Table) -> list[tuple[object, ...]]:
        with duckdb.connect() as database:
            for name, table in tables.items():
                database.register(name, table)
            return sorted(database.execute(query).fetchall(), key=repr)

    return go


@pytest.fixture
def rows() -> Callable[[pa.Table], list[tuple[object, ...]]]:
    """The rows of a table, sorted as `ask` sorts."""
    return lambda table: sorted(zip(*table.to_pydict().values(), strict=True), key=repr)


@pytest.fixture(scope="session")
def in_phases() -> Callable[..., pa.Table]:
    """``in_phases(node, tables)``: a task for each table, and one that merges what they send."""

    def crumbs(table: pa.Table) -> list[pa.RecordBatch]:
        return table.to_batches(max_chunksize=max(2, table.num_rows // 20))

    def go(node: Aggregate, tables: list[pa.Table]) -> pa.Table:
        local = replace(node, phase="partial")
        middle = schema_of(local)
        keys = tuple(Column(name) for name in middle.names[: len(node.keys)])
        final = replace(node, input=StageInput(1, middle), keys=keys, phase="final")
        assert schema_of(final).equals(schema_of(node))
        states = [
            state for table in tables for state in execute_fragment(local, {0: crumbs(table)}, {})
        ]
        assert all(state.schema.equals(middle) for state in states)
        batches = list(execute_fragment(final, {1: states}, {}))
        return pa.Table.from_batches(batches, schema_of(node))

    return go
