"""Sorting and extremes beside Python's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROWS = st.lists(st.none() | st.lists(st.none() | st.integers(-2, 2), max_size=5), min_size=1)
Compute = Callable[..., list[Any]]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_last", [False, True])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS)
def test_sort(
    compute: Compute, rows: list[list[Any] | None], descending: bool, nulls_last: bool
) -> None:
    def ordered(row: list[Any]) -> list[Any]:
        known = sorted((v for v in row if v is not None), reverse=descending)
        nulls: list[Any] = [None] * (len(row) - len(known))
        return known + nulls if nulls_last else nulls + known

    array = pa.array(rows, pa.list_(pa.int64()))
    expected = [None if row is None else ordered(row) for row in rows]
    assert compute("list_sort", array, descending, nulls_last) == expected


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS)
def test_extremes(compute: Compute, rows: list[list[Any] | None]) -> None:
    array = pa.array(rows, pa.list_(pa.int64()))
    known = [[v for v in row or [] if v is not None] for row in rows]
    assert compute("list_min", array) == [min(row, default=None) for row in known]
    assert compute("list_max", array) == [max(row, default=None) for row in known]
