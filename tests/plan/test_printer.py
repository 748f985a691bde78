"""The tree: one line a node, shared nodes once, wrong plans too."""

from __future__ import annotations

from random import Random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fabric.plan.expr import Alias, Call, Column, Literal
from fabric.plan.nodes import Filter, Limit, Node, Scan, Select, Union
from fabric.plan.printer import columns_text, step_text, tree
from fabric.plan.sources import DatasetSource, MemorySource
from fabric.plan.walk import walk
from tests.support.plans import random_plan, random_tables


def test_tree_of_a_diamond() -> None:
    scan = Scan(MemorySource("t", 3), pa.schema([("a", pa.int32())]), path="in")
    shared = Filter(scan, Call("gt", (Column("a"), Literal(0, pa.int32()))), path="clean/positive")
    root = Union((Limit(shared, 1), shared))
    assert tree(root).splitlines() == [
        "union_1: .union(other) -> a: int32",
        "  limit_1: .limit(1) -> a: int32",
        '    clean/positive: .filter(col("a") > 0) -> a: int32',
        "      in: DataFrame(3 rows) -> a: int32",
        "  clean/positive: as above",
    ]


@given(seed=st.integers(0, 1 << 32))
def test_one_line_a_node_and_one_a_second_use(seed: int) -> None:
    root = random_plan(Random(seed), random_tables(Random(3)))
    n_inputs = sum(len(node.children) for node in walk(root))
    assert len(tree(root).splitlines()) == n_inputs + 1


def test_a_wrong_plan_can_be_shown(flights: Scan) -> None:
    wrong = Limit(Select(flights, (Column("nope"),), path="x"), 1, path="x")
    assert tree(wrong).splitlines()[:2] == ["x: .limit(1) -> ?", '  x: .select("nope") -> ?']


def test_long_lines_are_cut(flights: Scan) -> None:
    node = Select(flights, tuple(Alias(Column("delay"), f"name_{i}") for i in range(50)))
    assert (
        step_text(node) == '.select(col("delay").alias("name_0"), col("delay").alias("name_1") ...'
    )
    assert len(step_text(node)) <= 72
    assert columns_text(node).endswith("name_3: int32, 46 more")
    nested = pa.struct([(f"field_{i}", pa.int64()) for i in range(20)])
    scan = Scan(MemorySource("t", 1), pa.schema([("s", nested)]))
    assert len(columns_text(scan)) < 50


def test_a_step_without_arguments_is_cut_anywhere(flights: Scan) -> None:
    source = Scan(DatasetSource("x" * 100), flights.schema)
    assert step_text(source) == f'read_dataset("{"x" * 54} ...'


def test_lines_have_a_width(flights: Scan) -> None:
    columns = tuple(Alias(Column("delay"), f"a rather long name {i}") for i in range(9))
    node: Node = Select(flights, columns)
    for _ in range(10):
        node = Limit(node, 1)
    lines = tree(node).splitlines()
    assert max(map(len, lines)) <= 132
    assert lines[0].endswith("name 2: int32, 6 more")
    assert lines[9].endswith("name 1: int32, 7 more")


def test_no_columns() -> None:
    assert columns_text(Scan(MemorySource("t", 1), pa.schema([]))) == "no columns"
