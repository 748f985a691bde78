"""Days and months beside Python's calendar, and what is no date."""

from __future__ import annotations

import calendar
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow import compile_expr
from fabric.plan.expr import Call, Column, Expr, Literal

DATES = st.dates(date(1, 1, 8), date(9990, 12, 31))


def computed(function: str, *args: Any) -> list[Any]:
    """Arrays are columns, the others constants."""
    columns = {f"c{i}": arg for i, arg in enumerate(args) if isinstance(arg, pa.Array)}
    exprs: list[Expr] = [
        Column(f"c{i}") if isinstance(arg, pa.Array) else Literal(arg, pa.scalar(arg).type)
        for i, arg in enumerate(args)
    ]
    batch = pa.record_batch(columns)
    values: list[Any] = compile_expr(Call(function, tuple(exprs)), batch.schema)(batch).to_pylist()
    return values


@settings(deadline=None)
@given(days=st.lists(st.none() | DATES, min_size=1))
def test_fields(days: list[date | None]) -> None:
    array = pa.array(days, pa.date32())
    last = [d and d.replace(day=calendar.monthrange(d.year, d.month)[1]) for d in days]
    assert computed("last_day", array) == last
    assert computed("week", array) == [d and d.isocalendar().week for d in days]
    assert computed("weekday", array) == [d and d.isoweekday() for d in days]
    assert computed("day_of_year", array) == [d and d.timetuple().tm_yday for d in days]
    assert computed("trunc", array, "week") == [d and d - timedelta(d.weekday()) for d in days]
    quarters = [d and d.replace(month=(d.month - 1) // 3 * 3 + 1, day=1) for d in days]
    assert computed("trunc", array, "quarter") == quarters
    friday = [d and d + timedelta((4 - d.weekday() - 1) % 7 + 1) for d in days]
    assert computed("next_day", array, "friday") == friday


@settings(deadline=None)
@given(day=DATES, months=st.integers(-12, 12))
def test_add_months(day: date, months: int) -> None:
    total = day.year * 12 + day.month - 1 + months
    year, month = divmod(total, 12)
    if year >= 1:
        end = calendar.monthrange(year, month + 1)[1]
        expected = date(year, month + 1, min(day.day, end))
        assert computed("add_months", pa.array([day]), months) == [expected]


@settings(deadline=None)
@given(start=st.datetimes(), end=st.datetimes())
def test_differences(start: datetime, end: datetime) -> None:
    columns = [pa.array([time], pa.timestamp("us")) for time in (start, end)]
    apart = end - start
    for unit, step in (("hour", timedelta(hours=1)), ("week", timedelta(7))):
        whole = abs(apart) // step * (1 if apart > timedelta(0) else -1)
        assert computed("timestamp_diff", unit, *columns) == [whole]
    assert computed("date_diff", columns[1], columns[0]) == [(end.date() - start.date()).days]


@pytest.mark.parametrize(
    ("parts", "message"),
    [((2023, 2, 29), "2023, 2, 29 is not a valid date"), ((2023, 0, 1), "is not a valid date"),
     ((2147483647, 1, 1), "overflow: a date so far away")],
)  # fmt: skip
def test_no_date(parts: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        computed("make_date", pa.array(parts[:1], pa.int32()), *parts[1:])


def test_a_timestamp_so_far_away() -> None:
    with pytest.raises(ExpressionError, match="overflow: a timestamp so far away"):
        computed("make_timestamp", pa.array([300_000], pa.int32()), 1, 1, 0, 0, 0)


def test_microseconds_between_the_ends_of_time() -> None:
    ends = [pa.array([v]).view(pa.timestamp("us")) for v in (-(2**63) + 1, 2**63 - 1)]
    with pytest.raises(ExpressionError, match="overflow: too many microseconds"):
        computed("timestamp_diff", "microsecond", *ends)
    assert computed("timestamp_diff", "second", *ends) == [18446744073709]
