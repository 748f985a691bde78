"""Operators that know nothing of keys: rows in, rows out.

One job: the chain forms of `Filter`, `Select` and `WithColumns`, `Explode`, `Union`, `Limit`,
`Changes`, `Branches` and `AssignWindows`. Only a limit has state: how many rows it has taken. The
places of list elements (`lengths_of`, `positions_of`) serve DataFusion's explode as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fabric.event_time.windows import Clock, assign
from fabric.operators.contract import Batches, Files, Operator
from fabric.operators.expressions.arrow import compile_expr
from fabric.operators.expressions.predicates import filter_expr
from fabric.operators.streams.columns import event_times, shown, sliced
from fabric.plan.event_windows import WINDOW_END, WINDOW_START, clock_zone
from fabric.plan.expr import Cast, Column, Expr
from fabric.plan.nodes import AssignWindows, Explode, branch_side
from fabric.plan.stream import KIND, KINDS
from fabric.plan.types import plain
from fabric.state.backend import Snapshot, SnapshotReader


class FilterOperator(Operator):
    """A stateless filter over batches of `schema`."""

    def __init__(self, predicate: Expr, schema: pa.Schema) -> None:
        self._keep = compile_expr(filter_expr(predicate, schema), schema)

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """The rows that pass; no batch when none does, the same one when all do."""
        mask = self._keep(batch)
        n_kept = mask.true_count if pa.types.is_boolean(mask.type) else 0
        if n_kept == batch.num_rows:
            return [batch]
        return [batch.filter(mask)] if n_kept else []


class ProjectOperator(Operator):
    """One expression over `source` per column of `output`."""

    def __init__(self, exprs: Sequence[Expr], source: pa.Schema, output: pa.Schema) -> None:
        self._columns = [compile_expr(expr, source) for expr in exprs]
        self._output = output

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """All rows, with the columns of the output."""
        columns = [column(batch) for column in self._columns]
        return [pa.RecordBatch.from_arrays(columns, schema=self._output)]


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


class UnionOperator(Operator):
    """Casts each input to `output`."""

    def __init__(self, sources: Sequence[pa.Schema], output: pa.Schema) -> None:
        self._output = output
        self._columns = [
            [_column(field, wanted, source) for field, wanted in zip(source, output, strict=True)]
            for source in sources
        ]

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """The same rows as columns of the output."""
        columns = [column(batch) for column in self._columns[input]]
        return [pa.RecordBatch.from_arrays(columns, schema=self._output)]


def _column(field: pa.Field, wanted: pa.Field, source: pa.Schema):  # type: ignore[no-untyped-def]
    column = Column(field.name)
    same = field.type.equals(wanted.type)
    return compile_expr(column if same else Cast(column, wanted.type), source)


class LimitOperator(Operator):
    """Rows `offset` to ``offset + n`` of what comes."""

    def __init__(self, n: int, offset: int) -> None:
        self._n, self._offset, self._taken = n, offset, 0

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """The part of the batch that lies in the range."""
        begin = max(0, self._offset - self._taken)
        end = min(batch.num_rows, self._offset + self._n - self._taken)
        self._taken += batch.num_rows
        return [batch.slice(begin, end - begin)] if begin < end else []

    def on_barrier(self, checkpoint: int) -> Snapshot:
        """The rows taken, as eight bytes."""
        return Files({"taken": self._taken.to_bytes(8, "little")})

    def restore(self, snapshots: Sequence[SnapshotReader], key_groups: range) -> None:
        """Go on counting; several states add up, because a limit runs as one task."""
        taken = (snapshot.read("taken").to_pybytes() for snapshot in snapshots)
        self._taken = sum(int.from_bytes(state, "little") for state in taken)

    @property
    def done(self) -> bool:
        """Whether the last row has passed."""
        return self._taken >= self._offset + self._n


class ChangesOperator(Operator):
    """Rows of `output`: first the kind, "+I" where rows have none."""

    def __init__(self, output: pa.Schema, source: pa.Schema) -> None:
        self._output, self._names = output, shown(source).names
        self._texts = pa.array(KINDS)

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """The same rows."""
        if KIND in batch.schema.names:
            kinds = self._texts.take(batch.column(KIND))
        else:
            kinds = pa.repeat(pa.scalar(KINDS[0]), batch.num_rows)
        columns = [kinds, *batch.select(self._names).columns]
        return [pa.RecordBatch.from_arrays(columns, schema=self._output)]


class BranchesOperator(Operator):
    """Input i is branch i.

    >>> branches = BranchesOperator()
    >>> branches.on_batch(1, pa.record_batch({"a": [7]})), list(branches.take_side())
    ([], ['1'])
    """

    def __init__(self) -> None:
        self._rows: dict[str, Batches] = {}

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """Rows of a branch."""
        self._rows.setdefault(branch_side(input), []).append(batch)
        return []

    def take_side(self) -> dict[str, Batches]:
        """The rows of each branch since the last call."""
        rows, self._rows = self._rows, {}
        return rows


class AssignWindowsOperator(Operator):
    """Rows with the start and the end of a window behind the columns that users see."""

    def __init__(self, node: AssignWindows, output: pa.Schema, source: pa.Schema) -> None:
        self._output, self._node = output, node
        self._clock = Clock(clock_zone(node.window, source.field(node.time).type))
        self._shown = shown(source).names
        self._hidden = [name for name in source.names if name not in self._shown]

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """The rows of each row's windows, in order of rows."""
        found = assign(self._node.window, self._clock.shown(event_times(batch, self._node.time)))
        if len(found.rows) != batch.num_rows:
            batch = batch.take(pa.array(found.rows))
        windows = [
            pa.array(self._clock.instants(times)).view(self._output.field(name).type)
            for name, times in ((WINDOW_START, found.starts), (WINDOW_END, found.ends))
        ]
        hidden = batch.select(self._hidden).columns
        columns = [*batch.select(self._shown).columns, *windows, *hidden]
        return sliced(pa.RecordBatch.from_arrays(columns, schema=self._output))
