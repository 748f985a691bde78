"""Dates and times at equal distances.

One job: `times_between`.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from fabric.clients.dataframe.durations import days_and_rest, parse_duration
from fabric.clients.dataframe.names import choice
from fabric.errors import PlanError
from fabric.plan.durations import UNITS_MONTHS, UNITS_US

_ROWS_MAX = 100_000_000
_EPOCH = date(1970, 1, 1)


def times_between(start: date, end: date, every: str | timedelta, closed: str) -> pa.Array:
    """The times from `start` to `end`, `closed` says which of both are among them."""
    choice(closed, ("both", "left", "right", "none"), "date_range", "closed")
    kinds = {isinstance(value, datetime) for value in (start, end)}
    if not isinstance(start, date) or not isinstance(end, date) or len(kinds) != 1:
        raise PlanError(f"date_range takes two dates or two datetimes, got {start!r} and {end!r}")
    if _is_naive(start) != _is_naive(end):
        raise PlanError(
            f"date_range takes two times with a zone or two without, got {start!r} and {end!r}"
        )
    number, unit = parse_duration(every)
    if number <= 0:
        raise PlanError(f"date_range needs a distance above 0, got {every!r}")
    dtype = pa.scalar(start).type
    if unit in UNITS_MONTHS:
        found = _by_months(start, end, number * UNITS_MONTHS[unit], dtype)
    elif not _is_naive(start) and (step := days_and_rest(every)) is not None and step[0]:
        found = _by_clocks(start, end, *step, dtype)
    else:
        found = _by_length(start, end, number * UNITS_US[unit], dtype)
    if closed in ("right", "none"):
        found = found.filter(pc.not_equal(found, pa.scalar(start, found.type)))
    if closed in ("left", "none"):
        found = found.filter(pc.not_equal(found, pa.scalar(end, found.type)))
    return found


def _is_naive(value: date) -> bool:
    return not isinstance(value, datetime) or value.tzinfo is None


def _by_clocks(start: date, end: date, days: int, rest_us: int, dtype: pa.DataType) -> pa.Array:
    """Days as clocks of the zone of `start` show them, which are not always as long."""
    assert isinstance(start, datetime)
    assert isinstance(end, datetime)
    last, found = end.astimezone(UTC), []
    for i in range(_ROWS_MAX):
        try:
            value = (start + timedelta(days * i)).astimezone(UTC)
            value += timedelta(microseconds=rest_us * i)
        except OverflowError:  # after the year 9999
            break
        if value > last:
            break
        found.append(value)
    return pa.array(found, dtype)


def _by_length(start: date, end: date, length_us: int, dtype: pa.DataType) -> pa.Array:
    stamp = dtype if pa.types.is_timestamp(dtype) else pa.timestamp("us")
    first, last = (pa.scalar(value).cast(stamp).cast(pa.int64()).as_py() for value in (start, end))
    if (last - first) // length_us >= _ROWS_MAX:
        raise PlanError(f"date_range would make more than {_ROWS_MAX:,} rows; take a longer every")
    found = pa.array(range(first, last + 1, length_us), pa.int64()).cast(stamp)
    return found.cast(dtype) if length_us % UNITS_US["day"] == 0 else found


def _by_months(start: date, end: date, months: int, dtype: pa.DataType) -> pa.Array:
    found: list[date] = []
    while (value := _months_later(start, months * len(found))) is not None and value <= end:
        found.append(value)
    return pa.array(found, dtype)


def _months_later(value: date, months: int) -> date | None:
    """So much later, its day cut to the length of the month; None after the year 9999."""
    year, month = divmod(value.year * 12 + value.month - 1 + months, 12)
    if year > date.max.year:
        return None
    following = date(year + month // 11, (month + 1) % 12 + 1, 1) if year < 9999 else None
    last = 31 if following is None else (following - timedelta(days=1)).day
    return value.replace(year=year, month=month + 1, day=min(value.day, last))
