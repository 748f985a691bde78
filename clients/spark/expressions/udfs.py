"""Functions that Spark has not, in vectorised Arrow UDFs: hash, poisson, those of users.

One job: the kernels of agents on Spark, so that `hash` has the same 64 bits there. Spark's own
pickling carries a user's function, from a driver whose user wrote it. Random numbers are Spark's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import IntegerType, LongType

from fabric.clients.spark.expressions.build import Build, spark_type
from fabric.plan.expr import Udf
from fabric.plan.types import numeric, plain


def user_function(
    udf: Udf, args: Sequence[SparkColumn], types: Sequence[pa.DataType]
) -> SparkColumn:
    """The function of `args`, which have these types in the plan."""
    make: Any = arrow_udf
    taken = tuple(numeric(dtype) or plain(dtype) for dtype in types)
    run = _over_arrays(udf, taken)
    run.__name__ = udf.name
    found: SparkColumn = make(run, spark_type(udf.dtype))(*args)
    return found


def _over_arrays(udf: Udf, types: tuple[pa.DataType, ...]) -> Callable[..., pa.Array]:
    made: list[Callable[..., pa.Array]] = []

    def run(*columns: pa.Array) -> pa.Array:
        from fabric.operators.functions.kernel import kernel
        from fabric.operators.functions.trust import load, vouch

        if not made:
            vouch(udf.payload)
            made.append(kernel(udf, load(udf), types))
        cast = (c if c.type.equals(d) else c.cast(d) for c, d in zip(columns, types, strict=True))
        return made[0](*cast)

    return run


@cache
def _row_hash() -> Any:
    # Defined here, it is sent by value: Spark's Python workers import the kernel and no more.
    def row_hash(*columns: pa.Array) -> pa.Array:
        from fabric._cython.kernels.hash import hash_columns

        return pa.array(hash_columns(columns).view("int64"))

    make: Any = arrow_udf  # its types know no variable number of arguments
    return make(row_hash, LongType())


@cache
def _counts() -> Any:
    def counts(quantiles: pa.Array, expected: pa.Array) -> pa.Array:
        from fabric.operators.expressions.arrow.math import poisson

        return poisson(quantiles, expected)

    make: Any = arrow_udf  # its types know no function that is imported where it runs
    return make(counts, IntegerType())


FUNCTIONS: dict[str, Build] = {
    "hash": lambda args, _: _row_hash()(*args),
    "random": lambda _, constants: sf.rand(constants[1]),
    "poisson": lambda args, _: _counts()(*args),
}
