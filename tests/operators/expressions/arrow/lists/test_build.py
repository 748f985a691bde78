"""Sequences at the ends of int64, wrong steps, lists that are too long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from fabric.errors import ExpressionError

Compute = Callable[..., list[Any]]
LOW, HIGH = -(2**63), 2**63 - 1
ONE = pa.array([1])


def test_sequences_at_the_ends(compute: Compute) -> None:
    assert compute("sequence", pa.array([HIGH - 1]), HIGH) == [[HIGH - 1, HIGH]]
    assert compute("sequence", pa.array([LOW]), HIGH, HIGH) == [[LOW, -1, HIGH - 1]]
    assert compute("sequence", pa.array([HIGH]), LOW, LOW) == [[HIGH, -1]]


@pytest.mark.parametrize(("start", "stop", "step"), [(1, 5, -1), (1, 5, 0), (5, 1, 2)])
def test_a_step_the_wrong_way_is_refused(
    compute: Compute, start: int, stop: int, step: int
) -> None:
    with pytest.raises(ExpressionError, match=f"boundaries: {start} to {stop} by {step} in "):
        compute("sequence", pa.array([start]), stop, step)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        ("sequence", (pa.array([LOW]), HIGH)),
        ("sequence", (pa.array([0, 0]), 2**62)),
        ("list_repeat", (pa.array([1, 2]), 2**31 - 1)),
    ],
)
def test_lists_that_are_too_long_are_refused(
    compute: Compute, function: str, args: tuple[Any, ...]
) -> None:
    with pytest.raises(ExpressionError, match="overflow: lists of"):
        compute(function, *args)


def test_a_zip_of_lists_of_other_lengths(compute: Compute) -> None:
    left = pa.array([[1, 2], [], None, [3]], pa.list_(pa.int8()))
    right = pa.array([["a"], ["b"], ["c"], None], pa.list_(pa.string()))
    assert compute("list_zip", "x", left, "y", right) == [
        [{"x": 1, "y": "a"}, {"x": 2, "y": None}],
        [{"x": None, "y": "b"}],
        None,
        None,
    ]
