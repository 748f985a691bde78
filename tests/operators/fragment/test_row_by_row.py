"""A row-wise step without a form of its own in DataFusion runs by its operator, which may put out
its rows gradually."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.operators import node_operators
from fabric.operators.contract import Batches, Operator
from fabric.operators.fragment import execute_fragment
from fabric.plan.expr import Agg, Alias, Call, Column, Literal, SortKey
from fabric.plan.node import Columns, Names, Unary
from fabric.plan.nodes import Aggregate, Filter, Node, Sort, StageInput
from fabric.plan.schema import schema_of

ROWS = pa.schema([("times", pa.int64()), ("row", pa.int64())])


@dataclass(frozen=True, slots=True)
class Repeat(Unary):
    """Each row as often as its first column says."""

    LOOKS_AT_ROWS: ClassVar[bool] = True

    def output(self, *inputs: pa.Schema) -> Columns:
        return [(field.name, field.type) for field in inputs[0]]

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        return (frozenset({*wanted, "times"}),)

    def stream(self, *below: Any) -> Any:
        return below[0]

    def text(self) -> str:
        return ".repeat()"


class _Repeats(Operator):
    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        return self.gradually(self._each(batch))

    def _each(self, batch: pa.RecordBatch) -> Iterator[Batches]:
        times = batch.column(0).to_numpy()
        for rows in np.array_split(np.repeat(np.arange(len(times)), times), 2):
            yield [batch.take(pa.array(rows))]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    operators: Any = node_operators.OPERATORS
    monkeypatch.setitem(operators, Repeat, lambda *_: _Repeats())


def run(root: Node, times: list[int], threads: int = 1) -> list[dict[str, Any]]:
    table = pa.table([times, list(range(len(times)))], schema=ROWS)
    inputs = {0: table.to_batches(max_chunksize=4)}
    batches = list(execute_fragment(root, inputs, {}, target_partitions=threads, batch_rows=8))
    found: list[dict[str, Any]] = pa.Table.from_batches(batches, schema_of(root)).to_pylist()
    return found


TIMES = st.lists(st.integers(0, 9), max_size=40)


@settings(max_examples=25, deadline=None)
@given(TIMES, st.sampled_from([1, 3]))
def test_rows_are_those_of_the_operator(times: list[int], threads: int) -> None:
    few = Filter(StageInput(0, ROWS), Call("lt", (Column("times"), Literal(5, pa.int64()))))
    found = run(
        Filter(Repeat(few), Call("ge", (Column("row"), Literal(1, pa.int64())))), times, threads
    )
    expected = [row for row, n in enumerate(times) if row >= 1 and n < 5 for _ in range(n)]
    assert sorted(row["row"] for row in found) == expected


@settings(max_examples=25, deadline=None)
@given(TIMES)
def test_sorted_rows_stay_sorted(times: list[int]) -> None:
    ordered = Sort(StageInput(0, ROWS), (SortKey(Column("row"), True, True),))
    found = run(Repeat(ordered), times, threads=3)
    assert [row["row"] for row in found] == [
        row for row, n in reversed(list(enumerate(times))) for _ in range(n)
    ]


@settings(max_examples=25, deadline=None)
@given(TIMES)
def test_a_step_over_a_step_counts_all_rows(times: list[int]) -> None:
    count = Alias(Agg("count", None), "n")
    found = run(Aggregate(Repeat(Repeat(StageInput(0, ROWS))), (), (count,)), times)
    assert found == [{"n": sum(n * n for n in times)}]
