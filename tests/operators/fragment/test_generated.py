"""Generated plans over each kind of source, in many small batches and threads, against DuckDB."""

from itertools import count
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fabric.io import sources
from fabric.io.sources import memory
from fabric.operators.fragment import execute_fragment
from fabric.plan.nodes import Exchange, Scan
from fabric.plan.schema import schema_of
from fabric.plan.sources import FileSource
from fabric.plan.walk import rewrite
from tests.support import duckdb
from tests.support.compare import unlike
from tests.support.plans import random_plan, random_tables
from tests.support.sampled import sampled

N_PLANS = 8


def saved(kind, name, table, folder):
    """`table` as a source of `kind`, in several parts."""
    if kind == "memory":
        return memory.register(table)
    path = folder / f"{name}.{kind}"
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=7)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=7)
    return FileSource(kind, (str(path),))


@pytest.mark.parametrize("kind", ["memory", "parquet", "ipc"])
@pytest.mark.parametrize("seed", sampled(range(10), 4))
def test_generated_plans(kind, seed, tmp_path):
    tables = random_tables(Random(seed))
    saved_as = {name: saved(kind, name, table, tmp_path) for name, table in tables.items()}
    for number in range(N_PLANS):
        plan = random_plan(Random(f"{seed}-{number}"), tables)
        n_target, numbers, splits = 1 + number % 3, count(), {}

        def bound(node, numbers=numbers, splits=splits, n_target=n_target):
            if isinstance(node, Exchange):  # the planner cuts here
                return node.input
            if not isinstance(node, Scan):
                return node
            source, scan_id = saved_as[node.source.token], next(numbers)
            splits[scan_id] = sources.enumerate_splits(source, n_target)
            return Scan(source, node.schema, node.columns, node.predicate, scan_id, path=node.path)

        root = rewrite(plan, bound)
        stream = execute_fragment(root, {}, splits, target_partitions=2, batch_rows=8)
        found = pa.Table.from_batches(list(stream), schema_of(root))
        if duckdb.translated(plan):
            assert not unlike(found, duckdb.run(plan, tables)), f"plan {seed}-{number}"
