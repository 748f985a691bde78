"""Arrow types and Spark types, both ways.

One job: say which Spark schema an Arrow schema has, and cast batches to what PySpark checks
them against. PySpark compares Arrow schemas for equality, so a cast is always by the Spark schema.
Types that PySpark's own inference refuses are mapped to the nearest one that holds every value, at
any depth; what has none is refused by the column's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types as t

from fabric.clients.spark.casts import is_view
from fabric.errors import ConfigError, DataError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_PRECISION_MAX = 38
_INTERVAL_MONTHS = 21  # Spark's own; pyarrow has no name for it and can't cast it

# What PySpark's own inference refuses, and the nearest Arrow type that holds every value.
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time64("ns"),
    pa.time32("ms"): pa.time64("ns"),
}


class _NoSparkType(Exception):
    """`where` inside the column there is a `dtype` without a Spark type; `cast` would do."""

    def __init__(self, where: str, dtype: pa.DataType, cast: pa.DataType | None = None) -> None:
        super().__init__(where)
        self.where, self.dtype, self.cast = where, dtype, cast


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema.

    Raises
    ------
    DataError
        If a column's type has no Spark type; names the column, the type and what to do.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(pa.schema([_mapped(field) for field in schema]))


def _mapped(field: pa.Field) -> pa.Field:
    try:
        return pa.field(field.name, _nearest(field.type, field.name), field.nullable)
    except _NoSparkType as error:
        what = f"column {field.name!r} ({field.type})"
        if error.where != field.name:
            what += f", because of {error.dtype} in {error.where}"
        cast = f".with_columns(col({field.name!r}).cast(pa.{error.cast}), replace=True) or "
        raise DataError(
            f"Spark has no type for {what}; before reading, use {cast if error.cast else ''}"
            f".drop({field.name!r}), or leave it out here: .schema('the columns to read')"
        ) from None


def _nearest(dtype: pa.DataType, where: str) -> pa.DataType:
    """The type that PySpark infers from and that holds every value of `dtype`."""
    if dtype in _WIDER:
        return _WIDER[dtype]
    if isinstance(dtype, pa.BaseExtensionType):
        return _nearest(dtype.storage_type, where)
    if t.is_dictionary(dtype):
        return _nearest(dtype.value_type, where)
    if t.is_run_end_encoded(dtype):
        return _nearest(dtype.value_type, where)
    if t.is_decimal(dtype):
        return _decimal(dtype, where)
    if t.is_nested(dtype):
        return _nested(dtype, where)
    if t.is_interval(dtype) or dtype.id == _INTERVAL_MONTHS:
        raise _NoSparkType(where, dtype)
    return dtype


def _decimal(dtype: pa.DataType, where: str) -> pa.DataType:
    if dtype.precision <= _PRECISION_MAX and 0 <= dtype.scale <= dtype.precision:
        return pa.decimal128(dtype.precision, dtype.scale)
    scale = min(max(dtype.scale, 0), _PRECISION_MAX)
    raise _NoSparkType(where, dtype, pa.decimal128(_PRECISION_MAX, scale))


def _nested(dtype: pa.DataType, where: str) -> pa.DataType:
    if t.is_struct(dtype):
        fields = [dtype.field(i) for i in range(dtype.num_fields)]
        return pa.struct([_child(f, f"{where}.{f.name}") for f in fields])
    if t.is_map(dtype):
        key = _child(dtype.key_field, f"the keys of {where}")
        return pa.map_(key, _child(dtype.item_field, f"the values of {where}"))
    if t.is_union(dtype):
        raise _NoSparkType(where, dtype)
    return pa.list_(_child(dtype.value_field, f"the items of {where}"))


def _child(field: pa.Field, where: str) -> pa.Field:
    if _is_coded(field.type):  # made plain only where it is a column of its own
        raise _NoSparkType(where, field.type)
    try:
        return field.with_type(_nearest(field.type, where))
    except _NoSparkType as error:  # a cast mends a whole column only
        raise _NoSparkType(error.where, error.dtype) from None


def _is_coded(dtype: pa.DataType) -> bool:
    return bool(t.is_run_end_encoded(dtype) or is_view(dtype))


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema PySpark expects of batches for `schema` (time zone UTC).

    Raises
    ------
    DataError
        If Spark itself can't give or take a column's type as Arrow; names the column.
    """
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    for field in schema.fields:
        try:
            to_arrow_schema(StructType([field]), timezone="UTC")
        except PySparkTypeError:
            raise DataError(
                f"Spark's column {field.name!r} ({field.dataType.simpleString()}) has no Arrow "
                f"type; cast it first: .withColumn({field.name!r}, col({field.name!r})"
                '.cast("string")), or drop it'
            ) from None
    wanted: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    return wanted


def collated_columns(schema: StructType) -> frozenset[str]:
    """Columns with text, however deep, that Spark does not compare by bytes."""
    return frozenset(f.name for f in schema.fields if " collate " in f.dataType.simpleString())


def pick(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """The named columns of `schema`, in that order; all of them when none is named.

    Raises
    ------
    ConfigError
        If one is not there; names the nearest.
    """
    for name in columns:
        if name not in schema.names:
            near = get_close_matches(name, schema.names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(
                f"the stream has no column {name!r}{hint}; it has {', '.join(schema.names)}"
            )
    return pa.schema([schema.field(name) for name in columns]) if columns else schema


def nullable_schema(schema: pa.Schema) -> pa.Schema:
    """What a new dataset gets: as with Spark's files, every value may be null."""
    return pa.schema([_nullable(field) for field in schema])


def schema_to_append(schema: pa.Schema, known: pa.Schema) -> pa.Schema:
    """What rows of `schema` are cast to before they are appended to a dataset of `known`.

    When each column would be read back with the type that Spark writes, in whatever order and
    nullable or not, it is `known`; else `schema`, for the fabric to refuse with both named.
    """
    if sorted(schema.names) != sorted(known.names):
        return schema
    try:
        read_back = arrow_schema(spark_schema(known))
    except DataError:  # a column that Spark can't hold can't come from Spark
        return schema
    pairs = ((_nullable(schema.field(f.name)), _nullable(f)) for f in read_back)
    return known if all(ours.type.equals(theirs.type) for ours, theirs in pairs) else schema


def _nullable(field: pa.Field) -> pa.Field:
    """`field` and what is in it, nullable; structs with a meaning (variants) stay as they are."""
    dtype = field.type
    if t.is_list(dtype):
        dtype = pa.list_(_nullable(dtype.value_field))
    elif t.is_map(dtype):
        dtype = pa.map_(
            _nullable(dtype.key_field).with_nullable(False), _nullable(dtype.item_field)
        )
    elif t.is_struct(dtype) and not any(child.metadata for child in dtype):
        dtype = pa.struct([_nullable(child) for child in dtype])
    return field.with_type(dtype).with_nullable(True)
