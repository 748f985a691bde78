"""Arrow rows into Spark and back.

One job: which Spark type a plan's type travels as, tables as frames, and results cast back to the
plan's types: dictionaries, large and fixed types, unsigned integers, units and zones of timestamps.
Spark holds microseconds and signed integers; a value it can't hold is an error, never another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t
from pyspark.sql import DataFrame as SparkFrame
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from fabric.clients.spark.types import arrow_schema, conform, spark_schema
from fabric.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence


_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_SMALL_ROWS = 10_000


def inside_schema(schema: pa.Schema, inner: Sequence[str]) -> StructType:
    """The Spark schema of the columns of `schema` under other names."""
    return spark_schema(pa.schema(list(zip(inner, schema.types, strict=True))))


def frame_of(spark: SparkSession, table: pa.Table, inner: Sequence[str]) -> SparkFrame:
    """`table` as a Spark frame with columns `inner`, in about two partitions a core."""
    if not inner:
        return spark.range(table.num_rows).select()
    struct = inside_schema(table.schema, inner)
    wanted = arrow_schema(struct)
    batches = [conform(batch, wanted) for batch in table.rename_columns(inner).to_batches()]
    n_parts = 2 * spark.sparkContext.defaultParallelism
    before = spark.conf.get(_BATCH_ROWS)
    spark.conf.set(_BATCH_ROWS, str(max(_SMALL_ROWS, -(-table.num_rows // n_parts))))
    try:
        return spark.createDataFrame(_in_one_chunk(batches, wanted), schema=struct)
    finally:
        spark.conf.set(_BATCH_ROWS, str(before))


def _in_one_chunk(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """One table of one chunk, which PySpark needs even when there are no rows."""
    if not batches:
        return pa.table([pa.array([], dtype) for dtype in schema.types], schema)
    return pa.Table.from_batches(batches, schema).combine_chunks()


def restored(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """What Spark gave as the columns of `schema`, by position."""
    columns = [_column(table.column(index), field) for index, field in enumerate(schema)]
    if not columns:
        return table.select([])
    return pa.Table.from_arrays(columns, schema=schema)


def restored_batches(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The same batch by batch."""
    for batch in batches:
        yield from restored(pa.Table.from_batches([batch]), schema).to_batches()


def _column(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if column.type.equals(field.type):
        return column
    chunks = [cast_back(chunk, field.type, field.name) for chunk in column.chunks]
    return pa.chunked_array(chunks, field.type)


def cast_back(array: pa.Array, dtype: pa.DataType, name: str = "") -> pa.Array:
    """Spark's values as `dtype`; `DataError` naming the column when one does not fit."""
    try:
        return _cast_back(array, dtype)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(
            f"column {name!r} came from Spark as {array.type} and does not fit {dtype}: {error}"
        ) from error


def _cast_back(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    if array.type.equals(dtype):
        return array
    if isinstance(dtype, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(dtype, _cast_back(array, dtype.storage_type))
    if t.is_dictionary(dtype):
        values = _cast_back(array, dtype.value_type)
        return pc.dictionary_encode(values).cast(dtype)
    if t.is_run_end_encoded(dtype):
        return pc.run_end_encode(_cast_back(array, dtype.value_type), dtype.run_end_type)
    if t.is_list(array.type) and hasattr(dtype, "value_type") and not t.is_map(dtype):
        return _list(array, dtype)
    if t.is_struct(dtype):
        fields = [dtype.field(i) for i in range(dtype.num_fields)]
        parts = [_cast_back(p, f.type) for p, f in zip(array.flatten(), fields, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())
    return array.cast(dtype)


def _list(array: pa.ListArray, dtype: pa.DataType) -> pa.Array:
    """Items cast one by one kind, then the layout."""
    if not len(array):  # Spark's have no offsets then
        return pa.array([], dtype)
    same = pa.list_(dtype.value_field)
    plain = pa.Array.from_buffers(
        same,
        len(array),
        array.buffers()[:2],
        offset=array.offset,
        children=[_cast_back(array.values, dtype.value_type)],
    )
    if t.is_list_view(dtype) or t.is_large_list_view(dtype):
        return _view(plain, dtype)
    if t.is_fixed_size_list(dtype):
        return _fixed(plain, dtype)
    return plain if same.equals(dtype) else plain.cast(dtype)


def _view(plain: pa.ListArray, dtype: pa.DataType) -> pa.Array:
    """As a list of views, to which Arrow has no cast."""
    is_large = t.is_large_list_view(dtype)
    width = pa.int64() if is_large else pa.int32()
    offsets = plain.offsets[:-1].cast(width)
    sizes = pc.fill_null(pc.list_value_length(plain), 0).cast(width)
    kind = pa.LargeListViewArray if is_large else pa.ListViewArray
    return kind.from_arrays(offsets, sizes, plain.values, type=dtype, mask=plain.is_null())


def _fixed(plain: pa.ListArray, dtype: pa.DataType) -> pa.Array:
    """As lists of one length; Arrow's own cast reads past the items where a list is null."""
    size, missing = dtype.list_size, plain.is_null()
    lengths = pc.fill_null(pc.list_value_length(plain), size)
    if pc.any(pc.not_equal(lengths, size)).as_py():
        raise pa.ArrowInvalid(f"a list has not {size} items")
    starts = plain.offsets[:-1].to_numpy()[:, None]
    absent = np.repeat(missing.to_numpy(zero_copy_only=False), size)
    places = pa.array((starts + np.arange(size)).ravel(), pa.int64(), mask=absent)
    return pa.FixedSizeListArray.from_arrays(plain.values.take(places), type=dtype, mask=missing)
