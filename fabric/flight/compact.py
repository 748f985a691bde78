"""Batches that hold their own rows' bytes and no others.

One job: `needed_bytes` and `compact`. A slice of numbers or plain strings counts, keeps and sends
its rows only. A slice of views, or rows that were taken from some, refers to every buffer of the
batch they came from; a dictionary comes whole with any of its rows. Sent as they are, each of a
thousand slices would carry all bytes; kept, they hold what a filter threw away.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric._cython.kernels.take import take

_VIEW_BYTES, _INLINE_BYTES = 16, 12
_WASTE_BYTES_MIN = 1 << 10
"""Less is not worth a copy."""


def needed_bytes(batch: pa.RecordBatch) -> int:
    """Bytes of the rows of `batch` alone, however much its buffers hold beside them.

    >>> views = pa.array(["x" * 100] * 1000, pa.string_view())
    >>> part = pa.record_batch({"a": views}).slice(0, 10)
    >>> part.nbytes, needed_bytes(part)
    (100160, 1160)
    """
    return sum(_needed(column) for column in batch.columns)


def compact(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows with nothing beside them; `batch` itself when a quarter or less is waste."""
    columns = batch.columns
    found = [_compacted(column) for column in columns]
    if all(new is old for new, old in zip(found, columns, strict=True)):
        return batch
    return pa.RecordBatch.from_arrays(found, schema=batch.schema)


def may_waste(schema: pa.Schema) -> bool:
    """Whether rows under `schema` may refer to more than themselves, so that `compact` is wanted.

    >>> plain = pa.schema([("a", pa.string()), ("b", pa.list_(pa.int8()))])
    >>> may_waste(plain), may_waste(pa.schema([("a", pa.string_view())]))
    (False, True)
    """
    return any(
        t.is_string_view(dtype)
        or t.is_binary_view(dtype)
        or t.is_dictionary(dtype)
        or _refers(dtype)
        for dtype in schema.types
    )


def _compacted(column: pa.Array) -> pa.Array:
    needed = _needed(column)
    if column.nbytes <= needed + max(needed // 4, _WASTE_BYTES_MIN):
        return column
    return _narrowed(column) if t.is_dictionary(column.type) else _copied(column)


def _needed(column: pa.Array) -> int:
    dtype = column.type
    if t.is_string_view(dtype) or t.is_binary_view(dtype):
        return _needed_by_views(column)
    if t.is_dictionary(dtype):
        entries = max(1, len(column.dictionary))
        share = column.dictionary.nbytes * min(entries, len(column)) // entries
        return int(column.indices.nbytes + share)
    if _refers(dtype) and column.nbytes > _WASTE_BYTES_MIN:
        return int(_copied(column).nbytes)
    return int(column.nbytes)


def _needed_by_views(column: pa.Array) -> int:
    """A view of up to 12 bytes holds them itself; what a null's view says means nothing."""
    valid, views = column.buffers()[:2]
    lengths = np.frombuffer(views, np.int32)[4 * column.offset :: 4][: len(column)]
    beside = lengths > _INLINE_BYTES
    if column.null_count:
        beside &= pc.is_valid(column).to_numpy(zero_copy_only=False)
    bitmap = 0 if valid is None else (len(column) + 7) // 8
    return len(column) * _VIEW_BYTES + int(lengths.sum(where=beside, dtype=np.int64)) + bitmap


def _copied(column: pa.Array) -> pa.Array:
    return take(column, np.arange(len(column), dtype=np.uint32))


def _narrowed(column: pa.DictionaryArray) -> pa.Array:
    """With those entries of the dictionary that a row has, in their order."""
    indices = column.indices
    used = np.unique(indices.drop_null().to_numpy(zero_copy_only=False))
    places = pc.index_in(indices, pa.array(used, indices.type), skip_nulls=True)
    entries = take(column.dictionary, used.astype(np.uint32))
    return pa.DictionaryArray.from_arrays(
        places.cast(indices.type), entries, ordered=column.type.ordered
    )


def _refers(dtype: pa.DataType) -> bool:
    """Whether a slice of nested values of this type refers to more than its rows."""
    if t.is_list_view(dtype) or t.is_large_list_view(dtype):
        return True
    children = [dtype.field(i).type for i in range(dtype.num_fields)]
    return any(t.is_string_view(c) or t.is_binary_view(c) or _refers(c) for c in children)
