"""Any aggregate over frames: each different frame as a group of its own.

One job: `grouped`. The rows of frames are put one after another with the frame's number beside, and
aggregated by it as any group is, some millions at a time. O(rows of all different frames).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import datafusion
import numpy as np
import pyarrow as pa

from fabric.operators.fragment.aggregate import lower_aggregate
from fabric.operators.fragment.aggregates.segments import Ints, offsets_of, segment_ids
from fabric.operators.fragment.scan import Tables
from fabric.operators.fragment.windows.bounds import Frames
from fabric.operators.fragment.windows.inputs import as_table, is_setting
from fabric.plan.expr import Agg, Alias, Column, Expr
from fabric.plan.nodes import Aggregate, StageInput
from fabric.plan.schema import schema_of

Collect = Callable[[datafusion.DataFrame], list[pa.RecordBatch]]
_ROWS_AT_ONCE = 1 << 22
_FRAME = "frame"


def grouped(agg: Agg, args: pa.Table, frames: Frames, tables: Tables, collect: Collect) -> pa.Array:
    """`agg` over each frame of rows of `args`, its arguments but the constants."""
    begin, end = frames
    new = (np.diff(begin, prepend=-1) != 0) | (np.diff(end, prepend=-1) != 0)
    first, last = begin[new], end[new]
    work = _Groups(_over_columns(agg), args, tables, collect)
    parts, ids = [work.nothing()], [np.array([-1])]
    for low, high in _chunks(last - first):
        found = work.some(first[low:high], last[low:high])
        ids.append(found[0] + low)
        parts.append(found[1])
    place = np.zeros(len(first), np.int64)
    known = np.concatenate(ids)
    place[known[1:]] = np.arange(1, len(known))
    answers = pa.chunked_array(parts).combine_chunks()
    return answers.take(pa.array(place[np.cumsum(new) - 1]))


def _over_columns(agg: Agg) -> Agg:
    """The same aggregate of columns "0", "1", ..."""
    if agg.input is None:
        return agg
    numbers = count(1)
    args = tuple(
        arg if is_setting(agg, i) else Column(f"{next(numbers)}")
        for i, arg in enumerate(agg.args, 1)
    )
    return Agg(agg.function, Column("0"), args)


def _chunks(lengths: Ints) -> Iterator[tuple[int, int]]:
    """Runs of frames of about so many rows in all."""
    ends, low = np.cumsum(lengths), 0
    while low < len(lengths):
        done = ends[low - 1] if low else 0
        high = int(np.searchsorted(ends, done + _ROWS_AT_ONCE, side="right"))
        high = max(high, low + 1)
        yield low, high
        low = high


class _Groups:
    def __init__(self, agg: Agg, args: pa.Table, tables: Tables, collect: Collect) -> None:
        self._agg, self._tables, self._collect = agg, tables, collect
        self._args = args.append_column(_FRAME, pa.nulls(args.num_rows, pa.int64()))

    def nothing(self) -> pa.Array:
        """The answer for no rows."""
        (answer,) = self._run(self._args.slice(0, 0), ())
        return answer

    def some(self, begin: Ints, end: Ints) -> tuple[Ints, pa.Array]:
        """Numbers of the frames that have rows, and their answers."""
        lengths = end - begin
        offsets = offsets_of(lengths)
        ids = segment_ids(offsets)
        rows = np.arange(offsets[-1]) + (begin - offsets[:-1])[ids]
        taken = self._args.drop_columns([_FRAME]).take(pa.array(rows))
        found, answers = self._run(taken.append_column(_FRAME, pa.array(ids)), (Column(_FRAME),))
        return found.to_numpy(), answers

    def _run(self, rows: pa.Table, keys: tuple[Expr, ...]) -> list[pa.Array]:
        node = Aggregate(StageInput(0, rows.schema), keys, (Alias(self._agg, "answer"),))
        with self._tables.scratch(rows.schema, rows.to_batches()) as relation:
            made = lower_aggregate(node, relation, schema_of(node))
            df = made.df.select(*(datafusion.col(name) for name in made.inner))
            table = as_table(self._collect(df), df)
        return [column.combine_chunks() for column in table.columns]
