"""Set functions beside Python's own, on generated lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROWS = st.none() | st.lists(st.none() | st.integers(0, 3), max_size=5)
PAIRS = st.lists(st.tuples(ROWS, ROWS), min_size=1, max_size=5)
Compute = Callable[..., list[Any]]


def unique(values: list[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


ORACLES: dict[str, Callable[[list[Any], list[Any]], list[Any]]] = {
    "list_union": lambda a, b: unique(a + b),
    "list_intersect": lambda a, b: [v for v in unique(a) if v in b],
    "list_except": lambda a, b: [v for v in unique(a) if v not in b],
    "list_concat": lambda a, b: a + b,
}


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=PAIRS)
def test_beside_python(compute: Compute, pairs: list[tuple[Any, Any]]) -> None:
    left, right = (pa.array([pair[i] for pair in pairs], pa.list_(pa.int16())) for i in (0, 1))
    for function, oracle in ORACLES.items():
        expected = [None if None in pair else oracle(*pair) for pair in pairs]
        assert compute(function, left, right) == expected, function
    expected = [None if a is None else unique(a) for a, _ in pairs]
    assert compute("list_unique", left) == expected
