"""One plan, the same rows: embedded in one task and in 3, on 2 agents and on 4, and as DuckDB.

"anew" is planned anew wherever that can be, "four" nowhere.

Where DuckDB has no translation the places are compared with each other. Every plan is generated
from a printed seed; `tests/clients/spark/plan/test_generated.py` has the same on Spark. Tables are
loaded once as datasets on each fabric.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from random import Random

import pyarrow as pa
import pytest

import fabric
from fabric.plan.nodes import Node, Plan, Scan
from fabric.plan.sources import DatasetSource, MemorySource
from fabric.plan.walk import rewrite
from tests.support import duckdb
from tests.support.compare import unlike
from tests.support.local import LocalFabric
from tests.support.plans import random_plan, random_tables

N_SETS = 2 if not os.environ.get("FABRIC_SOAK") else 140
PLANS_A_SET = 15
Tables = Mapping[str, pa.Table]


@pytest.fixture(scope="module")
def places(two: LocalFabric, four: LocalFabric) -> Iterator[dict[str, fabric.Session]]:
    with (
        fabric.connect(f"fabric://{two.address}", token=two.token) as on_two,
        fabric.connect(f"fabric://{four.address}", token=four.token) as on_four,
        fabric.connect(parallelism=1) as whole,
        fabric.connect(parallelism=3) as in_parts,
        fabric.connect(f"fabric://{two.address}", token=two.token, parallelism=5) as anew,
    ):
        anew.configure(target_bytes=1, tiny_bytes=0, skew_factor=1.0)
        on_four.configure(adaptive=False)
        yield {
            "whole": whole, "in parts": in_parts, "two": on_two, "four": on_four, "anew": anew,
        }  # fmt: skip


def dataset_name(seed: int, table: str) -> str:
    return f"set-{seed}-{table}"


@pytest.fixture(scope="module", params=range(N_SETS), ids=lambda seed: f"seed{seed}")
def loaded(
    request: pytest.FixtureRequest, places: dict[str, fabric.Session]
) -> tuple[int, dict[str, pa.Table]]:
    seed: int = request.param
    tables = {name: named(table) for name, table in random_tables(Random(seed)).items()}
    for place in places.values():
        for name, table in tables.items():
            df = place.read_arrow(table)
            df.write_dataset(dataset_name(seed, name), mode="overwrite")
    return seed, tables


def named(table: pa.Table) -> pa.Table:
    """`table` without an empty column name, which datasets refuse."""
    return table.rename_columns([name or "no name" for name in table.column_names])


def from_datasets(root: Node, seed: int) -> Node:
    """The plan, reading datasets instead of tables of this process."""

    def swap(node: Node) -> Node:
        match node:
            case Scan(source=MemorySource(token=token), schema=schema, path=path):
                return Scan(DatasetSource(dataset_name(seed, token)), schema, path=path)
            case _:
                return node

    return rewrite(root, swap)


@pytest.mark.parametrize("number", range(PLANS_A_SET))
def test_same_rows_everywhere(
    number: int, loaded: tuple[int, dict[str, pa.Table]], places: dict[str, fabric.Session]
) -> None:
    seed, tables = loaded
    plan = random_plan(Random(1000 * seed + number), tables)
    expected = duckdb.run(plan, tables) if duckdb.translated(plan) else None
    for place, session in places.items():
        with session.submit(Plan(from_datasets(plan, seed)), f"{seed}-{number}") as job:
            found = job.collect()
        expected = found if expected is None else expected
        assert not unlike(found, expected), f"{place}, seed {seed}, plan {number}"
