"""The rows an expression is evaluated on: a batch, or some rows of one.

One job: hand columns out in a flat layout, and filter the rows for a branch that is
evaluated lazily. Flat means that dictionaries and run ends are decoded and odd layouts widened
(string views are strings, half floats floats), because most kernels of Arrow take nothing else.
Only columns that are read are decoded or copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.operators.expressions.arrow.lists.view import Lists, struct_array
from fabric.plan.types import flat_type, is_list

__all__ = ["Frame", "flat", "flat_type", "restored", "spread"]


class Frame:
    """Columns by index, all of `n_rows` rows."""

    __slots__ = ("_flat", "_source", "n_rows")

    def __init__(self, source: Callable[[int], pa.Array], n_rows: int) -> None:
        self._source = source
        self._flat: dict[int, pa.Array] = {}
        self.n_rows = n_rows

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> Frame:
        """All rows of a batch."""
        return cls(batch.column, batch.num_rows)

    def column(self, index: int) -> pa.Array:
        """The values of a column, flat."""
        if (found := self._flat.get(index)) is None:
            found = self._flat[index] = flat(self._source(index))
        return found

    def filter(self, wanted: pa.Array, columns: Iterable[int]) -> Frame:
        """The rows where `wanted` is true, with the given columns."""
        kept = {index: self.column(index).filter(wanted) for index in columns}
        return Frame(kept.__getitem__, wanted.true_count)


def flat(values: pa.Array) -> pa.Array:
    """The same values in `flat_type`."""
    if t.is_run_end_encoded(values.type):
        values = pc.run_end_decode(values)
    target = flat_type(values.type)
    if values.type.equals(target):
        return values
    if is_list(target):  # Arrow's own cast of a list view with nulls makes a broken array
        lists = Lists.of(values)
        return lists.with_values(flat(lists.values)).array()
    if t.is_struct(target):
        return struct_array([flat(part) for part in values.flatten()], target, values)
    return values.cast(target)


def restored(values: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Flat values in the layout that the schema promises."""
    if values.type.equals(dtype):
        return values
    if t.is_run_end_encoded(dtype):
        encoded = restored(values, dtype.value_type)
        return pc.run_end_encode(encoded, run_end_type=dtype.run_end_type)
    if t.is_dictionary(dtype):
        values = restored(values, flat_type(dtype)).dictionary_encode()
    if t.is_list_view(dtype) or t.is_large_list_view(dtype):
        return _list_view(values, dtype)
    return values.cast(dtype)


def _list_view(values: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Lists as views of lists, for which Arrow has no cast."""
    inner = restored(values.values, dtype.value_type)
    wide = pa.int64() if t.is_large_list_view(dtype) else pa.int32()
    offsets = values.offsets.cast(wide)
    sizes = pc.fill_null(pc.list_value_length(values), 0).cast(wide)
    kind = pa.LargeListViewArray if t.is_large_list_view(dtype) else pa.ListViewArray
    mask = pc.is_null(values) if values.null_count else None
    return kind.from_arrays(offsets[:-1], sizes, inner, type=dtype, mask=mask)


def spread(values: pa.Array, wanted: pa.Array) -> pa.Array:
    """Put values on the rows where `wanted` is true; the other rows are null."""
    rows = pc.indices_nonzero(wanted).view(pa.int64())
    return pc.scatter(values, rows, max_index=len(wanted) - 1)
