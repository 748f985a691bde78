"""Sums beside Python's, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric.errors import ExpressionError

Compute = Callable[..., list[Any]]
FLOATS = st.floats(allow_nan=False, width=64)
quiet = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quiet
@given(rows=st.lists(st.lists(FLOATS, max_size=6), min_size=1))
def test_floats_are_added_from_the_left(compute: Compute, rows: list[list[float]]) -> None:
    def total(row: list[float]) -> float:
        found = 0.0
        for value in row:
            found += value
        return found

    array = pa.array(rows, pa.list_(pa.float64()))
    assert repr(compute("list_sum", array)) == repr([total(row) for row in rows])


@quiet
@given(rows=st.lists(st.lists(st.integers(-(2**60), 2**60), max_size=6), min_size=1))
def test_integers(compute: Compute, rows: list[list[int]]) -> None:
    array = pa.array(rows, pa.list_(pa.int64()))
    assert compute("list_sum", array) == [sum(row) for row in rows]


@pytest.mark.parametrize(
    ("row", "dtype"),
    [
        ([2**63 - 1, 1, -1], pa.int64()),
        ([Decimal(10**38 - 1), Decimal(1)], pa.decimal128(38, 0)),
    ],
)
def test_a_sum_on_the_way_that_does_not_fit(
    compute: Compute, row: list[Any], dtype: pa.DataType
) -> None:
    with pytest.raises(ExpressionError, match="overflow: the sum of a list does not fit"):
        compute("list_sum", pa.array([row], pa.list_(dtype)))
