"""Running a plan over tables: what every test of fragments does."""

from collections.abc import Callable

import duckdb
import pyarrow as pa
import pytest

from fabric.operators.fragment import execute_fragment
from fabric.plan.nodes import Node, StageInput
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
