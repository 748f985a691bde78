"""Matches of a pattern among all rows of a table, partition by partition.

One job: `matched`, and `in_order`, the order of rows that tables and streams have in common: keys,
then the order that was asked for, then the columns that the pattern reads, so that rows that are
equal in all of them can be exchanged for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from fabric._cython.kernels.group_table import GroupTable
from fabric.operators.expressions.arrow import compile_expr
from fabric.operators.fragment.aggregates.segments import unviewed
from fabric.operators.fragment.order import order_of
from fabric.operators.match.results import Results
from fabric.operators.match.search import Found, Partition
from fabric.operators.match.values import Conditions
from fabric.operators.streams.columns import Ints, event_times, gathered, only
from fabric.plan.expr import Column, SortKey, output_name
from fabric.plan.nodes import Match
from fabric.plan.types import is_comparable, plain

_KEY = SortKey(Column(""))
_BATCH_ROWS = 65_536


class TableRows:
    """Rows of one batch, by their place."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def take(self, numbers: Ints, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """See `Rows`."""
        wanted = self._batch if columns is None else self._batch.select(list(columns))
        return gathered(wanted, numbers)


def in_order(node: Match, rows: pa.RecordBatch, groups: Sequence[pa.Array]) -> Ints:
    """The places of rows in the order of `groups`, and in that of the pattern within them."""
    order = node.order or ((SortKey(Column(node.time)),) if node.time else ())
    asked = [compile_expr(key.input, rows.schema)(rows) for key in order]
    known = {*node.keys, *(key.input for key in order)}
    ties = [
        field.name for field in node.kept(rows.schema)
        if is_comparable(plain(field.type)) and Column(field.name) not in known
    ]  # fmt: skip
    columns = [*groups, *map(_ordered, asked), *(_ordered(rows.column(name)) for name in ties)]
    keys = [*[_KEY] * len(groups), *order, *[_KEY] * len(ties)]
    if not columns or not rows.num_rows:
        return np.arange(rows.num_rows)
    return order_of(columns, keys).astype(np.int64)


def _ordered(values: pa.Array) -> pa.Array:
    """The same values in a type that is ordered by machine words: no dictionary, no view."""
    dtype = plain(values.type)
    values = values if values.type.equals(dtype) else values.cast(dtype)
    return pa.array(np.zeros(len(values), np.int8)) if pa.types.is_null(dtype) else unviewed(values)


def matched(
    node: Match, batches: Sequence[pa.RecordBatch], source: pa.Schema, output: pa.Schema
) -> list[pa.RecordBatch]:
    """The rows of `output` that the pattern of `node` makes of all rows of `source`."""
    rows = pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], source)
    names = [output_name(key) for key in node.keys]
    ids = np.zeros(rows.num_rows, np.int32)
    if names:
        table = GroupTable(pa.schema([source.field(name) for name in names]))
        ids = table.upsert(only(rows, names))
    order = in_order(node, rows, [pa.array(ids)])
    rows, ids = gathered(rows, order), ids[order]
    conditions = Conditions(node, source)
    conditions.rows = kept = TableRows(rows)
    program = conditions.program
    results = Results(node, program, source, output)
    cuts = np.flatnonzero(np.diff(ids, prepend=-1, append=-1)).tolist()
    masks = conditions.masks(rows.num_rows, _shifted(conditions.shifts, ids))
    times = event_times(rows, node.time).tolist() if node.within_us else masks
    found: list[pa.RecordBatch] = []
    some: list[tuple[Partition, Found]] = []
    for begin, end in pairwise(cuts):
        partition = Partition(range(begin, end), times[begin:end], masks[begin:end])
        matches = partition.advance(program, reached=0, ended=True)
        some += ((partition, match) for match in matches if not match.is_timeout)
        if len(some) >= _BATCH_ROWS:
            found.append(results.of(kept, some))
            some = []
    found.append(results.of(kept, some))
    return found


def _shifted(shifts: set[int], ids: Ints) -> dict[int, Ints]:
    """For each row the place of the one that lies so far from it in its partition, or -1."""
    n = len(ids)
    found = {}
    for shift in shifts:
        places = np.arange(n) + shift
        inside = (places >= 0) & (places < n)
        inside &= ids[np.clip(places, 0, max(n - 1, 0))] == ids
        found[shift] = np.where(inside, places, -1)
    return found
