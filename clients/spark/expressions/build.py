"""How functions, types and constants are spelt in Spark, for every family of functions.

One job: `Build`, the shape of a family's table, the builders most functions need, `named`,
`operator` and `unless_null`; `spark_type` and `literal_column`, a plan's type and constant there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types as t
from pyspark.errors import PySparkTypeError
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from fabric.errors import PlanError
from fabric.plan.expr import Literal
from fabric.plan.functions.registry import Signature
from fabric.plan.types import is_binary, is_list, is_string, is_struct, numeric, plain

Build = Callable[["Sequence[SparkColumn]", Sequence[Any]], "SparkColumn"]
"""Makes a column of the arguments (cast to the signature) and their constant values (or None)."""
TypedBuild = Callable[["Sequence[SparkColumn]", Signature], "SparkColumn"]
"""Makes a column of the arguments, cast to the types of the signature, and these types."""


def named(name: str) -> Build:
    """A function of Spark's by its name, applied to all arguments."""
    return lambda args, _: sf.call_function(name, *args)


def operator(apply: Callable[..., SparkColumn]) -> Build:
    """A Python operator, method or function of columns, applied to all arguments."""
    return lambda args, _: apply(*args)


def unless_null(result: str, build: Build) -> Build:
    """A null of Spark's type `result` where one of the constants behind the first argument is."""

    def built(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
        return sf.lit(None).cast(result) if None in values[1:] else build(args, values)

    return built


def spark_type(dtype: pa.DataType) -> DataType:
    """The Spark type of values of an Arrow type: unsigned integers are the next signed ones."""
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
    target = spark_type(literal.dtype)
    scalar = pa.scalar(literal.value, literal.dtype)
    if not scalar.is_valid or t.is_null(literal.dtype):
        return sf.lit(None).cast(target)
    dtype = plain(literal.dtype)
    if t.is_timestamp(dtype):
        micros = scalar.cast(pa.timestamp("us", dtype.tz)).value
        return sf.timestamp_micros(sf.lit(micros)).cast(target)
    if t.is_floating(dtype):
        return sf.lit(float(scalar.as_py())).cast(target)
    if t.is_date(dtype):
        return sf.date_from_unix_date(sf.lit(scalar.cast(pa.date32()).value))
    value = scalar.as_py()
    return sf.lit(bytearray(value) if isinstance(value, bytes) else value).cast(target)
