"""Days and months to count with, on numpy: last_day … make_timestamp.

One job: last_day trunc next_day date_add add_months date_diff months_between timestamp_diff
make_date make_timestamp. Days are int32 and wrap where Spark's do.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.bound import (
    Bound,
    Datum,
    Implementation,
    Request,
    Values,
    all_null,
    arrays,
    numeric,
    numeric_kernel,
)
from fabric.operators.expressions.arrow.civil import (
    DAY_US,
    civil_from_days,
    days_from_civil,
    first_of_months,
    month_length,
    months_later,
)
from fabric.plan.durations import UNITS_MONTHS, UNITS_US
from fabric.plan.functions.calendar import DAY_NAMES

_INT32 = np.iinfo(np.int32)
_DAYS_MAX = 106_751_991
_MILLION = Decimal(1_000_000)
_MONTH_SECONDS = 31 * 86_400


def _last_day(days: Values) -> Values:
    year, month, day = civil_from_days(days)
    last: Values = days + month_length(year, month) - day
    return last


def _trunc(request: Request) -> Bound:
    unit = request.constant(1)

    def compute(days: Values) -> Values:
        if unit == "week":
            return days.astype(np.int64) - weekday(days)
        return first_of_months(days, UNITS_MONTHS[unit])

    return _by_constant(request, unit, compute)


def _next_day(request: Request) -> Bound:
    name = request.constant(1)

    def compute(days: Values) -> Values:
        ahead: Values = (DAY_NAMES.index(name) - weekday(days) - 1) % 7 + 1
        return ahead + days

    return _by_constant(request, name, compute)


def _by_constant(request: Request, constant: str | None, compute: Callable[..., Values]) -> Bound:
    """A function of a day, null when its constant is."""
    if constant is None:
        return all_null(request)
    return Bound(numeric_kernel(compute, request.result, index=[0]), array=0)


def weekday(days: Values) -> Values:
    """0 is Monday; 1970-01-01 was a Thursday."""
    return (days.astype(np.int64) + 3) % 7


def _date_add(days: Values, number: Values) -> Values:
    moved: Values = days.astype(np.int32) + number.astype(np.int32)
    return moved


def _date_diff(end: Values, start: Values) -> Values:
    return _date_add(end, -start.astype(np.int32))


def _add_months(days: Values, months: Values) -> Values:
    return _as_days(months_later(days, months.astype(np.int64)))


def _as_days(days: Values) -> Values:
    if np.any((days < _INT32.min) | (days > _INT32.max)):
        raise ExpressionError("overflow: a date so far away has no number of days")
    return days


def _months_between(request: Request) -> Bound:
    rounded = request.constant(2)

    def to_eight_digits(end: Values, start: Values) -> Values:
        digits: Values = np.floor(_months_apart(end, start) * 1e8 + 0.5) / 1e8
        return digits

    if rounded is None:
        return all_null(request)
    compute = to_eight_digits if rounded else _months_apart
    return Bound(numeric_kernel(compute, request.result, index=[0, 1]))


def _months_apart(end: Values, start: Values) -> Values:
    """Whole when both are the same day of the month or both are its last day."""
    end_days, start_days = end // DAY_US, start // DAY_US
    end_year, end_month, end_day = civil_from_days(end_days)
    start_year, start_month, start_day = civil_from_days(start_days)
    months = (end_year - start_year) * 12 + end_month - start_month
    both_last = (end_day == month_length(end_year, end_month)) & (
        start_day == month_length(start_year, start_month)
    )
    whole = (end_day == start_day) | both_last
    clock = (end - end_days * DAY_US) // 1_000_000 - (start - start_days * DAY_US) // 1_000_000
    seconds = (end_day - start_day) * 86_400 + clock
    apart: Values = months + np.where(whole, 0.0, seconds / _MONTH_SECONDS)
    return apart


def _timestamp_diff(request: Request) -> Bound:
    unit = request.constant(0)
    if unit is None:
        return all_null(request, 1)

    def compute(start: Values, end: Values) -> Values:
        if unit in UNITS_MONTHS:
            return _truncated(_whole_months(start, end), UNITS_MONTHS[unit])
        return _units_apart(start, end, UNITS_US[unit])

    return Bound(numeric_kernel(compute, request.result, index=[1, 2]))


def _truncated(number: Values, size: int) -> Values:
    whole: Values = np.sign(number) * (np.abs(number) // size)
    return whole


def _units_apart(start: Values, end: Values, size: int) -> Values:
    """The difference of two int64 fits a uint64."""
    with np.errstate(over="ignore"):
        apart = np.where(end >= start, end - start, start - end).view(np.uint64)
    units = apart // np.uint64(size)
    if np.any(units > np.uint64(np.iinfo(np.int64).max)):
        raise ExpressionError("overflow: too many microseconds between two timestamps")
    return np.where(end >= start, 1, -1) * units.astype(np.int64)


def _whole_months(start: Values, end: Values) -> Values:
    """Months that are over, as Java counts: of a last day that is not over only the days before."""
    start_days, end_days = start // DAY_US, end // DAY_US
    earlier = (end - end_days * DAY_US) < (start - start_days * DAY_US)
    later = (end - end_days * DAY_US) > (start - start_days * DAY_US)
    reached = end_days - ((end_days > start_days) & earlier) + ((end_days < start_days) & later)
    return _truncated(_packed(reached) - _packed(start_days), 32)


def _packed(days: Values) -> Values:
    """Months of 32 days, so that a difference tells whole months."""
    year, month, day = civil_from_days(days)
    return (year * 12 + month) * 32 + day


def _make_date(year: Values, month: Values, day: Values) -> Values:
    year, month, day = (part.astype(np.int64) for part in (year, month, day))
    _refuse(_no_day(year, month, day), "date", year, month, day)
    return _as_days(days_from_civil(year, month, day))


def _no_day(year: Values, month: Values, day: Values) -> Values:
    no_month = (month < 1) | (month > 12)
    wrong: Values = no_month | (day < 1) | (day > month_length(year, np.where(no_month, 1, month)))
    return wrong


def _refuse(wrong: Values, what: str, *parts: Values) -> None:
    if np.any(wrong):
        row = int(np.argmax(wrong))
        shown = ", ".join(str(part[row]) for part in parts)
        raise ExpressionError(f"{shown} is not a valid {what}")


def _make_timestamp(request: Request) -> Bound:
    compute = numeric_kernel(_time_of, request.result)

    def kernel(*operands: Datum) -> pa.Array:
        *wholes, seconds = arrays(*operands)
        micros = pc.multiply(seconds, pa.scalar(_MILLION, pa.decimal128(7, 0)))
        return compute(*wholes, micros.cast(pa.int64()))

    return Bound(kernel)


def _time_of(*parts: Values) -> Values:
    """Sixty seconds without a fraction are the next minute."""
    year, month, day, hour, minute, micros = (part.astype(np.int64) for part in parts)
    wrong = _no_day(year, month, day) | (hour < 0) | (hour > 23) | (minute < 0) | (minute > 59)
    wrong |= (micros < 0) | (micros > 60_000_000)
    _refuse(wrong, "time", year, month, day, hour, minute, micros / 1e6)
    days = days_from_civil(year, month, day)
    if np.any(np.abs(days) >= _DAYS_MAX):
        raise ExpressionError("overflow: a timestamp so far away has no number of microseconds")
    stamps: Values = days * DAY_US + (hour * 60 + minute) * 60_000_000 + micros
    return stamps


IMPLEMENTATIONS: dict[str, Implementation] = {
    "last_day": numeric(_last_day),
    "trunc": _trunc,
    "next_day": _next_day,
    "date_add": numeric(_date_add),
    "add_months": numeric(_add_months),
    "date_diff": numeric(_date_diff),
    "months_between": _months_between,
    "timestamp_diff": _timestamp_diff,
    "make_date": numeric(_make_date),
    "make_timestamp": _make_timestamp,
}
