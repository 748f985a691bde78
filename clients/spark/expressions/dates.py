"""Functions of dates, timestamps and durations on Spark: date_trunc … total_microseconds.

One job: the forms of functions that Spark has under no name of the same meaning. Spark has no
parts of a second but a second with its fraction. A duration is a day-time interval there: the
microseconds of the time that lies so long after 1970 are those of the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fabric.clients.spark.expressions.build import Build, operator

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


def _date_trunc(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    return sf.date_trunc(values[0], args[1])


def _to_timestamp(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    if len(args) == 1:
        return args[0].cast("timestamp")
    if values[1] is None:
        return sf.lit(None).cast("timestamp")
    return sf.to_timestamp(args[0], values[1])


def _try_to_timestamp(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    if values[1] is None:
        return sf.lit(None).cast("timestamp")
    return sf.try_to_timestamp(args[0], sf.lit(values[1]))


def _add_interval(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    return sf.timestamp_add(values[2].upper(), args[1], args[0])


def _weekday(day: SparkColumn) -> SparkColumn:
    from pyspark.sql import functions as sf

    return sf.weekday(day) + 1


def _to_date(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    if len(args) == 1:
        return args[0].cast("date")
    if values[1] is None:
        return sf.lit(None).cast("date")
    return sf.to_date(args[0], values[1])


def _timestamp_diff(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    if values[0] is None:
        return sf.lit(None).cast("bigint")
    return sf.timestamp_diff(values[0].upper(), args[1], args[2])


def _part(per_second: int) -> Build:
    """The fraction, an exact decimal, in so many parts to the second."""

    def build(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
        from pyspark.sql import functions as sf

        seconds = sf.date_part(sf.lit("SECOND"), args[0])
        return ((seconds % 1) * per_second).cast("int")

    return build


def _total(micros: int) -> Build:
    def build(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
        from pyspark.sql import functions as sf

        number = sf.unix_micros(sf.timestamp_micros(sf.lit(0)) + args[0])
        return number if micros == 1 else sf.call_function("div", number, sf.lit(micros))

    return build


FUNCTIONS: dict[str, Build] = {
    "weekday": operator(_weekday),
    "date_trunc": _date_trunc,
    "as_time_of": operator(lambda value, _: value),
    "to_date": _to_date,
    "to_timestamp": _to_timestamp,
    "try_to_timestamp": _try_to_timestamp,
    "add_interval": _add_interval,
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
