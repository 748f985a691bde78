"""How functions, types and constants are spelt in Spark, for every family of functions.

One job: `Build`, the shape of a family's table, the builders most functions need, `named` and
`operator`; `spark_type` and `literal_column`, a plan's type and constant there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import PlanError
from fabric.plan.expr import Literal
from fabric.plan.functions.registry import Signature
from fabric.plan.types import is_binary, is_list, is_string, is_struct, numeric, plain

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql.types import DataType


Build = Callable[["Sequence[SparkColumn]", Sequence[Any]], "SparkColumn"]
"""Makes a column of the arguments (cast to the signature) and their constant values (or None)."""
TypedBuild = Callable[["Sequence[SparkColumn]", Signature], "SparkColumn"]
"""Makes a column of the arguments, cast to the types of the signature, and these types."""


def named(name: str) -> Build:
    """A function of Spark's by its name, applied to all arguments."""

    def build(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
        from pyspark.sql import functions as sf

        return sf.call_function(name, *args)

    return build


def operator(apply: Callable[..., SparkColumn]) -> Build:
    """A Python operator or method of columns, applied to all arguments."""
    return lambda args, _: apply(*args)


def spark_type(dtype: pa.DataType) -> DataType:
    """The Spark type of values of an Arrow type: unsigned integers are the next signed ones."""
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import ArrayType, StructField, StructType

    dtype = numeric(dtype) or plain(dtype)
    if is_list(dtype):
        return ArrayType(spark_type(dtype.value_type))
    if is_struct(dtype):
        return StructType([StructField(f.name, spark_type(f.type)) for f in dtype.fields])
    if is_string(dtype):
        dtype = pa.string()
    elif is_binary(dtype):
        dtype = pa.binary()
    elif t.is_date(dtype):
        dtype = pa.date32()
    elif t.is_timestamp(dtype):
        dtype = pa.timestamp("us", dtype.tz)
    try:
        return from_arrow_type(dtype, prefer_timestamp_ntz=True)
    except PySparkTypeError as error:
        raise PlanError(f"Spark has no type for {dtype}; cast it first") from error


def literal_column(literal: Literal) -> SparkColumn:
    """By way of Arrow, so that any value ``pa.scalar`` takes is one."""
    from pyspark.sql import functions as sf

    target = spark_type(literal.dtype)
    scalar = pa.scalar(literal.value, literal.dtype)
    if not scalar.is_valid or t.is_null(literal.dtype):
        return sf.lit(None).cast(target)
    dtype = plain(literal.dtype)
    if t.is_timestamp(dtype):
        return _instant(scalar.cast(pa.timestamp("us", dtype.tz)).value).cast(target)
    if t.is_floating(dtype):
        return sf.lit(float(scalar.as_py())).cast(target)
    if t.is_date(dtype):
        return sf.date_from_unix_date(sf.lit(scalar.cast(pa.date32()).value))
    value = scalar.as_py()
    return sf.lit(bytearray(value) if isinstance(value, bytes) else value).cast(target)


def _instant(micros: int) -> SparkColumn:
    from pyspark.sql import functions as sf

    return sf.timestamp_micros(sf.lit(micros))
