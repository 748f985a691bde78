"""Ranges of sort keys: in the order of the keys, even, whatever the keys are."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.operators.fragment.ranges import Ranges
from fabric.plan.expr import Column, SortKey

FLAGS = st.tuples(st.booleans(), st.booleans())
ROW = st.tuples(
    st.none() | st.sampled_from([0.0, -0.0, 1.5, -2.0, math.nan, math.inf]),
    st.none() | st.text("ab", max_size=2),
    st.none() | st.integers(-3, 3),
)
TYPES = (pa.float64(), pa.string(), pa.decimal128(5, 0))


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(TYPES)
    arrays = [pa.array(column, dtype) for column, dtype in zip(columns, TYPES, strict=True)]
    return pa.table(arrays, ["0", "1", "2"])


def compared(a: tuple[Any, ...], b: tuple[Any, ...], keys: list[SortKey]) -> int:
    """-1, 0, 1 as row a comes before b, is equal or comes after."""
    for x, y, key in zip(a, b, keys, strict=True):
        if x is None or y is None:
            order = ((x is None) - (y is None)) * (1 if key.nulls_last else -1)
        else:
            p, q = ((isinstance(v, float) and math.isnan(v), v) for v in (x, y))
            order = 0 if p[0] and q[0] else (p > q) - (p < q)
            order = -order if key.descending else order
        if order:
            return order
    return 0


@settings(deadline=None)
@given(
    st.lists(ROW, max_size=30), st.lists(ROW, max_size=30), st.tuples(FLAGS, FLAGS, FLAGS),
    st.integers(1, 9),
)  # fmt: skip
def test_rows_of_a_range_come_before_those_of_the_next(
    sample: list[tuple[Any, ...]], rows: list[tuple[Any, ...]], flags: Any, n: int
) -> None:
    keys = [SortKey(Column(f"{i}"), *flag) for i, flag in enumerate(flags)]
    ranges = Ranges(table_of(sample), np.ones(len(sample), np.int64), keys, n)
    found = ranges.of(*(c.combine_chunks() for c in table_of(rows).columns)).to_pylist()
    assert all(0 <= number < n for number in found)
    for a, here in zip(rows, found, strict=True):
        for b, there in zip(rows, found, strict=True):
            assert here >= there or compared(a, b, keys) <= 0


def one(values: pa.Array, n: int) -> list[int]:
    """How many of `values` are in each range, when all are the sample."""
    ranges = Ranges(pa.table({"0": values}), np.ones(len(values)), [SortKey(Column("0"))], n)
    return np.bincount(ranges.of(values).to_numpy(), minlength=n).tolist()


@pytest.mark.parametrize(
    "values",
    [
        pa.array(range(1000)), pa.array([7] * 1000), pa.array([None] * 1000, pa.string()),
        pa.array([f"{i:04}" for i in range(1000)], pa.string_view()),
        pa.array([Decimal(i) for i in range(1000)]), pa.array([1] * 900 + [2] * 100),
        pa.array([b"%04d" % i for i in range(1000)]), pa.array([i % 2 == 0 for i in range(1000)]),
    ],
    ids=lambda values: f"{values.type} {values[0]}",
)  # fmt: skip
def test_ranges_are_even_even_when_keys_are_equal(values: pa.Array) -> None:
    assert max(one(values, 4)) <= 300


def test_many_keys_are_cut_and_stay_in_order() -> None:
    """Ten keys of a hundred boundaries each do not fit in one number."""
    rng = np.random.default_rng(seed=2)
    columns = [pa.array(rng.integers(0, 3 if i < 3 else 1000, 2000)) for i in range(12)]
    table = pa.table(columns, [f"{i}" for i in range(12)])
    keys = [SortKey(Column(name)) for name in table.column_names]
    found = Ranges(table, np.ones(2000, np.int64), keys, 100).of(*columns)
    ordered = table.append_column("r", found).sort_by(
        [(n, "ascending") for n in table.column_names]
    )
    assert (np.diff(ordered["r"].to_numpy()) >= 0).all()
    assert found.to_numpy().max() > 50


@settings(deadline=None)
@given(
    st.lists(st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40),
    st.lists(st.none() | st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1), max_size=40),
    FLAGS,
    st.sampled_from([2, 3, 9, 30]),
)
def test_one_number_is_compared_as_any_key_is(
    sample: list[int], rows: list[int | None], flags: Any, n: int
) -> None:
    """A second key that is always the same takes the general way."""
    key, constant = SortKey(Column("0"), *flags), SortKey(Column("1"))
    weights = np.ones(len(sample), np.int64)
    one = Ranges(pa.table({"0": pa.array(sample)}), weights, [key], n)
    both = pa.table({"0": pa.array(sample), "1": pa.array([1] * len(sample))})
    two = Ranges(both, weights, [key, constant], n)
    column = pa.array(rows, pa.int64())
    found = one.of(column).to_pylist()
    expected = two.of(column, pa.array([1] * len(rows), pa.int64())).to_pylist()
    bounds = set(sample)
    for value, here, there in zip(rows, found, expected, strict=True):
        assert here == there or value in bounds  # equal ones are dealt by their places
        assert 0 <= here < n
