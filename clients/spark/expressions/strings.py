"""Functions of strings on Spark: upper … replace.

One job: their spelling in Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fabric.clients.spark.expressions.build import Build, named

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


def _concat(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    return sf.concat(*args)


FUNCTIONS: dict[str, Build] = {
    "upper": named("upper"),
    "lower": named("lower"),
    "length": named("length"),
    "trim": named("trim"),
    "ltrim": named("ltrim"),
    "rtrim": named("rtrim"),
    "substring": named("substring"),
    "concat": _concat,
    "contains": named("contains"),
    "starts_with": named("startswith"),
    "ends_with": named("endswith"),
    "replace": named("replace"),
}
