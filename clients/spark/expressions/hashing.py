"""The hash of a row on Spark: our kernel in a vectorised Arrow UDF.

One job: hash, the same 64 bits as on every agent.
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
    from pyspark.sql.types import LongType

    # Defined here, it is sent by value: Spark's Python workers import the kernel and no more.
    def row_hash(*columns: pa.Array) -> pa.Array:
        from fabric._cython.kernels.hash import hash_columns

        return pa.array(hash_columns(columns).view("int64"))

    make: Any = arrow_udf  # its types know no variable number of arguments
    return make(row_hash, LongType())


def _hash(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
    found: SparkColumn = _udf()(*args)
    return found


FUNCTIONS: dict[str, Build] = {"hash": _hash}
