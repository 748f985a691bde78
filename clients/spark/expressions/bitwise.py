"""Bits of integers on Spark.

One job: their spelling in Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fabric.clients.spark.expressions.build import Build, named, operator

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


def _not(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    return sf.bitwise_not(args[0])


FUNCTIONS: dict[str, Build] = {
    "bitwise_and": operator(lambda a, b: a.bitwiseAND(b)),
    "bitwise_or": operator(lambda a, b: a.bitwiseOR(b)),
    "bitwise_xor": operator(lambda a, b: a.bitwiseXOR(b)),
    "bitwise_not": _not,
    "shift_left": named("shiftleft"),
    "shift_right": named("shiftright"),
    "shift_right_unsigned": named("shiftrightunsigned"),
    "bit_count": named("bit_count"),
}
