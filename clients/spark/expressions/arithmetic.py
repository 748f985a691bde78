"""Arithmetic and rounding on Spark: add … abs, round, floor, ceil.

One job: their spelling in Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fabric.clients.spark.expressions.build import Build, named, operator

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


def _round(name: str) -> Build:
    def build(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
        from pyspark.sql import functions as sf

        digits = [sf.lit(value).cast("int") for value in values[1:]]
        return sf.call_function(name, args[0], *digits)

    return build


FUNCTIONS: dict[str, Build] = {
    "add": operator(lambda a, b: a + b),
    "subtract": operator(lambda a, b: a - b),
    "multiply": operator(lambda a, b: a * b),
    "divide": operator(lambda a, b: a / b),
    "floor_divide": named("div"),
    "modulo": operator(lambda a, b: a % b),
    "negate": operator(lambda a: -a),
    "abs": named("abs"),
    "pmod": named("pmod"),
    "round": _round("round"),
    "bround": _round("bround"),
    "floor": named("floor"),
    "ceil": named("ceil"),
}
