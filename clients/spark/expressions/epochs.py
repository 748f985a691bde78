"""Times as numbers since 1970 and back on Spark, and parts of a second.

One job: their spelling in Spark. Spark has no parts of a second but a second with its fraction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fabric.clients.spark.expressions.build import Build, named

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


def _part(per_second: int) -> Build:
    """The fraction, an exact decimal, in so many parts to the second."""

    def build(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
        from pyspark.sql import functions as sf

        seconds = sf.date_part(sf.lit("SECOND"), args[0])
        return ((seconds % 1) * per_second).cast("int")

    return build


FUNCTIONS: dict[str, Build] = {
    "millisecond": _part(1_000),
    "microsecond": _part(1_000_000),
    "nanosecond": _part(1_000_000_000),
    "unix_seconds": named("unix_seconds"),
    "unix_millis": named("unix_millis"),
    "unix_micros": named("unix_micros"),
    "unix_date": named("unix_date"),
    "date_from_unix_date": named("date_from_unix_date"),
    "timestamp_seconds": named("timestamp_seconds"),
    "timestamp_millis": named("timestamp_millis"),
    "timestamp_micros": named("timestamp_micros"),
}
