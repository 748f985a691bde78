"""Codes are in the order of values; groups are the equal values of a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.operators.expressions.arrow.lists.codes import codes, groups

VALUES: list[tuple[pa.DataType, Sequence[Any]]] = [
    (pa.int8(), [-128, -1, 0, 127]),
    (pa.int64(), [-(2**63), -1, 0, 2**63 - 1]),
    (pa.uint64(), [0, 1, 2**63, 2**64 - 1]),
    (pa.float32(), [-math.inf, -1.5, 0.0, 1e-30, math.inf, math.nan]),
    (pa.float64(), [-math.inf, -1e300, -1e-300, 0.0, 1.0, math.inf, math.nan]),
    (pa.bool_(), [False, True]),
    (pa.string(), ["", "B", "a", "ab", "é", "￿", "𝄞"]),
    (pa.binary(), [b"", b"\x00", b"a", b"\xff"]),
    (pa.decimal128(5, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("1.49")]),
    (pa.list_(pa.int8()), [[], [None], [1], [1, None], [1, 0], [2]]),
    (pa.struct([("a", pa.int8()), ("b", pa.string())]),
     [{"a": None, "b": "z"}, {"a": 1, "b": None}, {"a": 1, "b": "x"}, {"a": 2, "b": "a"}]),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "ordered"), VALUES, ids=lambda value: str(value)[:20])
def test_codes_are_in_order(dtype: pa.DataType, ordered: Sequence[Any]) -> None:
    values = [*reversed(ordered), *ordered]
    found = codes(pa.array(values, dtype)).tolist()
    n = len(ordered)
    assert found[:n][::-1] == found[n:] == sorted(set(found))


def test_zeros_and_nans_are_equal() -> None:
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).view(np.float64)
    assert len(set(codes(pa.array(bits)).tolist())) == 1
    assert len(set(codes(pa.array([0.0, -0.0])).tolist())) == 1


@given(pairs=st.lists(st.tuples(st.integers(0, 2), st.none() | st.integers(-2, 2))))
def test_groups_of_a_row(pairs: list[tuple[int, int | None]]) -> None:
    rows = np.array([row for row, _ in pairs], np.int64)
    numbers, first = groups(rows, pa.array([value for _, value in pairs], pa.int64()))
    seen: dict[Any, int] = {}
    for pair, number, new in zip(pairs, numbers.tolist(), first.tolist(), strict=True):
        assert new == (pair not in seen)
        assert seen.setdefault(pair, number) == number
    assert len(set(seen.values())) == len(seen)
