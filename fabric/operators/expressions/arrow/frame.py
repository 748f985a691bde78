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

from fabric.plan.types import flat_type

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
    return values if values.type.equals(target) else values.cast(target)


def restored(values: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Flat values in the layout that the schema promises."""
    if values.type.equals(dtype):
        return values
    if t.is_run_end_encoded(dtype):
        encoded = restored(values, dtype.value_type)
        return pc.run_end_encode(encoded, run_end_type=dtype.run_end_type)
    if t.is_dictionary(dtype):
        values = restored(values, flat_type(dtype)).dictionary_encode()
    return values.cast(dtype)


def spread(values: pa.Array, wanted: pa.Array) -> pa.Array:
    """Put values on the rows where `wanted` is true; the other rows are null."""
    rows = pc.indices_nonzero(wanted).view(pa.int64())
    return pc.scatter(values, rows, max_index=len(wanted) - 1)
