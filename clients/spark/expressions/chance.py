"""Random numbers on Spark are its own; poisson is ours, in a vectorised Arrow UDF.

One job: random, poisson.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fabric.clients.spark.expressions.build import Build

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


@cache
def _udf() -> Any:
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.types import IntegerType

    def counts(quantiles: pa.Array, expected: pa.Array) -> pa.Array:
        from fabric.operators.expressions.arrow.chance import poisson

        return poisson(quantiles, expected)

    make: Any = arrow_udf  # its types know no function that is imported where it runs
    return make(counts, IntegerType())


def _poisson(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
    found: SparkColumn = _udf()(*args)
    return found


def _random(_: Sequence[SparkColumn], constants: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    return sf.rand(constants[1])


FUNCTIONS: dict[str, Build] = {"random": _random, "poisson": _poisson}
