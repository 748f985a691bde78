"""Days and months to count with, on Spark: last_day … make_timestamp.

One job: their spelling in Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fabric.clients.spark.expressions.build import Build, named

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


def _timestamp_diff(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    if values[0] is None:
        return sf.lit(None).cast("bigint")
    return sf.timestamp_diff(values[0].upper(), args[1], args[2])


FUNCTIONS: dict[str, Build] = {
    "last_day": named("last_day"),
    "trunc": named("trunc"),
    "next_day": named("next_day"),
    "date_add": named("date_add"),
    "add_months": named("add_months"),
    "date_diff": named("datediff"),
    "months_between": named("months_between"),
    "timestamp_diff": _timestamp_diff,
    "make_date": named("make_date"),
    "make_timestamp": named("make_timestamp"),
}
