"""Aggregates that pick or keep values, of every type."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pytest

from fabric.plan.expr import Agg, Alias, Column
from fabric.plan.nodes import Aggregate, StageInput
from fabric.plan.schema import schema_of

Run = Callable[..., pa.Table]
A, B = Column("a"), Column("b")
ORDERED = [
    pa.array(["b", "a", None]), pa.array([b"b", b"a", None]), pa.array([True, False, None]),
    pa.array([2, 1, None], pa.date32()), pa.array([Decimal("2.5"), Decimal("1.5"), None]),
    pa.array(["b", "a", None], pa.large_string()), pa.array([float("nan"), 1.0, None]),
    pa.array(["b", "a", None], pa.string_view()), pa.array([2, 1, None], pa.uint64()),
    pa.array([2, 1, None], pa.duration("us")), pa.array(["b", "a", None]).dictionary_encode(),
]  # fmt: skip


@pytest.mark.parametrize("by", ORDERED, ids=lambda by: str(by.type))
def test_min_by_and_max_by_of_every_order(run: Run, in_phases: Run, by: pa.Array) -> None:
    table = pa.table({"a": ["high", "low", "none"], "b": by})
    aggs = (Alias(Agg("min_by", A, (B,)), "lo"), Alias(Agg("max_by", A, (B,)), "hi"))
    node = Aggregate(StageInput(0, table.schema), (), aggs)
    for found in (run(node, table), in_phases(node, [table.slice(1), table.slice(0, 1)])):
        assert found.to_pylist() == [{"lo": "low", "hi": "high"}]


@pytest.mark.parametrize(
    "values",
    [*ORDERED[:-1], pa.array([[1], [2], None]), pa.array([{"x": 1}, {"x": 2}, None])],
    ids=lambda values: str(values.type),
)
def test_values_of_every_type(run: Run, in_phases: Run, values: pa.Array) -> None:
    table = pa.table({"a": values})
    names = ("first", "last", "any_value")
    aggs = tuple(Alias(Agg(name, A), name) for name in names)
    collected = Aggregate(StageInput(0, table.schema), (), (Alias(Agg("collect", A), "all"),))
    assert schema_of(collected).field("all").type == pa.list_(values.type)
    assert str(run(collected, table, threads=1)["all"].to_pylist()) == str([values.to_pylist()[:2]])
    node = Aggregate(StageInput(0, table.schema), (), aggs)
    known = values.to_pylist()
    want = str({"first": known[0], "last": None, "any_value": known[0]})
    assert str(run(node, table, threads=1).to_pylist()[0]) == want
    parts = [table.slice(0, 0), table.slice(0, 2), table.slice(2), table.slice(0, 0)]
    assert str(in_phases(node, parts).to_pylist()[0]) == want
