"""Batches as PySpark wants them: the columns of a schema, each cast where it differs.

One job: `conform`. A cast is checked, value by value, and stays within one kind of value: text is
not read as a number nor a number as true or false, and a time keeps its zone or its lack of one.
Spark has its own casts for that, with its own meaning. Which type a column gets is in `types.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.errors import DataError


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
