"""Rows that can be among the first of their partition.

One job: `pruned`, for windows of which a filter keeps only the first `n` rows of each partition.
Rows behind the n-th best of their partition may go: first behind the n-th best that a thread has
seen so far, while rows stream by, then behind the n-th best of what is left. That costs two passes
where sorting all rows costs several.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import count

import datafusion
import numpy as np
import pyarrow as pa
from pyarrow import types as t

from fabric._cython.kernels.take import take
from fabric._cython.kernels.top_rows import TopRows
from fabric._cython.shuffle.groups import Groups
from fabric.operators.expressions.arrow.frame import flat
from fabric.operators.expressions.datafusion import held
from fabric.operators.fragment.aggregates.segments import Bools, Ints, order_keys, valid
from fabric.operators.fragment.over.inputs import Inputs
from fabric.operators.fragment.pieces import estimated_groups
from fabric.operators.fragment.relation import Collect, Relation
from fabric.operators.fragment.scan import Tables
from fabric.plan.expr import Over, SortKey
from fabric.plan.schema import type_of
from fabric.plan.types import flat_type

ROWS_MIN = 200_000
"""Fewer rows are sorted faster than looked at twice; so many tell how many partitions there are."""
_INT64 = np.iinfo(np.int64)
_TOLD_APART = (
    t.is_boolean, t.is_decimal, t.is_string, t.is_large_string, t.is_binary, t.is_large_binary,
)  # fmt: skip
_NUMBERS = count()


def can_prune(over: Over, schema: pa.Schema) -> bool:
    """Whether the first order key is a number or time, and partitions can be told apart."""
    types = [flat_type(type_of(key, schema)) for key in over.partition_by]
    return _is_ordered(flat_type(type_of(over.order_by[0].input, schema))) and all(
        _is_ordered(dtype) or any(has(dtype) for has in _TOLD_APART) for dtype in types
    )


def _is_ordered(dtype: pa.DataType) -> bool:
    number = t.is_integer(dtype) or t.is_floating(dtype)
    return bool(number or (t.is_temporal(dtype) and not t.is_interval(dtype)))


def pruned(
    source: Relation, over: Over, n: int, tables: Tables, collect: Collect, *, n_rows: float
) -> Relation:
    """Of `source`, about `n_rows`, all rows that are one of the first `n` of their partition, and
    some others."""
    inputs = Inputs(source)
    used = [inputs.key(key) for key in (*over.partition_by, over.order_by[0].input)]
    df = inputs.frame()
    types = dict(zip(df.schema().names, df.schema().types, strict=True))
    screen = _Screen([types[name] for name in used], over.order_by[0], n, n_rows)
    df = screen.passing(df, used, source.names.fresh())
    batches = collect(df)
    if sum(batch.num_rows for batch in batches) >= max(1, ROWS_MIN) and not screen.is_useless:
        columns = [pa.concat_arrays([flat(b.column(name)) for b in batches]) for name in used]
        batches = list(_taken(batches, screen.best().among(columns)))
    return tables.stored(source.schema, [batch.select(list(source.inner)) for batch in batches])


def _taken(batches: Iterable[pa.RecordBatch], mask: Bools) -> Iterator[pa.RecordBatch]:
    """The rows where `mask` is true; Arrow's own filter does not take all types."""
    begin = 0
    for batch in batches:
        rows = np.flatnonzero(mask[begin : begin + batch.num_rows]).astype(np.uint32)
        columns = [take(column, rows) for column in batch.columns]
        begin += batch.num_rows
        yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)


class _Best:
    """The best rows of each partition so far; for one thread at a time."""

    def __init__(self, keys: pa.Schema, order: SortKey, n: int) -> None:
        self._keys, self._order = keys, order
        self._groups, self._top = Groups(keys), TopRows(n)
        self.n_rows = 0

    @property
    def n_groups(self) -> int:
        """How many partitions were seen."""
        return len(self._groups)

    def among(self, columns: Sequence[pa.Array]) -> Bools:
        """Which rows are no worse than the n-th best of their partition so far; the last of
        `columns` orders, the others tell partitions apart."""
        *keys, order = columns
        keys = keys or [pa.array(np.zeros(len(order), np.int8))]
        rows = pa.RecordBatch.from_arrays(list(map(flat, keys)), schema=self._keys)
        codes = self._groups.number(rows)
        self.n_rows += len(order)
        return self._top.among(codes, _best_last(order, self._order), self.n_groups)


class _Screen:
    """A condition on rows that stream by, on several threads."""

    def __init__(self, types: Sequence[pa.DataType], order: SortKey, n: int, n_rows: float) -> None:
        self._types, self._order, self._n, self._n_rows = types, order, n, n_rows
        keys = [flat_type(dtype) for dtype in types[:-1]] or [pa.int8()]
        self._keys = pa.schema([(f"{i}", dtype) for i, dtype in enumerate(keys)])
        self._idle: deque[_Best] = deque()
        self.is_useless = False
        """Whether partitions turned out so small that few rows would go."""

    def best(self) -> _Best:
        """One that has seen no rows."""
        return _Best(self._keys, self._order, self._n)

    def passing(
        self, df: datafusion.DataFrame, used: Sequence[str], name: str
    ) -> datafusion.DataFrame:
        """The rows of `df` that may be among the first; `name` is that of no column.

        The condition is a column of its own, so that it sees only what a filter below lets through.
        """
        screen = datafusion.udf(
            self._may_be_first, list(self._types), pa.bool_(), "volatile",
            f"fabric_first_{next(_NUMBERS)}",
        )  # fmt: skip
        columns = [datafusion.col(each) for each in df.schema().names]
        passes = screen(*(datafusion.col(each) for each in used)).alias(name)
        return df.select(*columns, passes).filter(held(datafusion.col(name))).select(*columns)

    def _may_be_first(self, *columns: pa.Array) -> pa.Array:
        """Each call has one `_Best` for itself: a row behind the n-th best of some is behind that
        of all."""
        if self.is_useless:
            return pa.array(np.ones(len(columns[0]), np.bool_))
        try:
            best = self._idle.pop()
        except IndexError:
            best = self.best()
        mask = best.among(columns)
        if best.n_rows >= ROWS_MIN:
            n_groups = estimated_groups(best.n_rows, best.n_groups)
            self.is_useless |= n_groups * self._n * 2 > self._n_rows
        self._idle.append(best)
        return pa.array(mask)


def _best_last(values: pa.Array, order: SortKey) -> Ints:
    """Integers that are larger where the row comes earlier."""
    values = flat(values)
    keys, _ = order_keys(values.drop_null())
    own = keys if order.descending else ~keys
    if len(own) == len(values):
        return np.ascontiguousarray(own)
    found = np.full(len(values), _INT64.min if order.nulls_last else _INT64.max, np.int64)
    found[valid(values)] = own
    return found
