"""Arrow types and Spark types, both ways, and batches cast to them.

One job: say which Spark schema an Arrow schema has, and cast batches to what PySpark checks
them against. PySpark compares Arrow schemas for equality, so a cast is always by the Spark schema.
Types that PySpark's own inference refuses are mapped to the nearest one that holds every value, at
any depth; what has none is refused by the column's name.

A cast of `conform` is checked, value by value, and stays within one kind of value: text is not read
as a number nor a number as true or false, and a time keeps its zone or its lack of one. Spark has
its own casts for that, with its own meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from fabric.errors import ConfigError, DataError

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
    if t.is_dictionary(dtype) or t.is_run_end_encoded(dtype):
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


def conform(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Take the columns of `wanted` by name and cast each that differs.

    Raises
    ------
    DataError
        If a column is missing or a value does not fit; names the column.
    """
    if batch.schema.equals(wanted):
        return batch
    columns = [_column(batch, field) for field in wanted]
    if not columns:  # without columns, the batch still has rows
        return batch.select([])
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    index = batch.schema.get_field_index(field.name)
    if index < 0:
        raise DataError(
            f"the stream has no column {field.name!r}; it has {', '.join(batch.schema.names)}"
        )
    column = batch.column(index)
    if column.type.equals(field.type):
        return column
    if not same_kind(column.type, field.type):
        raise DataError(
            f"column {field.name!r} of type {column.type} can't be read as {field.type}, which is "
            "another kind of value; read it as it is and cast it in Spark"
        )
    try:
        return _plain(column).cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(
            f"column {field.name!r} of type {batch.column(index).type} does not fit "
            f"{field.type}: {error}; cast it before reading"
        ) from error


def _plain(column: pa.Array) -> pa.Array:
    """Without an encoding that Arrow's casts can't take."""
    if t.is_run_end_encoded(column.type):
        return pc.run_end_decode(column)
    if is_view(column.type):  # Arrow 25 casts views to lists with one offset too few
        ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(column), 0).cast(pa.int64()))
        offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
        return pa.LargeListArray.from_arrays(offsets, column.flatten(), mask=column.is_null())
    return column


def same_kind(dtype: pa.DataType, other: pa.DataType) -> bool:
    """Whether a checked cast keeps the meaning: numbers stay numbers, times keep their zone.

    >>> same_kind(pa.uint8(), pa.float64()), same_kind(pa.int64(), pa.bool_())
    (True, False)
    """
    ours, theirs = _kind(dtype), _kind(other)
    if ours != theirs or ours not in ("list", "map", "struct"):
        return ours in ("null", theirs)
    if ours == "list":
        return same_kind(dtype.value_type, other.value_type)
    if ours == "map":
        keys = same_kind(dtype.key_type, other.key_type)
        return keys and same_kind(dtype.item_type, other.item_type)
    inner = {field.name: field.type for field in dtype}
    return all(f.name in inner and same_kind(inner[f.name], f.type) for f in other)


def _kind(dtype: pa.DataType) -> str:
    if isinstance(dtype, pa.BaseExtensionType):
        return _kind(dtype.storage_type)
    if t.is_dictionary(dtype) or t.is_run_end_encoded(dtype):
        return _kind(dtype.value_type)
    if t.is_timestamp(dtype):
        return "wall time" if dtype.tz is None else "instant"
    return next((name for name, tests in _KINDS.items() if any(is_(dtype) for is_ in tests)), "")


_KINDS: Mapping[str, tuple[Callable[[pa.DataType], bool], ...]] = {
    "null": (t.is_null,),
    "boolean": (t.is_boolean,),
    "number": (t.is_integer, t.is_floating, t.is_decimal),
    "bytes": (
        t.is_string, t.is_large_string, t.is_string_view, t.is_binary, t.is_large_binary,
        t.is_binary_view, t.is_fixed_size_binary,
    ),
    "date": (t.is_date,),
    "time": (t.is_time,),
    "duration": (t.is_duration,),
    "map": (t.is_map,),
    "list": (
        t.is_list, t.is_large_list, t.is_fixed_size_list, t.is_list_view, t.is_large_list_view,
    ),
    "struct": (t.is_struct,),
}  # fmt: skip


def is_view(dtype: pa.DataType) -> bool:
    """Lists told by offsets and sizes."""
    return bool(t.is_list_view(dtype) or t.is_large_list_view(dtype))
