"""The proleptic Gregorian calendar on numpy arrays, for every day an int64 can count.

One job: days since 1970-01-01 to year, month, day and back. Arrow's own calendar ends with the year
32767; Spark's timestamps reach the year 294247.

Notes
-----
Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", ``civil_from_days``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fabric.operators.expressions.arrow.bound import Values, to_numpy

DAY_US = 86_400_000_000
_ERA_DAYS = 146_097
_EPOCH = 719_468
_MONTH_DAYS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


def civil_from_days(days: Values) -> tuple[Values, Values, Values]:
    """Year, month (1 to 12) and day (1 to 31) of days since 1970-01-01.

    >>> [part.tolist() for part in civil_from_days(np.array([0, -1]))]
    [[1970, 1969], [1, 12], [1, 31]]
    """
    shifted = days.astype(np.int64) + _EPOCH
    era = shifted // _ERA_DAYS
    day_of_era = shifted - era * _ERA_DAYS
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = np.where(month_from_march < 10, month_from_march + 3, month_from_march - 9)
    return year_of_era + era * 400 + (month <= 2), month, day


def days_from_civil(year: Values, month: Values, day: Values) -> Values:
    """Days since 1970-01-01 of a valid date.

    >>> days_from_civil(np.array([1970]), np.array([1]), np.array([2])).tolist()
    [1]
    """
    year = year - (month <= 2)
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    days: Values = era * _ERA_DAYS + day_of_era - _EPOCH
    return days


def first_of_months(days: Values, size: int) -> Values:
    """The first day of the month, or of the `size` months, that each day lies in.

    >>> first_of_months(np.array([100]), 3).tolist()
    [90]
    """
    year, month, _ = civil_from_days(days)
    first = (month - 1) // size * size + 1
    return days_from_civil(year, first, np.ones_like(first))


def months_later(days: Values, months: Values) -> Values:
    """The same day so many months later, cut to the length of the month.

    >>> months_later(np.array([30]), np.array([1])).tolist()
    [58]
    """
    year, month, day = civil_from_days(days)
    total = year * 12 + (month - 1) + months
    year, month = total // 12, total % 12 + 1
    return days_from_civil(year, month, np.minimum(day, month_length(year, month)))


def day_in_year(days: Values) -> Values:
    """0 is January 1st.

    >>> day_in_year(np.array([364, 365])).tolist()
    [364, 0]
    """
    return days - first_of_months(days, 12)


def month_length(year: Values, month: Values) -> Values:
    """Days in a month.

    >>> month_length(np.array([2024, 1900]), np.array([2, 2])).tolist()
    [29, 28]
    """
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    length: Values = _MONTH_DAYS[month] + (leap & (month == 2))
    return length


def days_of(values: pa.Array) -> Values:
    """The day of each date or timestamp of microseconds; the time is floored."""
    raw = to_numpy(values)
    return raw if pa.types.is_date32(values.type) else raw // DAY_US
