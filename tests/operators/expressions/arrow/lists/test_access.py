"""Positions from both ends, beside Python's indexing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric.errors import ExpressionError

Compute = Callable[..., list[Any]]
ROWS = st.lists(st.none() | st.lists(st.none() | st.integers(0, 3), max_size=4), min_size=1)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, index=st.integers(-6, 6))
def test_get(compute: Compute, rows: list[list[int] | None], index: int) -> None:
    array = pa.array(rows, pa.list_(pa.int8()))
    expected = [
        row[index] if row is not None and -len(row) <= index < len(row) else None for row in rows
    ]
    assert compute("list_get", array, index) == expected


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, wanted=st.integers(0, 3))
def test_position_and_contains(compute: Compute, rows: list[Any], wanted: int) -> None:
    array = pa.array(rows, pa.list_(pa.int8()))
    positions = [None if r is None else r.index(wanted) + 1 if wanted in r else 0 for r in rows]
    assert compute("list_position", array, wanted) == positions
    contains = [
        None if r is None else True if wanted in r else None if None in r else False for r in rows
    ]
    assert compute("list_contains", array, wanted) == contains


def test_a_slice_that_can_not_be_is_refused_only_where_all_is_known(compute: Compute) -> None:
    nothing = pa.array([None], pa.list_(pa.int8()))
    assert compute("list_slice", nothing, 0, -1) == [None]
    one = pa.array([[1]], pa.list_(pa.int8()))
    with pytest.raises(ExpressionError, match="counted from 1"):
        compute("list_slice", one, 0, 1)
    with pytest.raises(ExpressionError, match="can't be below 0"):
        compute("list_slice", one, 1, -1)
