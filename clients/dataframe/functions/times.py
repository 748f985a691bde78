"""Functions of dates and timestamps: ``F.make_date("year", 12, 31)``, ``F.year("day")``.

One job: the functions that have no time to be a method of, and Spark's function names of those that
have. A string argument means a column.
"""

from __future__ import annotations

from fabric.clients.dataframe.expressions.expr import Expr, as_column, call
from fabric.clients.dataframe.expressions.types import Expression, IntoExpr
from fabric.clients.dataframe.functions.scalars import function_of
from fabric.clients.dataframe.methods.dates import DateTimeMethods
from fabric.errors import PlanError
from fabric.plan.expr import Literal

__all__ = [
    "add_months", "date_add", "date_diff", "date_format", "date_from_unix_date", "date_part",
    "date_sub", "date_trunc", "dateadd", "datediff", "datepart", "day", "dayname", "dayofmonth",
    "dayofweek", "dayofyear", "extract", "from_epoch", "from_utc_timestamp", "hour", "last_day",
    "make_date", "make_timestamp", "minute", "month", "monthname", "months_between", "next_day",
    "quarter", "second", "timestamp_diff", "timestamp_micros", "timestamp_millis",
    "timestamp_seconds", "to_date", "to_timestamp", "to_utc_timestamp", "trunc", "try_to_timestamp",
    "unix_date", "unix_micros", "unix_millis", "unix_seconds", "weekday", "weekofyear", "year",
]  # fmt: skip

Dates = DateTimeMethods[Expr]
_EPOCHS = {
    "d": "date_from_unix_date", "s": "timestamp_seconds", "ms": "timestamp_millis",
    "us": "timestamp_micros",
}  # fmt: skip


_PARTS = {
    "year": "year", "yr": "year", "month": "month", "mon": "month", "day": "day", "d": "day",
    "quarter": "quarter", "qtr": "quarter", "week": "week", "w": "week", "hour": "hour",
    "minute": "minute", "min": "minute", "dow": "day_of_week", "dayofweek": "day_of_week",
    "doy": "day_of_year",
}  # fmt: skip
"""What `date_part` takes, beside the seconds, which have a fraction there."""
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def make_date(year: IntoExpr, month: IntoExpr, day: IntoExpr) -> Expr:
    """The date of a year, month and day; one that is no date is an error.

    >>> make_date("year", 12, 31)
    make_date(col("year"), lit(12), lit(31))
    """
    return call("make_date", *map(as_column, (year, month, day)))


def make_timestamp(  # noqa: PLR0917  # as Spark has it
    year: IntoExpr,
    month: IntoExpr,
    day: IntoExpr,
    hour: IntoExpr = 0,
    minute: IntoExpr = 0,
    second: IntoExpr = 0,
) -> Expr:
    """The time in UTC of numbers; seconds may have a fraction, and 60 is the next minute.

    A timestamp in microseconds; null where a number is. An `ExpressionError` names numbers that
    are no time.

    >>> from fabric import DataFrame
    >>> df = DataFrame({"day": [29, None]})
    >>> df.select(make_timestamp(2024, 2, "day", 10, 30, 1.5).cast("string").alias("t")).to_dicts()
    [{'t': '2024-02-29 10:30:01.5'}, {'t': None}]
    """
    parts = (year, month, day, hour, minute, second)
    return call("make_timestamp", *map(as_column, parts))


def from_epoch(column: IntoExpr, time_unit: str = "s") -> Expr:
    """The time so many ``"s"``, ``"ms"`` or ``"us"`` after 1970, or the date so many ``"d"``.

    >>> from_epoch("sent", "ms")
    timestamp_millis(col("sent"))
    """
    if time_unit not in _EPOCHS:
        raise PlanError(f"from_epoch knows no unit {time_unit!r}; use one of {', '.join(_EPOCHS)}")
    return call(_EPOCHS[time_unit], as_column(column))


def timestamp_seconds(column: IntoExpr) -> Expr:
    """The time so many seconds after 1970, a timestamp in UTC of microseconds; of whole numbers.

    Null of null; an `ExpressionError` where it is too far away. See `from_epoch`.

    >>> from fabric import DataFrame
    >>> df = DataFrame({"s": [86_400, None]})
    >>> df.select(timestamp_seconds("s").cast("string").alias("t")).to_dicts()
    [{'t': '1970-01-02 00:00:00'}, {'t': None}]
    """
    return from_epoch(column, "s")


def timestamp_millis(column: IntoExpr) -> Expr:
    """The time so many milliseconds after 1970; as `timestamp_seconds`.

    >>> from fabric import DataFrame
    >>> DataFrame({"ms": [1500]}).select(timestamp_millis("ms").cast("string")).to_dicts()
    [{'ms': '1970-01-01 00:00:01.5'}]
    """
    return from_epoch(column, "ms")


def timestamp_micros(column: IntoExpr) -> Expr:
    """The time so many microseconds after 1970; as `timestamp_seconds`.

    >>> from fabric import DataFrame
    >>> DataFrame({"us": [1500]}).select(timestamp_micros("us").cast("string")).to_dicts()
    [{'us': '1970-01-01 00:00:00.0015'}]
    """
    return from_epoch(column, "us")


def date_from_unix_date(column: IntoExpr) -> Expr:
    """The date so many days after 1970; null of null. Below 0 it is before.

    >>> from fabric import DataFrame
    >>> DataFrame({"d": [-1, 31]}).select(date_from_unix_date("d").cast("string")).to_dicts()
    [{'d': '1969-12-31'}, {'d': '1970-02-01'}]
    """
    return from_epoch(column, "d")


def to_date(column: IntoExpr, format: str | None = None) -> Expr:
    """The date of a timestamp or text; `format` is a Spark pattern such as ``dd/MM/yyyy``.

    >>> to_date("day", "dd/MM/yyyy")
    to_date(col("day"), lit("dd/MM/yyyy"))
    """
    if format is None:
        return as_column(column).cast("date")
    return call("to_date", as_column(column), format)


def to_timestamp(column: IntoExpr, format: str | None = None) -> Expr:
    """A text as a time in UTC, by a Spark pattern such as ``yyyy-MM-dd HH:mm`` when given."""
    if format is None:
        return as_column(column).cast("timestamp")
    return call("to_timestamp", as_column(column), format)


def try_to_timestamp(column: IntoExpr, format: str | None = None) -> Expr:
    """As `to_timestamp`, null where the text does not fit."""
    if format is None:
        return as_column(column).try_cast("timestamp")
    return call("try_to_timestamp", as_column(column), format)


def date_format(column: IntoExpr, format: str) -> Expr:
    """A date or time as text by a Spark pattern, such as ``yyyy-MM-dd HH:mm``."""
    return call("date_format", as_column(column), format)


def date_diff(end: IntoExpr, start: IntoExpr) -> Expr:
    """The days from `start` to `end`."""
    return as_column(end).dt.date_diff(as_column(start))


def timestamp_diff(unit: str, start: IntoExpr, end: IntoExpr) -> Expr:
    """Whole units from `start` to `end`."""
    return as_column(end).dt.timestamp_diff(unit, as_column(start))


year = function_of(Dates.year, Dates)
quarter = function_of(Dates.quarter, Dates)
month = function_of(Dates.month, Dates)
day = dayofmonth = function_of(Dates.day, Dates)
dayofweek = function_of(Dates.day_of_week, Dates, "dayofweek")
dayofyear = function_of(Dates.day_of_year, Dates, "dayofyear")
weekofyear = function_of(Dates.week, Dates, "weekofyear")
hour = function_of(Dates.hour, Dates)
minute = function_of(Dates.minute, Dates)
second = function_of(Dates.second, Dates)
last_day = function_of(Dates.last_day, Dates)
date_add = dateadd = function_of(Dates.date_add, Dates, n_columns=2)
add_months = function_of(Dates.add_months, Dates, n_columns=2)
unix_date = function_of(Dates.unix_date, Dates)
unix_seconds = function_of(Dates.unix_seconds, Dates)
unix_millis = function_of(Dates.unix_millis, Dates)
unix_micros = function_of(Dates.unix_micros, Dates)


def weekday(column: IntoExpr) -> Expr:
    """The day of the week, Monday is 0; with ``.dt.weekday()``, as in Polars, Monday is 1.

    >>> from datetime import date
    >>> from fabric import DataFrame
    >>> DataFrame({"d": [date(2024, 1, 1)]}).select(weekday("d").alias("weekday")).to_dicts()
    [{'weekday': 0}]
    """
    return call("weekday", as_column(column)) - 1


def date_sub(start: IntoExpr, days: IntoExpr) -> Expr:
    """The date `days` before.

    >>> from datetime import date
    >>> from fabric import DataFrame
    >>> DataFrame({"d": [date(2024, 1, 1)]}).select(date_sub("d", 1).cast("string")).to_dicts()
    [{'d': '2023-12-31'}]
    """
    return call("date_add", as_column(start), -as_column(days))


def date_trunc(format: str, timestamp: IntoExpr) -> Expr:
    """The beginning of the year, quarter, month, week, day, hour, minute or second.

    >>> date_trunc("hour", "departure")
    col("departure").dt.date_trunc("hour")
    """
    return call("date_trunc", format, as_column(timestamp))


def trunc(date: IntoExpr, format: str) -> Expr:
    """The date at the beginning of the year, quarter, month or week."""
    return call("trunc", as_column(date), format)


def next_day(date: IntoExpr, dayOfWeek: str) -> Expr:
    """The next such day, for example ``"Mon"``, after the date.

    >>> next_day("day", "Fri")
    col("day").dt.next_day("friday")
    """
    given = str(dayOfWeek).lower()
    named = [day for day in _DAYS if given in (day, day[:2], day[:3])]
    return call("next_day", as_column(date), named[0] if named else dayOfWeek)


def months_between(date1: IntoExpr, date2: IntoExpr, roundOff: bool = True) -> Expr:
    """Months from `date2` to `date1` with a fraction, rounded to 8 digits if `roundOff`."""
    return call("months_between", as_column(date1), as_column(date2), roundOff)


def from_utc_timestamp(timestamp: IntoExpr, tz: str) -> Expr:
    """What clocks in `tz` show at the time."""
    return call("from_utc_timestamp", as_column(timestamp), tz)


def to_utc_timestamp(timestamp: IntoExpr, tz: str) -> Expr:
    """The time at which clocks in `tz` show this."""
    return call("to_utc_timestamp", as_column(timestamp), tz)


def monthname(column: IntoExpr) -> Expr:
    """``Jan`` to ``Dec``; null of null.

    >>> from datetime import date
    >>> from fabric import DataFrame
    >>> DataFrame({"d": [date(2024, 1, 1)]}).select(monthname("d").alias("month")).to_dicts()
    [{'month': 'Jan'}]
    """
    return call("date_format", as_column(column), "MMM")


def dayname(column: IntoExpr) -> Expr:
    """``Mon`` to ``Sun``; null of null.

    >>> from datetime import date
    >>> from fabric import DataFrame
    >>> DataFrame({"d": [date(2024, 1, 1)]}).select(dayname("d").alias("day")).to_dicts()
    [{'day': 'Mon'}]
    """
    return call("date_format", as_column(column), "EEE")


def date_part(field: IntoExpr, source: IntoExpr) -> Expr:
    """The part of a date or time that the constant `field` names: ``lit("year")``, ``lit("dow")``.

    >>> date_part("week", "day")
    col("day").dt.week()
    """
    node = field.node if isinstance(field, Expression) else None
    name = node.value if isinstance(node, Literal) else field
    part = _PARTS.get(str(name).lower())
    if part is None:
        known = ", ".join(sorted(_PARTS))
        raise PlanError(f"date_part: {name!r} is not a part of a time; use one of {known}")
    return call(part, as_column(source))


extract = datepart = date_part


datediff = date_diff
