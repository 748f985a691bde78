"""Rounding, the calendar and text forms against Python's own."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.operators.expressions.arrow.bound import from_numpy, to_numpy
from fabric.operators.expressions.arrow.casts.from_text import day_of_text, micros_of_text
from fabric.operators.expressions.arrow.casts.to_text import java_text
from fabric.operators.expressions.arrow.civil import (
    civil_from_days,
    days_from_civil,
    month_length,
)
from fabric.operators.expressions.arrow.digits import rounded_text, scaled

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
EPOCH = date(1970, 1, 1)


@given(
    values=st.lists(FLOATS | st.decimals(-1000, 1000, places=3).map(float), min_size=1),
    digits=st.integers(-30, 30),
)
def test_scaled_is_the_text_rounded(values: list[float], digits: int) -> None:
    whole, doubtful = scaled(np.array(values), digits)
    for value, number, doubt in zip(values, whole, doubtful, strict=True):
        if not doubt:
            exact = Decimal(repr(value)).scaleb(digits).to_integral_value(ROUND_HALF_UP)
            assert Decimal(float(number)) == exact


def test_scaled_is_seldom_in_doubt() -> None:
    cents = np.random.default_rng(1).integers(-(10**9), 10**9, 10_000) / 100
    assert not scaled(cents, 2)[1].any()
    assert not scaled(cents + 0.001, 2)[1].any()


@given(value=FLOATS, digits=st.integers(-400, 400))
def test_rounded_text(value: float, digits: int) -> None:
    rounded = rounded_text(value, digits)
    assert abs(rounded - Decimal(repr(value))) <= Decimal(1).scaleb(-digits) / 2


@given(st.lists(st.dates(), min_size=1))
def test_calendar(days: list[date]) -> None:
    numbers = np.array([(day - EPOCH).days for day in days])
    year, month, day = civil_from_days(numbers)
    assert [*zip(year, month, day, strict=True)] == [(d.year, d.month, d.day) for d in days]
    assert days_from_civil(year, month, day).tolist() == numbers.tolist()


@given(st.lists(st.integers(-(10**8), 10**8), min_size=1))
def test_calendar_goes_beyond_pythons(days: list[int]) -> None:
    numbers = np.array(days)
    year, month, day = civil_from_days(numbers)
    assert (days_from_civil(year, month, day) == numbers).all()
    assert ((day >= 1) & (day <= month_length(year, month))).all()


@given(st.dates())
def test_day_of_text(day: date) -> None:
    assert day_of_text(day.isoformat()) == (day - EPOCH).days


@given(st.datetimes(), st.integers(-17, 17), st.integers(0, 59))
def test_micros_of_text(stamp: datetime, hours: int, minutes: int) -> None:
    offset = f"{'-' if hours < 0 else '+'}{abs(hours):02d}:{minutes:02d}"
    ahead = timedelta(hours=abs(hours), minutes=minutes) * (-1 if hours < 0 else 1)
    micros = (stamp - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    text = stamp.isoformat(sep=" ", timespec="microseconds")
    assert micros_of_text(text) == micros
    assert micros_of_text(text + offset) == micros - ahead // timedelta(microseconds=1)
    assert micros_of_text(text + offset, naive=True) == micros


@pytest.mark.parametrize("text", ["", "10:20:30", "T10", "2024-00-01", "2024-01-01 10:00:00 ../x"])
def test_no_timestamps(text: str) -> None:
    with pytest.raises(ValueError, match=r"^$|10|2024|\.\."):
        micros_of_text(text)


@given(st.floats())
def test_java_text_reads_back(value: float) -> None:
    text = java_text(np.float64(value))
    assert repr(float(text.replace("Infinity", "inf"))) == repr(value)


@given(st.floats(width=32))
def test_java_text_of_float32_reads_back(value: float) -> None:
    text = java_text(np.float32(value))
    assert repr(np.float32(text.replace("Infinity", "inf"))) == repr(np.float32(value))


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.none()), st.integers(0, 3))
def test_buffers(values: list[int | None], start: int) -> None:
    array = pa.array(values, pa.int64())[start:]
    valid = array.is_valid()
    assert from_numpy(to_numpy(array), pa.int64(), valid).to_pylist() == values[start:]
