"""A user's function on Spark: the same kernel, in a vectorised Arrow UDF.

One job: `user_function`. Spark's own pickling carries it, from a driver whose user wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fabric.clients.spark.expressions.types import spark_type
from fabric.plan.expr import Udf
from fabric.plan.types import numeric, plain

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


def user_function(
    udf: Udf, args: Sequence[SparkColumn], types: Sequence[pa.DataType]
) -> SparkColumn:
    """The function of `args`, which have these types in the plan."""
    from pyspark.sql.pandas.functions import arrow_udf

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
