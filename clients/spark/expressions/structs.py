"""Functions of structs on Spark: struct struct_field.

One job: their spelling in Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fabric.clients.spark.expressions.build import Build

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


def _struct(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    parts = zip(values[::2], args[1::2], strict=True)
    return sf.named_struct(*(part for name, arg in parts for part in (sf.lit(name), arg)))


def _field(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    return args[0].getField(values[1])


FUNCTIONS: dict[str, Build] = {"struct": _struct, "struct_field": _field}
