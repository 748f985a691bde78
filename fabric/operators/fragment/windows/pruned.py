"""Rows that can be among the first of their partition.

One job: `pruned`, for windows of which a filter keeps only the first `n` rows of each partition.
Rows behind the n-th best of their partition may go. That costs two passes where sorting all rows
costs several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric._cython.kernels.top_rows import top_rows
from fabric.operators.fragment.aggregates.segments import Bools, Ints, order_keys, valid
from fabric.operators.fragment.relation import Relation
from fabric.operators.fragment.scan import Tables
from fabric.operators.fragment.windows.inputs import Inputs, as_table
from fabric.plan.expr import Over, SortKey
from fabric.plan.schema import type_of
from fabric.plan.types import is_nested, plain

Collect = Callable[[datafusion.DataFrame], list[pa.RecordBatch]]
ROWS_MIN = 200_000
"""Fewer rows are sorted faster than looked at twice."""
_INT64 = np.iinfo(np.int64)


def can_prune(over: Over, schema: pa.Schema) -> bool:
    """Whether the first order key is a number or time, and partitions can be told apart."""
    types = [plain(type_of(key, schema)) for key in over.partition_by]
    dtype = plain(type_of(over.order_by[0].input, schema))
    ordered = t.is_integer(dtype) or t.is_floating(dtype) or t.is_temporal(dtype)
    return ordered and not any(is_nested(each) or t.is_null(each) for each in types)


def pruned(source: Relation, over: Over, n: int, tables: Tables, collect: Collect) -> Relation:
    """Rows of `source`, all those among them that are one of the first `n` of their partition."""
    inputs = Inputs(source)
    partition = [inputs.key(key) for key in over.partition_by]
    order = inputs.key(over.order_by[0].input)
    df = inputs.frame()
    batches = collect(df)
    table = as_table(batches, df)
    kept = table.select(list(source.inner))
    if table.num_rows >= ROWS_MIN:
        keys = _best_last(table[order], over.order_by[0])
        mask = _may_be_first(_codes(table, partition), keys, n)
        kept = kept.filter(pa.array(mask))
    return tables.stored(source.schema, kept.rename_columns(source.schema.names).to_batches())


def _best_last(column: pa.ChunkedArray, order: SortKey) -> Ints:
    """Integers that are larger where the row comes earlier."""
    values = column.combine_chunks()
    values = values.cast(plain(values.type))
    some = valid(values)
    keys, _ = order_keys(values.drop_null())
    own = keys if order.descending else ~keys
    if len(own) == len(values):
        return own
    found = np.full(len(values), _INT64.min if order.nulls_last else _INT64.max, np.int64)
    found[some] = own
    return found


def _codes(table: pa.Table, names: Sequence[str]) -> Ints:
    """The number of each row's partition."""
    codes = np.zeros(table.num_rows, np.int64)
    for place, name in enumerate(names):
        column = table[name].cast(plain(table[name].type))
        own = _encoded(column)
        if place:
            own = _encoded(pa.chunked_array([codes * (int(own.max(initial=0)) + 1) + own]))
        codes = own
    return codes


def _encoded(column: pa.ChunkedArray) -> Ints:
    chunks = pc.dictionary_encode(column, null_encoding="encode").chunks
    indices = [chunk.indices.to_numpy() for chunk in chunks]
    return np.concatenate([*indices, np.array([], np.int64)]).astype(np.int64)


def _may_be_first(codes: Ints, keys: Ints, n: int) -> Bools:
    """Which rows are at least as good as their partition's n-th best."""
    n_groups = int(codes.max(initial=0)) + 1
    if n_groups * n * 2 > len(codes):
        return np.ones(len(codes), np.bool_)
    return top_rows(codes, keys, n_groups, n)
