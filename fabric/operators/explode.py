"""One row for each element of a list.

One job: the chain form of `Explode`, and the places of list elements for other forms of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fabric.operators.contract import Batches, Operator
from fabric.plan.nodes import Explode
from fabric.plan.types import plain

_ROWS_OUT_MAX = 65_536
Ints = NDArray[np.int64]


class ExplodeOperator(Operator):
    """A stateless explode of batches into rows of `output`."""

    def __init__(self, node: Explode, output: pa.Schema) -> None:
        self._node, self._output = node, output

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """A row for each element, some ten thousand in a batch."""
        place = batch.schema.get_field_index(self._node.column)
        lists = plain_lists(batch.column(place))
        found = []
        for begin, end in _runs(lengths_of(lists)):
            found.append(self._exploded(batch, place, lists, begin, end))
        return [part for part in found if part.num_rows]

    def _exploded(
        self, batch: pa.RecordBatch, place: int, lists: pa.Array, begin: int, end: int
    ) -> pa.RecordBatch:
        """The elements of rows ``begin:end``."""
        lists = lists.slice(begin, end - begin)
        lengths = lengths_of(lists)
        shown = np.maximum(lengths, 1) if self._node.outer else lengths
        parents = np.repeat(np.arange(len(lengths)), shown)
        position = positions_of(shown)
        missing = np.repeat(lengths == 0, shown)
        starts = np.cumsum(lengths) - lengths
        elements = lists.flatten().take(pa.array(starts[parents] + position, mask=missing))
        rows = pa.array(parents + begin)
        columns = [
            elements if index == place else column.take(rows)
            for index, column in enumerate(batch.columns)
        ]
        if self._node.position:
            columns.append(pa.array(position, pa.int64(), mask=missing).cast(pa.int32()))
        return pa.RecordBatch.from_arrays(columns, schema=self._output)


def plain_lists(lists: pa.Array) -> pa.Array:
    """Lists that are no longer a dictionary of lists."""
    return lists if lists.type.equals(plain(lists.type)) else lists.cast(plain(lists.type))


def lengths_of(lists: pa.Array) -> Ints:
    """How many elements each list has; a null has none."""
    lengths = pc.fill_null(pc.list_value_length(lists).cast(pa.int64()), 0)
    found: Ints = lengths.to_numpy(zero_copy_only=False)
    return found


def positions_of(lengths: Ints) -> Ints:
    """The place of each element in its list, one list after another.

    >>> positions_of(np.array([2, 0, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    starts = np.cumsum(lengths) - lengths
    found: Ints = np.arange(int(lengths.sum())) - np.repeat(starts, lengths)
    return found


def _runs(lengths: Ints) -> Iterator[tuple[int, int]]:
    """Runs of rows with not many more elements in all than a batch should have."""
    ends, begin = np.cumsum(np.maximum(lengths, 1)), 0
    while begin < len(ends):
        done = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + _ROWS_OUT_MAX, side="right")))
        yield begin, end
        begin = end
