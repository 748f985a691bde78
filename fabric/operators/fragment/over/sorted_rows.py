"""Window functions over sorted rows in memory.

One job: `store`. DataFusion sorts and numbers the rows, which are then kept; frames become ranges
of places in them. Sums, extremes and moments of floats are folded; every other aggregate is
`grouped`: the rows of each different frame are put one after another with the frame's number, and
aggregated by it as any group is, some millions at a time: O(rows of all different frames).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

import datafusion
import numpy as np
import pyarrow as pa

from fabric.operators.fragment.aggregate import lower_aggregate
from fabric.operators.fragment.aggregates import FORMS, Bound, Found
from fabric.operators.fragment.aggregates.segments import Ints, offsets_of, segment_ids
from fabric.operators.fragment.over.folds import Folded, folded
from fabric.operators.fragment.over.frames import Frames, Layout, distances, frames
from fabric.operators.fragment.over.inputs import (
    Inputs,
    as_table,
    distance_type,
    frame_of,
    is_setting,
    is_whole,
    over_text,
)
from fabric.operators.fragment.relation import Collect, Output, Relation, select
from fabric.operators.fragment.scan import Tables
from fabric.plan.expr import Agg, Alias, Column, Expr, Over, children
from fabric.plan.nodes import Aggregate, StageInput
from fabric.plan.schema import schema_of, type_of
from fabric.plan.types import plain


def store(
    source: Relation, overs: Sequence[tuple[Over, pa.Field]], tables: Tables, collect: Collect
) -> Relation:
    """`source` with `overs`, which have the same partitions and order, as columns after it."""
    rows = _Rows(source, overs, collect)
    made = [rows.column(over, field, index, tables) for index, (over, field) in enumerate(overs)]
    columns = [*rows.kept.columns, *(column for each in made for column in each.columns)]
    schema = pa.schema([(f"{i}", column.type) for i, column in enumerate(columns)])
    stored = tables.stored(schema, pa.Table.from_arrays(columns, schema=schema).to_batches())
    kept = Relation(stored.df, source.schema, stored.inner[: len(source.inner)], source.names)
    names = iter(stored.inner[len(rows.kept.columns) :])
    outputs = kept.outputs()
    for (over, field), each in zip(overs, made, strict=True):
        found = {kind: next(names) for kind in each.kinds}
        answer = _answer(over, field, each, found, stored)
        outputs.append(Output(answer, field.name, field.type))
    return select(stored.df, outputs, source.names)


def _answer(
    over: Over, field: pa.Field, made: Folded, names: Mapping[str, str], stored: Relation
) -> datafusion.Expr:
    """The stored column itself, or what the aggregate's form makes of its states."""
    if not made.is_state:
        return datafusion.col(names[made.kinds[0]])
    inner = tuple(names.values())
    schema = pa.schema([(n, stored.schema.field(stored.inner.index(n)).type) for n in inner])
    found = Found(names, Relation(stored.df, schema, inner, stored.names))
    bound = Bound(over.input, field.name, field.type, stored)
    return FORMS[over.input.function].result(bound, found)


class _Rows:
    """The rows in order, with the arguments of all functions."""

    def __init__(
        self, source: Relation, overs: Sequence[tuple[Over, pa.Field]], collect: Collect
    ) -> None:
        self._collect, self._schema = collect, source.schema
        first = overs[0][0]
        inputs = Inputs(source)
        self._args = [_arguments(inputs, over.input) for over, _ in overs]
        measured = [over for over, _ in overs if distance_type(over, source.schema)]
        self._key = ""
        if measured:
            dtype = distance_type(measured[0], source.schema)
            self._key = inputs.key(measured[0].order_by[0].input, dtype)
        clause = over_text(inputs, replace(first, frame=None))
        partition = [inputs.key(key) for key in first.partition_by]
        self._table = self._sorted(inputs, clause, partition)
        self.kept = self._table.select(list(source.inner)) if source.inner else self._table
        self._layout = Layout.of(self._ints("number"), self._ints("rank"))

    def _sorted(self, inputs: Inputs, clause: str, partition: Sequence[str]) -> pa.Table:
        df = inputs.frame()
        kept = [datafusion.col(name) for name in df.schema().names]
        numbers = [
            df.parse_sql_expr(f"{call} {clause}").alias(name)
            for call, name in (("row_number()", "number"), ("rank()", "rank"))
        ]
        df = df.select(*kept, *numbers)
        order = [datafusion.col(name).sort() for name in (*partition, "number")]
        df = df.sort(*order)
        return as_table(self._collect(df), df)

    def _ints(self, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        values = self._table[name].to_numpy().astype(np.int64)
        return np.ascontiguousarray(values)

    def frames(self, over: Over) -> Frames:
        """Where the frame of each row begins and ends."""
        frame = frame_of(over)
        if frame is None or distance_type(over, self._schema) is None:
            return frames(self._layout, frame, bool(over.order_by))
        key = self._table[self._key].combine_chunks()
        return distances(self._layout, frame, key, over.order_by[0])

    def column(self, over: Over, field: pa.Field, index: int, tables: Tables) -> Folded:
        """The answers of one function, or its states."""
        names = self._args[index]
        args = [self._table[name].combine_chunks() for name in names]
        begin, end = self.frames(over)
        if not is_whole(over):
            made = folded(over.input, args, (begin, end), field.type)
            if made is not None:
                return made
        named = pa.table(args, names=[f"{i}" for i in range(len(args))])
        answer = grouped(over.input, named, (begin, end), tables, self._collect)
        return Folded(("answer",), (answer,), is_state=False)


def _arguments(inputs: Inputs, agg: Agg) -> list[str]:
    """A column for each argument that may be one."""
    source = inputs.source
    args = [arg for i, arg in enumerate(children(agg)) if not is_setting(agg, i)]
    return [inputs.add(source.expr(a).cast(plain(type_of(a, source.schema)))) for a in args]


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
