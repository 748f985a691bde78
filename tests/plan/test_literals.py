"""Python values become Arrow's whole, or not at all."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fabric.plan.literals import array_of

WHOLE = pa.int8()
PART = pa.struct([("a", WHOLE), ("b", pa.string())])


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, None, 2], WHOLE),
        ([1.5, 2], pa.float64()),
        ([Decimal("1.5")], pa.decimal128(5, 2)),
        ([None, [1, None], []], pa.list_(WHOLE)),
        ([None, {"a": 1, "b": "x"}], PART),
        ([None, [(1, 2.5)]], pa.map_(WHOLE, pa.float64())),
        ([True, None], pa.bool_()),
    ],
)
def test_what_fits_is_as_it_was(values: list[Any], dtype: pa.DataType) -> None:
    assert array_of(values, dtype).equals(pa.array(values, dtype))


@pytest.mark.parametrize(
    "whole", [2.0, np.float32(2), Decimal("2.00"), np.int64(2), Fraction(4, 2)]
)
def test_a_whole_number_of_another_kind_is_taken(whole: Any) -> None:
    assert array_of([whole, None], WHOLE).to_pylist() == [2, None]


@pytest.mark.parametrize("part", [1.5, np.float32(1.5), Decimal("1.5"), Fraction(3, 2)])
@pytest.mark.parametrize(
    ("wrapped", "dtype"),
    [
        (lambda v: v, WHOLE),
        (lambda v: v, pa.timestamp("us")),
        (lambda v: v, pa.duration("s")),
        (lambda v: v, pa.dictionary(pa.int8(), WHOLE)),
        (lambda v: [v], pa.list_(WHOLE)),
        (lambda v: np.array([v], object), pa.list_(WHOLE)),
        (lambda v: {"a": v, "b": "x"}, PART),
        (lambda v: (v, "x"), PART),
        (lambda v: [(v, 1)], pa.map_(WHOLE, WHOLE)),
        (lambda v: {1: [v]}, pa.map_(WHOLE, pa.list_(WHOLE))),
    ],
)
def test_no_fraction_is_cut_off(part: Any, wrapped: Any, dtype: pa.DataType) -> None:
    with pytest.raises(ValueError, match="is not whole"):
        array_of([None, wrapped(part)], dtype)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (float("nan"), WHOLE),
        (float("inf"), WHOLE),
        (Decimal("1E-999999999"), WHOLE),
        (Decimal("1E-999999999"), pa.list_(pa.decimal128(5, 2))),
        (5, pa.list_(WHOLE)),
        (5, PART),
        ((1,), PART),
        ("x", pa.map_(WHOLE, WHOLE)),
    ],
)
def test_what_is_no_value_is_refused_in_python(value: Any, dtype: pa.DataType) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        array_of([value], dtype)
