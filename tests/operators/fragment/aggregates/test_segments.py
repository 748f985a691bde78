"""Lists as segments, and integers in the order of values."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from fabric.operators.fragment.aggregates.segments import (
    lists_of,
    order_keys,
    reduced,
    segments,
    without_nulls,
)


@pytest.mark.parametrize("begin", [0, 1, 3])
def test_segments_of_slices_and_null_lists(begin: int) -> None:
    lists = pa.array([[1, None], None, [], [3], [4, 5]]).slice(begin)
    values, offsets = segments(lists)
    cut = [values[a:b].to_pylist() for a, b in pairwise(offsets)]
    assert cut == [one or [] for one in lists.to_pylist()]
    kept, offsets = without_nulls(values, offsets)
    back = lists_of(kept, offsets, pa.list_(pa.int64()))
    assert back.to_pylist() == [[v for v in one if v is not None] for one in cut]


def test_reduced_leaves_empty_segments_alone() -> None:
    values = np.array([5.0, 1.0, 2.0])
    assert reduced(np.minimum, values, np.array([0, 0, 2, 3, 3])).tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([3, -2, 2**63 - 1, -(2**63)]),
        pa.array([3, 2**64 - 1, 0], pa.uint64()),
        pa.array([True, False]),
        pa.array([1.5, -0.5, math.inf, -math.inf]),
        pa.array([1.5, -0.5], pa.float32()),
        pa.array([5, -3], pa.date32()),
        pa.array([5, -3], pa.timestamp("us", "UTC")),
        pa.array([5, 3], pa.time32("s")),
        pa.array([5, -3], pa.duration("ns")),
        pa.array([Decimal("1.50"), Decimal("-2.25")]),
        pa.array(["b", "a", "ab", ""]),
        pa.array([b"b", b"a"]),
    ],
    ids=lambda values: str(values.type),
)
def test_keys_are_in_the_order_of_values(values: pa.Array) -> None:
    keys, back = order_keys(values)
    known = values.to_pylist()
    assert [known[i] for i in np.argsort(keys)] == sorted(known)
    assert back(np.sort(keys)).equals(pa.array(sorted(known), values.type))


def test_nans_are_one_and_largest_and_zeros_equal() -> None:
    odd = pa.array([0xFFF8000000000001], pa.uint64()).view(pa.float64())
    values = pa.concat_arrays([pa.array([math.inf, -0.0, 0.0, math.nan]), odd])
    inf, minus, plus, nan, other = order_keys(values)[0].tolist()
    assert minus == plus < inf < nan == other
