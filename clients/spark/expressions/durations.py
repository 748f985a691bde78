"""Durations on Spark: total_days … total_microseconds; their arithmetic is Spark's own.

One job: their spelling in Spark, where a duration is a day-time interval: the microseconds of the
time that lies so long after 1970 are those of the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fabric.clients.spark.expressions.build import Build

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


def _total(micros: int) -> Build:
    def build(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
        from pyspark.sql import functions as sf

        number = sf.unix_micros(sf.timestamp_micros(sf.lit(0)) + args[0])
        return number if micros == 1 else sf.call_function("div", number, sf.lit(micros))

    return build


FUNCTIONS: dict[str, Build] = {
    "total_days": _total(86_400_000_000),
    "total_hours": _total(3_600_000_000),
    "total_minutes": _total(60_000_000),
    "total_seconds": _total(1_000_000),
    "total_milliseconds": _total(1_000),
    "total_microseconds": _total(1),
}
