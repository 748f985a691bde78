"""Functions of dates and timestamps on Spark: year … add_interval.

One job: their spelling in Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fabric.clients.spark.expressions.build import Build, named, operator

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


FUNCTIONS: dict[str, Build] = {
    "year": named("year"),
    "month": named("month"),
    "day": named("day"),
    "hour": named("hour"),
    "minute": named("minute"),
    "second": named("second"),
    "day_of_week": named("dayofweek"),
    "quarter": named("quarter"),
    "week": named("weekofyear"),
    "weekday": operator(_weekday),
    "day_of_year": named("dayofyear"),
    "date_format": named("date_format"),
    "date_trunc": _date_trunc,
    "as_time_of": operator(lambda value, _: value),
    "to_date": _to_date,
    "to_timestamp": _to_timestamp,
    "try_to_timestamp": _try_to_timestamp,
    "add_interval": _add_interval,
}

RETYPED = ("date_trunc",)
"""date_trunc gives every timestamp a zone."""
