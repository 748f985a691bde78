"""Functions of dates, timestamps and durations on Spark: date_trunc … total_microseconds.

One job: the forms of functions that Spark has under no name of the same meaning. Spark has no
parts of a second but a second with its fraction. A duration is a day-time interval there: the
microseconds of the time that lies so long after 1970 are those of the interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from fabric.clients.spark.expressions.build import Build, operator, unless_null


def _read(read: Callable[[SparkColumn, str], SparkColumn], result: str) -> Build:
    """A text by a pattern, or without one as Spark casts it."""

    def build(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
        return read(args[0], values[1]) if values[1:] else args[0].cast(result)

    return unless_null(result, build)


def _timestamp_diff(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    if values[0] is None:
        return sf.lit(None).cast("bigint")
    return sf.timestamp_diff(values[0].upper(), args[1], args[2])


def _part(per_second: int) -> Build:
    """The fraction, an exact decimal, in so many parts to the second."""

    def part(time: SparkColumn) -> SparkColumn:
        return ((sf.date_part(sf.lit("SECOND"), time) % 1) * per_second).cast("int")

    return operator(part)


def _total(micros: int) -> Build:
    def total(duration: SparkColumn) -> SparkColumn:
        number = sf.unix_micros(sf.timestamp_micros(sf.lit(0)) + duration)
        return number if micros == 1 else sf.call_function("div", number, sf.lit(micros))

    return operator(total)


FUNCTIONS: dict[str, Build] = {
    "weekday": operator(lambda day: sf.weekday(day) + 1),
    "date_trunc": lambda args, values: sf.date_trunc(values[0], args[1]),
    "as_time_of": operator(lambda value, _: value),
    "to_date": _read(sf.to_date, "date"),
    "to_timestamp": _read(sf.to_timestamp, "timestamp"),
    "try_to_timestamp": unless_null(
        "timestamp", lambda args, values: sf.try_to_timestamp(args[0], sf.lit(values[1]))
    ),
    "add_interval": lambda args, values: sf.timestamp_add(values[2].upper(), args[1], args[0]),
    "timestamp_diff": _timestamp_diff,
    "millisecond": _part(1_000),
    "microsecond": _part(1_000_000),
    "nanosecond": _part(1_000_000_000),
    "total_days": _total(86_400_000_000),
    "total_hours": _total(3_600_000_000),
    "total_minutes": _total(60_000_000),
    "total_seconds": _total(1_000_000),
    "total_milliseconds": _total(1_000),
    "total_microseconds": _total(1),
}
RETYPED = ("date_trunc",)
"""date_trunc gives every timestamp a zone."""
