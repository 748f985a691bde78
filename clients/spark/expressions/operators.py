"""Operators on Spark: arithmetic and rounding, bits, comparison, logic and null tests.

One job: the forms of functions that Spark has under no name of the same meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, DoubleType, StringType

from fabric.clients.spark.expressions.build import Build, TypedBuild, operator, spark_type
from fabric.plan.functions.registry import Signature


def _round(name: str) -> Build:
    def build(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
        digits = [sf.lit(value).cast("int") for value in values[1:]]
        return sf.call_function(name, args[0], *digits)

    return build


def _is_off(a: SparkColumn, b: SparkColumn) -> SparkColumn:
    """Where the truncated quotient is above the floored one."""
    return sf.signum(a % b) * sf.signum(b) < 0


def _floor_quotient(args: Sequence[SparkColumn], types: Signature) -> SparkColumn:
    a, b = args
    off, result = _is_off(a, b), spark_type(types.result)
    if not isinstance(result, DoubleType):
        return (sf.call_function("div", a, b) - off.cast("bigint")).cast(result)
    quotient = sf.rint((a - a % b) / b - off.cast("double"))
    return sf.when(quotient == 0, a / b * 0.0).otherwise(quotient)


def _floor_remainder(args: Sequence[SparkColumn], types: Signature) -> SparkColumn:
    a, b = args
    rest, result = a % b, spark_type(types.result)
    moved = sf.when(_is_off(a, b), rest + b)
    if isinstance(result, DoubleType):
        zero = sf.signum(b) * 0.0  # of the constants 0.0 and -0.0 Spark makes one
        return sf.when(rest == 0, zero).when(_is_off(a, b), rest + b).otherwise(rest)
    return moved.otherwise(rest).cast(result)


_BITS = 64
"""The smallest power of 2 that no int64 holds."""


def _exact_power(args: Sequence[SparkColumn], types: Signature) -> SparkColumn:
    """A product of so many factors, as Spark's own powers are floats.

    Above 64 factors only the powers of 0, 1 and -1 fit: an even number of them gives the same.
    """
    if isinstance(spark_type(types.result), DoubleType):
        return sf.pow(*args)
    base, exponent = (arg.cast("bigint") for arg in args)
    n = sf.least(exponent, exponent % 2 + _BITS).cast("int")
    power = sf.aggregate(sf.array_repeat(base, n), sf.lit(1).cast("bigint"), lambda a, b: a * b)
    message = "an integer to a power below 0 is no integer; cast the base to float64"
    refused = sf.raise_error(sf.lit(message)).cast("bigint")
    return sf.when(base.isNotNull(), sf.when(exponent < 0, refused).otherwise(power))


def _add(args: Sequence[SparkColumn], types: Signature) -> SparkColumn:
    """Texts one after the other; `+` would take them for numbers."""
    if isinstance(spark_type(types.result), StringType):
        return sf.concat(*args)
    return _date_again(args[0] + args[1], types)


def _subtract(args: Sequence[SparkColumn], types: Signature) -> SparkColumn:
    return _date_again(args[0] - args[1], types)


def _date_again(moved: SparkColumn, types: Signature) -> SparkColumn:
    """A date that was moved by a duration is a timestamp in Spark."""
    result = spark_type(types.result)
    return moved.cast(result) if isinstance(result, DateType) else moved


FUNCTIONS: dict[str, Build] = {
    "multiply": operator(lambda a, b: a * b),
    "divide": operator(lambda a, b: a / b),
    "modulo": operator(lambda a, b: a % b),
    "negate": operator(lambda a: -a),
    "round": _round("round"),
    "bround": _round("bround"),
    "bitwise_and": operator(lambda a, b: a.bitwiseAND(b)),
    "bitwise_or": operator(lambda a, b: a.bitwiseOR(b)),
    "bitwise_xor": operator(lambda a, b: a.bitwiseXOR(b)),
    "bitwise_not": operator(sf.bitwise_not),
    "eq": operator(lambda a, b: a == b),
    "ne": operator(lambda a, b: a != b),
    "lt": operator(lambda a, b: a < b),
    "le": operator(lambda a, b: a <= b),
    "gt": operator(lambda a, b: a > b),
    "ge": operator(lambda a, b: a >= b),
    "eq_null_safe": operator(lambda a, b: a.eqNullSafe(b)),
    "and": operator(lambda a, b: a & b),
    "or": operator(lambda a, b: a | b),
    "not": operator(lambda a: ~a),
    "is_null": operator(lambda a: a.isNull()),
    "is_not_null": operator(lambda a: a.isNotNull()),
}
TYPED: dict[str, TypedBuild] = {
    "add": _add, "subtract": _subtract,
    "floor_quotient": _floor_quotient, "floor_remainder": _floor_remainder,
    "exact_power": _exact_power,
}  # fmt: skip
"""Functions that must know types."""
