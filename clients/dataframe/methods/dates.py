"""The ``.dt`` namespace: functions of dates and timestamps, under Polars' and Spark's names."""

from __future__ import annotations

from datetime import timedelta
from typing import Generic

import pyarrow as pa

from fabric.clients.dataframe.calls import helpful, suggesting
from fabric.clients.dataframe.durations import days_and_rest, parse_duration
from fabric.clients.dataframe.expressions.operators import E, IntoNumber
from fabric.clients.dataframe.expressions.types import IntoExpr, call, call_of, to_node
from fabric.clients.dataframe.lowering.buckets import bucket
from fabric.clients.dataframe.methods.directives import spark_pattern
from fabric.errors import PlanError
from fabric.plan.zones import no_zone

_UTC = pa.timestamp("us", "UTC")


def _zone(name: str, method: str) -> str:
    """A zone that there is."""
    if (fault := no_zone(name)) is not None:
        raise PlanError(f"{method}: {fault[0]}")
    return name


class DateTimeMethods(Generic[E]):
    """What ``col("x").dt`` offers; null stays null.

    Fields are int32. A date has the time 00:00. Of a timestamp with a zone, fields, dates and texts
    are those that clocks of the zone show. Strings and numbers need a cast, else a PlanError.

    Examples
    --------
    >>> from fabric import DataFrame, col
    >>> df = DataFrame({"t": ["2024-05-06 13:05:07.25"]}).cast("timestamp[us]")
    >>> at = col("t").dt
    >>> df.select(y=at.year(), q=at.quarter(), m=at.month(), days=at.days_in_month()).to_dicts()
    [{'y': 2024, 'q': 2, 'm': 5, 'days': 31}]
    >>> df.select(h=at.hour(), s=at.second(), ms=at.millisecond(), last=at.last_day()).to_dicts()
    [{'h': 13, 's': 7, 'ms': 250, 'last': datetime.date(2024, 5, 31)}]
    """

    __slots__ = ("_expr",)

    def __init__(self, expr: E) -> None:
        self._expr = expr

    def year(self) -> E:
        """The year, an int32."""
        return call("year", self._expr)

    def month(self) -> E:
        """The month, 1 to 12."""
        return call("month", self._expr)

    def day(self) -> E:
        """The day of the month, 1 to 31."""
        return call("day", self._expr)

    def hour(self) -> E:
        """The hour, 0 to 23; 0 of a date."""
        return call("hour", self._expr)

    def minute(self) -> E:
        """The minute, 0 to 59; 0 of a date."""
        return call("minute", self._expr)

    def second(self) -> E:
        """The second, 0 to 59, without its fraction; 0 of a date."""
        return call("second", self._expr)

    def quarter(self) -> E:
        """The quarter, 1 to 4."""
        return call("quarter", self._expr)

    def week(self) -> E:
        """The week of the ISO year, 1 to 53; January may begin in the last week of the year before.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"d": ["2021-01-01"]}).cast("date").select(col("d").dt.week()).to_dicts()
        [{'d': 53}]
        """
        return call("week", self._expr)

    def day_of_year(self) -> E:
        """The day of the year, 1 to 366."""
        return call("day_of_year", self._expr)

    def millisecond(self) -> E:
        """The whole milliseconds within the second, 0 to 999."""
        return call("millisecond", self._expr)

    def microsecond(self) -> E:
        """The microseconds within the second, 0 to 999999."""
        return call("microsecond", self._expr)

    def nanosecond(self) -> E:
        """The nanoseconds within the second, in whole microseconds: times have no finer part."""
        return call("nanosecond", self._expr)

    def day_of_week(self) -> E:
        """The day of the week as Spark counts: Sunday is 1, Saturday is 7.

        >>> from fabric import DataFrame, col
        >>> days = DataFrame({"d": ["2024-05-05"]}).cast({"d": "date"})
        >>> days.select(a=col("d").dt.day_of_week(), b=col("d").dt.weekday()).to_dicts()
        [{'a': 1, 'b': 7}]
        """
        return call("day_of_week", self._expr)

    def weekday(self) -> E:
        """The day of the week as ISO and Polars count: Monday is 1, Sunday is 7."""
        return call("weekday", self._expr)

    def date(self) -> E:
        """The date of a timestamp, in its zone if it has one; a date stays as it is."""
        return call("to_date", self._expr)

    def date_trunc(self, unit: str) -> E:
        """The beginning of the `unit` (``"hour"``, ``"day"``, ``"month"`` …) the time lies in; of a
        date a timestamp in UTC, as in Spark, while `trunc` and `truncate` return a date.

        >>> from fabric import DataFrame, col
        >>> days = DataFrame({"d": ["2024-05-15"]}).cast("date")
        >>> days.select(col("d").dt.date_trunc("month")).schema
        d: timestamp[us, tz=UTC]
        """
        return call_of(self._expr, "date_trunc", unit, self._expr)

    def truncate(self, every: str) -> E:
        """The beginning of the ``"15m"``, ``"1h"``, ``"1mo"`` … the time lies in, as in Polars.

        Several units of a fixed length are counted from 1970 by the clocks of the zone.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"t": ["2024-05-01 10:44"]}).cast("timestamp[us]")
        >>> df.select(col("t").dt.truncate("15 minutes")).to_dicts()
        [{'t': datetime.datetime(2024, 5, 1, 10, 30)}]
        """
        number, unit = parse_duration(every)
        if number == 1:
            return self._as_before(self.date_trunc(unit))
        return self._as_before(self._expr._of(bucket(to_node(self._expr), every)))

    def as_time_of(self, like: IntoExpr) -> E:
        """A date where `like` is a date, else a timestamp with the zone of `like`."""
        return call("as_time_of", self._expr, like)

    def _as_before(self, moved: E) -> E:
        return DateTimeMethods(moved).as_time_of(self._expr)

    def add(self, number: IntoExpr, unit: str) -> E:
        """The timestamp `number` of `unit` later, below 0 earlier; a date counts as 00:00 UTC."""
        return call("add_interval", self._expr, number, unit)

    def offset_by(self, by: str) -> E:
        """Later by a duration such as ``"2h"`` or ``"-1d"``, as in Polars.

        >>> from fabric import col
        >>> col("departure").dt.offset_by("-2h")
        col("departure").dt.add(-2, "hour").dt.as_time_of(col("departure"))
        """
        match days_and_rest(by):
            case days, rest_us if days and rest_us:  # a day is as long as clocks make it
                rest = timedelta(microseconds=rest_us)
                return self._as_before(
                    DateTimeMethods(self.add(days, "day")).add(*parse_duration(rest))
                )
        return self._as_before(self.add(*parse_duration(by)))

    def date_add(self, days: IntoExpr) -> E:
        """The date `days` later, also of a timestamp; below 0 earlier."""
        return call("date_add", self._expr, days)

    def date_sub(self, days: IntoNumber) -> E:
        """The date `days` earlier, also of a timestamp; below 0 later."""
        return call("date_add", self._expr, -days)

    def add_months(self, months: IntoExpr) -> E:
        """The date `months` later, its day cut to the length of the month.

        >>> from fabric import DataFrame, col
        >>> days = DataFrame({"d": ["2024-01-31"]}).cast("date")
        >>> days.select(col("d").dt.add_months(1)).to_dicts()
        [{'d': datetime.date(2024, 2, 29)}]
        """
        return call("add_months", self._expr, months)

    # ---- months and weeks
    def trunc(self, unit: str) -> E:
        """The first date of the ``"week"`` (a Monday), ``"month"``, ``"quarter"`` or ``"year"``."""
        return call("trunc", self._expr, unit)

    def month_start(self) -> E:
        """The first day of the month at the same time of day, as in Polars."""
        return self._as_before(self.add(1 - self.day(), "day"))

    def month_end(self) -> E:
        """The last day of the month at the same time of day, as in Polars."""
        return self._as_before(self.add(self.days_in_month() - self.day(), "day"))

    def last_day(self) -> E:
        """The last date of the month, also of a timestamp; `month_end` keeps the time of day."""
        return call("last_day", self._expr)

    def days_in_month(self) -> E:
        """The number of days of the month, 28 to 31."""
        return DateTimeMethods(self.last_day()).day()

    def next_day(self, name: str) -> E:
        """The first date after this one that is a ``"monday"``, ``"tuesday"`` …

        >>> from fabric import DataFrame, col
        >>> days = DataFrame({"d": ["2024-05-06"]}).cast("date")
        >>> days.select(col("d").dt.next_day("monday")).to_dicts()
        [{'d': datetime.date(2024, 5, 13)}]
        """
        return call("next_day", self._expr, name)

    # ---- how far apart
    def date_diff(self, start: IntoExpr) -> E:
        """The days from `start` to here; below 0 where `start` is later.

        >>> from fabric import DataFrame, col
        >>> days = DataFrame({"a": ["2024-03-01"], "b": ["2024-02-01"]}).cast("date")
        >>> days.select(col("a").dt.date_diff(col("b"))).to_dicts()
        [{'a': 29}]
        """
        return call("date_diff", self._expr, start)

    def timestamp_diff(self, unit: str, start: IntoExpr) -> E:
        """Whole units from `start` to here, truncated: ``"month"``, ``"hour"`` …

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"a": ["2024-03-01 23:59"], "b": ["2024-02-29 00:00"]}).cast("timestamp")
        >>> df.select(days=col("a").dt.timestamp_diff("day", col("b"))).to_dicts()
        [{'days': 1}]
        """
        return call_of(self._expr, "timestamp_diff", unit, start, self._expr)

    def months_between(self, start: IntoExpr, round_off: bool = True) -> E:
        """The months from `start` to here, a float64 that `round_off` rounds to 8 digits: whole
        between equal or last days of their months, else with a fraction in months of 31 days.
        """
        return call("months_between", self._expr, start, round_off)

    # ---- zones
    def from_utc_timestamp(self, zone: str) -> E:
        """What a clock in `zone` shows at this time in UTC; Spark's function of that name.

        The answer is marked as UTC as in Spark; `convert_time_zone` gives the type its zone.
        """
        return call("from_utc_timestamp", self._expr, zone)

    def to_utc_timestamp(self, zone: str) -> E:
        """The time in UTC when a clock in `zone` shows this; Spark's function of that name.

        A time that clocks skip is read as if they had not; of one that they show twice, the first.
        """
        return call("to_utc_timestamp", self._expr, zone)

    def convert_time_zone(self, time_zone: str) -> E:
        """The same instant in another zone, as in Polars: the type gets `time_zone`.

        Fields, dates, formats and texts of it are then what clocks there show. A timestamp without
        a zone is one of UTC.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"at": [0]}).select(at=col("at").cast("timestamp"))
        >>> tokyo = col("at").dt.convert_time_zone("Asia/Tokyo")
        >>> df.select(hour=tokyo.dt.hour()).collect().to_pydict()
        {'hour': [9]}
        """
        return self._expr.cast(_UTC).cast(pa.timestamp("us", _zone(time_zone, "convert_time_zone")))

    def replace_time_zone(
        self, time_zone: str | None, *, ambiguous: str = "raise", non_existent: str = "raise"
    ) -> E:
        """The time that clocks in `time_zone` show, as in Polars; None takes the zone off.

        A time that clocks show twice fails the job, or is by `ambiguous` the ``"earliest"``, the
        ``"latest"`` or ``"null"``; one that they skip fails it, or is by `non_existent` ``"null"``.

        >>> from fabric import col
        >>> col("at").dt.replace_time_zone("Europe/Berlin", ambiguous="earliest")
        col("at").dt.replace_time_zone("Europe/Berlin", ambiguous="earliest", non_existent="raise")
        """
        if time_zone is None:
            return self._expr.cast("timestamp[us]")
        _zone(time_zone, "replace_time_zone")
        return call("replace_time_zone", self._expr, time_zone, ambiguous, non_existent)

    # ---- as text and numbers
    def date_format(self, pattern: str) -> E:
        """As text by a Spark pattern, such as ``"yyyy-MM-dd HH:mm"``; names are English.

        >>> from fabric import DataFrame, col
        >>> days = DataFrame({"d": ["2024-05-06"]}).cast("date")
        >>> days.select(col("d").dt.date_format("EEE d MMM")).to_dicts()
        [{'d': 'Mon 6 May'}]
        """
        return call("date_format", self._expr, pattern)

    def strftime(self, format: str) -> E:
        """As text by directives, such as ``"%Y-%m-%d %H:%M"``.

        >>> from fabric import col
        >>> col("at").dt.strftime("%d of %B")
        col("at").dt.date_format("dd' of 'MMMM")
        """
        return self.date_format(spark_pattern(format))

    def epoch(self, unit: str = "us") -> E:
        """The days (``"d"``), ``"s"``, ``"ms"``, ``"us"`` or ``"ns"`` since 1970 UTC, rounded down.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"t": ["1969-12-31 23:59:59.5"]}).cast({"t": "timestamp"})
        >>> df.select(col("t").dt.epoch("s")).to_dicts()
        [{'t': -1}]
        """
        if unit == "ns":
            return self.unix_micros() * 1000
        days = DateTimeMethods(self._expr.cast(_UTC)).unix_date
        methods = {"d": days, "s": self.unix_seconds, "ms": self.unix_millis,
                   "us": self.unix_micros}  # fmt: skip
        if unit not in methods:
            raise PlanError(f"epoch knows no unit {unit!r}; use one of d, s, ms, us, ns")
        return methods[unit]()

    def unix_date(self) -> E:
        """The days since 1970-01-01, an int32; a timestamp with a zone counts by its date there."""
        return call("unix_date", self._expr)

    def unix_seconds(self) -> E:
        """The whole seconds since 1970-01-01 00:00 UTC, an int64, rounded down."""
        return call("unix_seconds", self._expr)

    def unix_millis(self) -> E:
        """The whole milliseconds since 1970-01-01 00:00 UTC, an int64, rounded down."""
        return call("unix_millis", self._expr)

    def unix_micros(self) -> E:
        """The microseconds since 1970-01-01 00:00 UTC, an int64."""
        return call("unix_micros", self._expr)

    # ---- durations
    def total_days(self) -> E:
        """The whole days of a duration (a timestamp minus another), truncated towards 0."""
        return call("total_days", self._expr)

    def total_hours(self) -> E:
        """The whole hours of a duration, truncated towards 0; an int64.

        >>> from datetime import timedelta
        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [timedelta(minutes=-90)]}).select(col("x").dt.total_hours()).to_dicts()
        [{'x': -1}]
        """
        return call("total_hours", self._expr)

    def total_minutes(self) -> E:
        """The whole minutes of a duration, truncated towards 0."""
        return call("total_minutes", self._expr)

    def total_seconds(self) -> E:
        """The whole seconds of a duration, truncated towards 0."""
        return call("total_seconds", self._expr)

    def total_milliseconds(self) -> E:
        """The whole milliseconds of a duration, truncated towards 0."""
        return call("total_milliseconds", self._expr)

    def total_microseconds(self) -> E:
        """The microseconds of a duration, an int64."""
        return call("total_microseconds", self._expr)

    # ---- the names Polars and PySpark give the same things
    dayofweek = day_of_week
    dayofyear = day_of_year
    ordinal_day = day_of_year
    weekofyear = week
    to_date = date
    datediff = date_diff
    to_string = strftime
    timestamp = epoch


helpful(DateTimeMethods, space="dt.")
suggesting(
    DateTimeMethods,
    ".dt",
    lambda: {
        "time": '.dt.strftime("%H:%M:%S")',
        "combine": '.cast("timestamp[us]") + datetime.timedelta(hours=8)',
        "replace": 'fabric.make_date(col("x").dt.year(), 1, 31)',
    },
)
