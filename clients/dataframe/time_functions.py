"""Dates and timestamps made of columns: make_date make_timestamp from_epoch …

One job: the functions that have no time to be a method of, and Spark's function names of those that
have. A string argument means a column.
"""

from __future__ import annotations

from typing import Any

from fabric.clients.dataframe.expr import Expr, as_column, call
from fabric.errors import PlanError

_EPOCHS = {
    "d": "date_from_unix_date", "s": "timestamp_seconds", "ms": "timestamp_millis",
    "us": "timestamp_micros",
}  # fmt: skip


def make_date(year: Any, month: Any, day: Any) -> Expr:
    """The date of a year, month and day; one that is no date is an error.

    >>> make_date("year", 12, 31)
    make_date(col("year"), lit(12), lit(31))
    """
    return call("make_date", *map(as_column, (year, month, day)))


def make_timestamp(  # noqa: PLR0917  # as Spark has it
    year: Any, month: Any, day: Any, hour: Any = 0, minute: Any = 0, second: Any = 0
) -> Expr:
    """The time in UTC of numbers; seconds may have a fraction."""
    parts = (year, month, day, hour, minute, second)
    return call("make_timestamp", *map(as_column, parts))


def from_epoch(column: Any, time_unit: str = "s") -> Expr:
    """The time so many ``"s"``, ``"ms"`` or ``"us"`` after 1970, or the date so many ``"d"``.

    >>> from_epoch("sent", "ms")
    timestamp_millis(col("sent"))
    """
    if time_unit not in _EPOCHS:
        raise PlanError(f"from_epoch knows no unit {time_unit!r}; use one of {', '.join(_EPOCHS)}")
    return call(_EPOCHS[time_unit], as_column(column))


def timestamp_seconds(column: Any) -> Expr:
    """The time so many seconds after 1970."""
    return from_epoch(column, "s")


def timestamp_millis(column: Any) -> Expr:
    """The time so many milliseconds after 1970."""
    return from_epoch(column, "ms")


def timestamp_micros(column: Any) -> Expr:
    """The time so many microseconds after 1970."""
    return from_epoch(column, "us")


def date_from_unix_date(column: Any) -> Expr:
    """The date so many days after 1970."""
    return from_epoch(column, "d")


def to_date(column: Any, format: str | None = None) -> Expr:
    """The date of a timestamp or text; `format` is a Spark pattern such as ``dd/MM/yyyy``.

    >>> to_date("day", "dd/MM/yyyy")
    to_date(col("day"), lit("dd/MM/yyyy"))
    """
    if format is None:
        return as_column(column).cast("date")
    return call("to_date", as_column(column), format)


def to_timestamp(column: Any, format: str | None = None) -> Expr:
    """A text as a time in UTC, by a Spark pattern such as ``yyyy-MM-dd HH:mm`` when given."""
    if format is None:
        return as_column(column).cast("timestamp")
    return call("to_timestamp", as_column(column), format)


def try_to_timestamp(column: Any, format: str | None = None) -> Expr:
    """As `to_timestamp`, null where the text does not fit."""
    if format is None:
        return as_column(column).try_cast("timestamp")
    return call("try_to_timestamp", as_column(column), format)


def date_format(column: Any, format: str) -> Expr:
    """A date or time as text by a Spark pattern, such as ``yyyy-MM-dd HH:mm``."""
    return call("date_format", as_column(column), format)


def date_diff(end: Any, start: Any) -> Expr:
    """The days from `start` to `end`."""
    return as_column(end).dt.date_diff(as_column(start))


def timestamp_diff(unit: str, start: Any, end: Any) -> Expr:
    """Whole units from `start` to `end`."""
    return as_column(end).dt.timestamp_diff(unit, as_column(start))


datediff = date_diff
