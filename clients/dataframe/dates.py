"""The ``.dt`` namespace: functions of dates and timestamps, under Polars' and Spark's names."""

from __future__ import annotations

from typing import Any

from fabric.clients.dataframe.durations import parse_duration
from fabric.clients.dataframe.expr import Expr, call
from fabric.errors import PlanError


class DateTimeMethods:
    """What ``col("x").dt`` offers; null stays null.

    Examples
    --------
    >>> from fabric import col
    >>> col("departure").dt.truncate("1h")
    col("departure").dt.date_trunc("hour")
    """

    __slots__ = ("_expr",)

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def year(self) -> Expr:
        """The year."""
        return call("year", self._expr)

    def month(self) -> Expr:
        """The month, 1 to 12."""
        return call("month", self._expr)

    def day(self) -> Expr:
        """The day of the month, 1 to 31."""
        return call("day", self._expr)

    def hour(self) -> Expr:
        """The hour, 0 to 23."""
        return call("hour", self._expr)

    def minute(self) -> Expr:
        """The minute, 0 to 59."""
        return call("minute", self._expr)

    def second(self) -> Expr:
        """The second, 0 to 59."""
        return call("second", self._expr)

    def day_of_week(self) -> Expr:
        """The day of the week as Spark counts: Sunday is 1, Saturday is 7."""
        return call("day_of_week", self._expr)

    def weekday(self) -> Expr:
        """The day of the week as ISO and Polars count: Monday is 1, Sunday is 7."""
        return (self.day_of_week() + 5) % 7 + 1

    def date(self) -> Expr:
        """The date of a timestamp."""
        return call("to_date", self._expr)

    def date_trunc(self, unit: str) -> Expr:
        """The beginning of the `unit` (``"hour"``, ``"day"``, ``"month"`` …) the time lies in."""
        return call("date_trunc", unit, self._expr)

    def truncate(self, every: str) -> Expr:
        """The beginning of the ``"1h"``, ``"1d"``, ``"1mo"`` … the time lies in, as in Polars."""
        number, unit = parse_duration(every)
        if number != 1:
            raise PlanError(f"truncate takes one whole unit such as '1h' or '1d', got {every!r}")
        return self.date_trunc(unit)

    def add(self, number: Any, unit: str) -> Expr:
        """`number` (an expression or an integer) of `unit` later; below 0 earlier."""
        return call("add_interval", self._expr, number, unit)

    def offset_by(self, by: str) -> Expr:
        """Later by a duration such as ``"2h"`` or ``"-1d"``, as in Polars.

        >>> from fabric import col
        >>> col("departure").dt.offset_by("-2h")
        col("departure").dt.add(-2, "hour")
        """
        return self.add(*parse_duration(by))

    dayofweek = day_of_week
    to_date = date
