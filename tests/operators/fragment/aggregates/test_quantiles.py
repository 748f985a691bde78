"""Quantiles beside numpy's, and approximate ones of many values."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import polars
import pyarrow as pa
import pytest

from fabric.operators.fragment.aggregates.quantiles import SAMPLE
from fabric.plan.expr import Agg, Alias, Column, Literal
from fabric.plan.functions.aggregates import INTERPOLATIONS
from fabric.plan.nodes import Aggregate, StageInput
from fabric.plan.schema import schema_of

Run = Callable[..., pa.Table]


def quantile(function: str, q: float | None = None) -> Alias:
    args = () if q is None else (Literal(q, pa.float64()),)
    return Alias(Agg(function, Column("a"), args), "q")


@pytest.mark.parametrize("q", [0, 0.1, 0.5, 0.77, 1])
def test_exact_ones_are_numpys(run: Run, q: float) -> None:
    values = np.random.default_rng(seed=4).normal(size=999)
    table = pa.table({"a": values})
    node = Aggregate(StageInput(0, table.schema), (), (quantile("quantile", q),))
    assert run(node, table, crumb=100)["q"].to_pylist() == [pytest.approx(np.quantile(values, q))]


@pytest.mark.parametrize("how", INTERPOLATIONS)
@pytest.mark.parametrize("q", [0, 0.1, 0.5, 0.77, 1])
def test_between_two_values_as_polars(run: Run, q: float, how: str) -> None:
    values = np.random.default_rng(seed=4).permutation(24).reshape(2, 12).tolist()
    table = pa.table({"k": ["a"] * 12 + ["b"] * 12 + ["c"], "a": [*values[0], *values[1], None]})
    args = (Literal(q, pa.float64()), Literal(how, pa.string()))
    node = Aggregate(
        StageInput(0, table.schema),
        (Column("k"),),
        (Alias(Agg("quantile", Column("a"), args), "q"),),
    )
    found = run(node, table, crumb=5).sort_by("k")["q"].to_pylist()
    assert found == [*(pytest.approx(polars.Series(v).quantile(q, how)) for v in values), None]


@pytest.mark.parametrize("values", [[1.7e308, 1.7e308], [1.7e308, 1.6e308]])
def test_a_median_of_large_numbers_does_not_overflow(run: Run, values: list[float]) -> None:
    table = pa.table({"a": values})
    node = Aggregate(StageInput(0, table.schema), (), (quantile("median"),))
    assert run(node, table)["q"].to_pylist() == [pytest.approx(values[0] / 2 + values[1] / 2)]


@pytest.mark.parametrize(
    ("values", "middle"),
    [
        (pa.array([3, 1, 2, 4], pa.int8()), 2),
        (pa.array([Decimal("2.50"), Decimal("1.50"), None]), Decimal("1.50")),
        (pa.array([9, 1, 5], pa.date32()), datetime.date(1970, 1, 6)),
        (pa.array([2**53 + 1, 2**53 + 1]), 2**53 + 1),
        (pa.array([2**64 - 1], pa.uint64()), 2**64 - 1),
        (pa.array([1, 2], pa.int64()).dictionary_encode(), 1),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_an_approximate_one_is_a_value_of_its_type(
    run: Run, in_phases: Run, values: pa.Array, middle: object
) -> None:
    table = pa.table({"a": values})
    node = Aggregate(StageInput(0, table.schema), (), (quantile("approx_quantile", 0.5),))
    assert schema_of(node).field("q").type == getattr(values.type, "value_type", values.type)
    assert run(node, table)["q"].to_pylist() == [middle]
    assert in_phases(node, [table.slice(0, 1), table.slice(1)])["q"].to_pylist() == [middle]


def test_thinned_states_are_off_by_less_than_one_in_ten_thousand(in_phases: Run) -> None:
    values = np.random.default_rng(seed=5).permutation(5 * SAMPLE)
    table = pa.table({"a": values})
    parts = [table.slice(0, 4 * SAMPLE), table.slice(4 * SAMPLE)]
    for q in (0.0, 0.25, 0.5, 0.99, 1.0):
        node = Aggregate(StageInput(0, table.schema), (), (quantile("approx_quantile", q),))
        (found,) = in_phases(node, parts)["q"].to_pylist()
        assert abs(found - q * len(values)) <= len(values) / SAMPLE + 1
