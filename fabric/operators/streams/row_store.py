"""One Arrow row a group, of any types, that can be replaced.

One job: `RowStore`. Rows are written behind each other in chunks, and a group knows where its row
is. Chunks of like size become one, so there are few; rows that were replaced go when they are more
than half.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.operators.streams.accumulators.base import Numbers
from fabric.operators.streams.accumulators.row_groups import Ids

_FEW = 65_536


class RowStore:
    """At most one row of `schema` for each group.

    >>> store = RowStore(pa.schema([("name", pa.string())]))
    >>> store.resize(3)
    >>> store.put(np.array([2, 0]), pa.record_batch({"name": ["c", "a"]}))
    >>> store.put(np.array([2]), pa.record_batch({"name": ["d"]}))
    >>> store.get(np.array([0, 1, 2])).to_pydict(), store.has(np.array([0, 1, 2])).tolist()
    ({'name': ['a', None, 'd']}, [True, False, True])
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._at = Numbers(np.int64, -1)
        self._chunks: list[pa.RecordBatch] = []
        self._n_rows = self._n_live = 0

    def resize(self, n_groups: int) -> None:
        """Make room for groups below `n_groups`; new ones have no row."""
        self._at.resize(n_groups)

    def has(self, ids: Ids) -> NDArray[np.bool_]:
        """Which of these groups have a row."""
        found: NDArray[np.bool_] = self._at.values[ids] >= 0
        return found

    def put(self, ids: Ids, rows: pa.RecordBatch) -> None:
        """Rows for these groups, which are different."""
        if not len(ids):
            return
        self._n_live += int(np.count_nonzero(self._at.values[ids] < 0))
        self._at.values[ids] = np.arange(self._n_rows, self._n_rows + len(ids))
        self._n_rows += len(ids)
        self._chunks.append(rows)
        if self._n_rows > 2 * self._n_live + _FEW:
            self._compact()
        while len(self._chunks) > 1 and 2 * len(self._chunks[-1]) >= len(self._chunks[-2]):
            self._chunks[-2:] = [_joined(self._chunks[-2:])]

    def get(self, ids: Ids) -> pa.RecordBatch:
        """The rows of these groups; of nulls where there is none."""
        places = self._at.values[ids]
        lengths = [len(chunk) for chunk in self._chunks]
        ends = np.cumsum(lengths, dtype=np.int64)
        which = np.where(places < 0, -1, np.searchsorted(ends, places, side="right"))
        parts, order = [], []
        for number, chunk in enumerate(self._chunks):
            wanted = np.flatnonzero(which == number)
            if len(wanted):
                begin = ends[number] - lengths[number]
                parts.append(chunk.take(pa.array(places[wanted] - begin)))
                order.append(wanted)
        return _placed(parts, order, len(ids), self.schema)

    def clear(self, ids: Ids) -> None:
        """These groups have no row any more."""
        self._n_live -= int(np.count_nonzero(self._at.values[ids] >= 0))
        self._at.clear(ids)

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return self._at.nbytes + sum(int(chunk.nbytes) for chunk in self._chunks)

    def _compact(self) -> None:
        live = np.flatnonzero(self._at.values >= 0)
        live = live[np.argsort(self._at.values[live])]  # as they lie, which is cheaper to read
        rows = self.get(live)
        self._chunks = [rows] if len(live) else []
        self._at.values[live] = np.arange(len(live))
        self._n_rows = self._n_live = len(live)


def _joined(chunks: list[pa.RecordBatch]) -> pa.RecordBatch:
    columns = [
        pa.concat_arrays([c.column(i) for c in chunks]) for i in range(chunks[0].num_columns)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=chunks[0].schema)


def _placed(
    parts: list[pa.RecordBatch], order: list[Ids], n_rows: int, schema: pa.Schema
) -> pa.RecordBatch:
    """The rows of `parts` at the places of `order`, nulls elsewhere."""
    if len(parts) == 1 and len(order[0]) == n_rows:
        return parts[0]
    if not parts:
        nulls = [pa.nulls(n_rows, field.type) for field in schema]
        return pa.RecordBatch.from_arrays(nulls, schema=schema)
    places = np.concatenate(order)
    source = np.full(n_rows, -1, np.int64)
    source[places] = np.arange(len(places))
    missing = source < 0
    return _joined(parts).take(pa.array(source, mask=missing if missing.any() else None))
