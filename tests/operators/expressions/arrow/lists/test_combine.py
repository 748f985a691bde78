"""Lists flattened, with nulls on both levels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

Compute = Callable[..., list[Any]]
INNER = st.none() | st.lists(st.none() | st.integers(0, 3), max_size=3)
ROWS = st.lists(st.none() | st.lists(INNER, max_size=3), min_size=1)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS)
def test_flatten(compute: Compute, rows: list[Any]) -> None:
    array = pa.array(rows, pa.list_(pa.list_(pa.int8())))
    expected = [
        None if row is None or None in row else [v for inner in row for v in inner] for row in rows
    ]
    assert compute("list_flatten", array) == expected


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(INNER, min_size=1))
def test_ends(compute: Compute, rows: list[Any]) -> None:
    array = pa.array(rows, pa.list_(pa.int8()))
    assert compute("list_append", array, None) == [r if r is None else [*r, None] for r in rows]
    assert compute("list_prepend", array, 7) == [r if r is None else [7, *r] for r in rows]
    assert compute("list_reverse", array) == [r if r is None else r[::-1] for r in rows]
