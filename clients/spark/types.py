"""Arrow types and Spark types, both ways.

One job: say which Spark schema an Arrow schema has, and cast batches to what PySpark checks
them against. PySpark compares Arrow schemas for equality, so a cast is always by the Spark schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from fabric.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

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
}


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema.

    Raises
    ------
    DataError
        If a column's type has no Spark type; names the column and the type.
    """
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import from_arrow_schema

    fields = [field.with_type(_WIDER.get(field.type, field.type)) for field in schema]
    try:
        return from_arrow_schema(pa.schema(fields))
    except PySparkTypeError as error:
        names = ", ".join(f"{f.name}: {f.type}" for f in schema if not _is_known(f))
        raise DataError(
            f"Spark has no type for {names}; cast it first, "
            f'for example with_columns(col("{schema.names[0]}").cast(...), replace=True)'
        ) from error


def _is_known(field: pa.Field) -> bool:
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import from_arrow_type

    try:
        from_arrow_type(_WIDER.get(field.type, field.type))
    except PySparkTypeError:
        return False
    return True


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema PySpark expects of batches for `schema` (time zone UTC)."""
    from pyspark.sql.pandas.types import to_arrow_schema

    wanted: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    return wanted


def conform(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Take the columns of `wanted` by name and cast each that differs.

    Raises
    ------
    DataError
        If a column is missing or a value does not fit; names the column.
    """
    if batch.schema.equals(wanted):
        return batch
    return pa.RecordBatch.from_arrays([_column(batch, f) for f in wanted], schema=wanted)


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    index = batch.schema.get_field_index(field.name)
    if index < 0:
        raise DataError(
            f"the stream has no column {field.name!r}; it has {', '.join(batch.schema.names)}"
        )
    try:
        return batch.column(index).cast(field.type)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"column {field.name!r} of type {batch.column(index).type} does not fit "
            f"{field.type}: {error}"
        ) from error
