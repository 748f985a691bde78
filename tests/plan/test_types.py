"""Families, widening and casts of Arrow types, also of those that Spark does not have."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.plan.expr import Literal
from fabric.plan.functions import result_type
from fabric.plan.types import (
    can_cast,
    common_of,
    common_type,
    is_comparable,
    is_groupable,
    numeric,
    plain,
)

SINGLE = [
    pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(),
    pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal128(10, 2),
    pa.decimal128(38, 20), pa.string(), pa.large_string(), pa.string_view(), pa.binary(),
    pa.binary(16), pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("us", "UTC"),
    pa.timestamp("ns", "Europe/Berlin"), pa.duration("ms"), pa.time32("s"), pa.time64("ns"),
    pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.int64()),
]  # fmt: skip
dtypes = st.sampled_from(SINGLE)


@given(left=dtypes, right=dtypes)
def test_common_type_does_not_depend_on_the_order(left: pa.DataType, right: pa.DataType) -> None:
    forward, backward = common_type(left, right), common_type(right, left)
    assert (forward is None) == (backward is None)
    if forward is not None and not pa.types.is_timestamp(forward):
        assert plain(forward) == plain(backward)


@given(dtype=dtypes)
def test_common_type_with_itself_and_null(dtype: pa.DataType) -> None:
    assert common_type(dtype, dtype) == dtype
    assert common_type(dtype, pa.null()) == plain(dtype)


@given(left=dtypes, right=dtypes)
def test_both_sides_can_be_cast_to_the_common_type(left: pa.DataType, right: pa.DataType) -> None:
    common = common_type(left, right)
    if common is not None:
        assert can_cast(left, common)
        assert can_cast(right, common)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (pa.uint8(), pa.int8(), pa.int16()),
        (pa.uint32(), pa.int32(), pa.int64()),
        (pa.uint64(), pa.int64(), pa.decimal128(20, 0)),
        (pa.string(), pa.large_string(), pa.large_string()),
        (pa.dictionary(pa.int8(), pa.string()), pa.string_view(), pa.string()),
        (pa.timestamp("s"), pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC")),
        (pa.timestamp("us", "UTC"), pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("us", "UTC")),
        (pa.date64(), pa.date32(), pa.date32()),
        (pa.decimal128(38, 0), pa.decimal128(38, 10), pa.decimal128(38, 0)),  # as Spark 4.3
        (pa.decimal128(38, 20), pa.decimal128(30, 0), pa.decimal128(38, 8)),
        (pa.string(), pa.int32(), None),
        (pa.list_(pa.int8()), pa.int8(), None),
    ],
)
def test_common_type(left: pa.DataType, right: pa.DataType, expected: pa.DataType | None) -> None:
    assert common_type(left, right) == expected


def test_common_of_nothing_is_null() -> None:
    assert common_of([]) == pa.null()
    assert common_of([pa.int8(), pa.string(), pa.int8()]) is None


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        ("add", 1, (11, 2)), ("add", -100, (11, 2)), ("multiply", 100, (14, 2)),
        ("divide", 7, (14, 6)), ("modulo", 7, (3, 2)), ("add", 2**40, (16, 2)),
    ],
)  # fmt: skip
def test_an_integer_constant_beside_a_decimal_counts_its_digits(
    function: str, value: int, expected: tuple[int, int]
) -> None:
    """Live Spark's answers for ``CAST(x AS DECIMAL(10,2)) <op> constant``."""
    types = [pa.decimal128(10, 2), pa.int64()]
    result = result_type(function, types, [None, Literal(value, pa.int64())])
    assert result == pa.decimal128(*expected)


@pytest.mark.parametrize(
    ("function", "types", "expected"),
    [
        ("add", [pa.null(), pa.int32()], pa.int32()),
        ("divide", [pa.null(), pa.null()], pa.float64()),
        ("negate", [pa.null()], pa.float64()),
        ("add", [pa.null(), pa.decimal128(10, 2)], pa.decimal128(11, 2)),
        ("abs", [pa.uint8()], pa.int16()),
        ("add", [pa.uint64(), pa.int8()], pa.decimal128(21, 0)),
        ("length", [pa.dictionary(pa.int8(), pa.string())], pa.int32()),
        ("date_trunc", [pa.string(), pa.timestamp("ns")], pa.timestamp("us")),
        ("date_trunc", [pa.string(), pa.date32()], pa.timestamp("us", "UTC")),
        ("add_interval", [pa.timestamp("us", "UTC"), pa.int8(), pa.string()],
         pa.timestamp("us", "UTC")),
        ("to_timestamp", [pa.string()], pa.timestamp("us", "UTC")),
        ("coalesce", [pa.null(), pa.null()], pa.null()),
    ],
)  # fmt: skip
def test_result_type(function: str, types: list[pa.DataType], expected: pa.DataType) -> None:
    assert result_type(function, types) == expected


def test_numbers_too_wide_for_spark_are_none() -> None:
    assert numeric(pa.decimal256(50, 2)) is None
    assert numeric(pa.decimal256(20, 2)) == pa.decimal128(20, 2)


def test_nested_values_group_but_do_not_compare() -> None:
    nested = pa.list_(pa.struct([("a", pa.int8())]))
    assert is_groupable(nested)
    assert not is_comparable(nested)
    assert not is_groupable(pa.list_(pa.map_(pa.string(), pa.int8())))


@pytest.mark.parametrize(
    ("source", "target"),
    [(pa.date32(), pa.int32()), (pa.bool_(), pa.date32()), (pa.binary(), pa.float64()),
     (pa.list_(pa.int8()), pa.string()), (pa.string(), pa.list_(pa.int8()))],
)  # fmt: skip
def test_casts_that_do_not_exist(source: pa.DataType, target: pa.DataType) -> None:
    assert not can_cast(source, target)
