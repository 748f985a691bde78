"""The Spark type of a plan's type, and constants as Spark columns of it.

One job: `spark_type` and `literal_column`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import PlanError
from fabric.plan.expr import Literal
from fabric.plan.types import is_binary, is_list, is_string, is_struct, numeric, plain

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql.types import DataType


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
