"""Rows of a stream with those of a table that has an end.

    table ──► groups of equal keys, the rows of each side by side     once, when the table has ended
    rows  ──► group of each ──► its rows of the table                 batch after batch

One job: the operator of `LookupJoin`. The table (input 1) is complete before the first row of the
stream (input 0) comes; each attempt reads it again, so no snapshot holds it. Null keys have no
equals. Output is cut into batches of bounded length, however many rows of the table a row has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fabric._cython.kernels.group_table import GroupTable
from fabric.errors import InternalError
from fabric.operators.contract import Batches, Operator
from fabric.operators.expressions.arrow import compile_expr
from fabric.operators.streams.columns import Bools, Ints, only, rows_of, shown
from fabric.plan.expr import Cast, Expr
from fabric.plan.infer import infer
from fabric.plan.nodes import LookupJoin
from fabric.plan.nodes.join import key_types, output_columns

_ROWS_MAX = 1 << 16
STREAM, TABLE = 0, 1


class LookupJoinOperator(Operator):
    """Joins rows of `stream` with `table`, both schemas of its inputs."""

    def __init__(
        self, node: LookupJoin, stream: pa.Schema, table: pa.Schema, output: pa.Schema
    ) -> None:
        self._how = node.how
        self._output = output
        types = key_types(node.as_join, shown(stream), table)
        self._stream_keys = _Keys(node.left_keys, types, stream)
        self._table_keys = _Keys(node.right_keys, types, table)
        columns = output_columns(node.as_join, shown(stream), table)
        self._stream_columns = [c.source for c in columns if not c.right]
        self._stream_columns += [f.name for f in stream if f.name not in shown(stream).names]
        self._table_columns = [column.source for column in columns if column.right]
        self._table_schema = table
        self._arriving: Batches = []
        self._built: _Built | None = None

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """Rows of the table are kept; rows of the stream are joined."""
        if input == TABLE:
            self._arriving.append(batch)
            return []
        if self._built is None:
            raise InternalError("a row of the stream came before the whole table was there")
        groups = self._built.find(self._stream_keys, batch)
        if self._how in ("semi", "anti"):
            kept = rows_of(batch, (groups >= 0) == (self._how == "semi"))
            return [only(kept, self._output.names)] if kept.num_rows else []
        return list(self._pairs(self._built, batch, groups))

    def on_end(self, input: int) -> Batches:
        """The table is complete."""
        if input == TABLE:
            rows = pa.Table.from_batches(self._arriving, self._table_schema).combine_chunks()
            self._arriving = []
            self._built = _Built.of(rows, self._table_keys, self._table_columns)
        return []

    def watermark(self, time_us: int) -> int:
        """The stream's."""
        return time_us

    def _pairs(
        self, built: _Built, batch: pa.RecordBatch, groups: Ints
    ) -> Iterator[pa.RecordBatch]:
        counts = built.counts[groups]
        starts = built.starts[groups]
        if self._how == "left":
            counts = np.maximum(counts, 1)
        ends = np.cumsum(counts)
        n_pairs = int(ends[-1]) if len(ends) else 0
        for first in range(0, n_pairs, _ROWS_MAX):
            pairs = np.arange(first, min(first + _ROWS_MAX, n_pairs))
            rows = np.searchsorted(ends, pairs, "right")
            found = starts[rows] + pairs - (ends - counts)[rows]
            yield self._joined(built, batch, rows, found, groups[rows] >= 0)

    def _joined(
        self, built: _Built, batch: pa.RecordBatch, rows: Ints, found: Ints, some: Bools
    ) -> pa.RecordBatch:
        left = rows_of(batch, rows)
        taken = built.rows.take(pa.array(found, mask=None if some.all() else ~some))
        n_shown = len(self._stream_columns) - (left.num_columns - len(shown(batch.schema)))
        columns = [left.column(name) for name in self._stream_columns]
        columns[n_shown:n_shown] = [_one(column) for column in taken.columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._output)


class _Keys:
    """The key columns of one side, in the types both sides have."""

    def __init__(
        self, keys: Sequence[Expr], types: Sequence[pa.DataType], schema: pa.Schema
    ) -> None:
        self.schema = pa.schema([(str(i), dtype) for i, dtype in enumerate(types)])
        self._columns: list[Callable[[pa.RecordBatch], pa.Array]] = [
            compile_expr(key if infer(key, schema).equals(dtype) else Cast(key, dtype), schema)
            for key, dtype in zip(keys, types, strict=True)
        ]

    def of(self, batch: pa.RecordBatch) -> tuple[list[pa.Array], Bools | None]:
        """The columns, and which rows have no null among them (None: all)."""
        columns = [column(batch) for column in self._columns]
        if not any(column.null_count for column in columns):
            return columns, None
        whole = np.ones(batch.num_rows, np.bool_)
        for column in columns:
            whole &= column.is_valid().to_numpy(zero_copy_only=False)
        return columns, whole


@dataclass(frozen=True, slots=True)
class _Built:
    """A table whose rows with equal keys lie side by side.

    Group -1, of keys that are not there, has no rows; it is the last of `starts` and `counts`.
    """

    groups: GroupTable
    rows: pa.Table
    starts: Ints
    counts: Ints

    @classmethod
    def of(cls, rows: pa.Table, keys: _Keys, columns: Sequence[str]) -> _Built:
        groups = GroupTable(keys.schema)
        ids = np.concatenate([
            _found(groups.upsert, keys, batch) for batch in rows.to_batches()
        ] or [np.empty(0, np.int64)])  # fmt: skip
        order = np.argsort(ids, kind="stable")
        order = order[np.count_nonzero(ids < 0) :]
        counts = np.bincount(ids[order], minlength=groups.n_ids)
        starts = np.cumsum(counts) - counts
        sorted_rows = rows.select(list(columns)).take(pa.array(order)).combine_chunks()
        return cls(groups, sorted_rows, np.append(starts, 0), np.append(counts, 0))

    def find(self, keys: _Keys, batch: pa.RecordBatch) -> Ints:
        """The group of each row, or -1."""
        return _found(self.groups.find, keys, batch)


def _found(
    number: Callable[[list[pa.Array]], np.ndarray], keys: _Keys, batch: pa.RecordBatch
) -> Ints:
    """The group of each row by `number`; -1 where a key is null."""
    columns, whole = keys.of(batch)
    if whole is None:
        return number(columns).astype(np.int64)
    found = np.full(batch.num_rows, -1, np.int64)
    mask = pa.array(whole)
    found[whole] = number([column.filter(mask) for column in columns])
    return found


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
