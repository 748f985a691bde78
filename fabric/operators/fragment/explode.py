"""Explode in DataFusion.

One job: `lower_explode`. DataFusion's unnest drops null lists or makes a row of each, and always
drops empty ones; with `outer` those become null before. Positions are a second list of the same
lengths.
"""

from __future__ import annotations

from collections.abc import Callable

import datafusion
import numpy as np
import pyarrow as pa
from datafusion import functions as f
from pyarrow import types as t

from fabric.operators.fragment.relation import Output, Relation, select
from fabric.operators.row_operators import lengths_of, plain_lists, positions_of
from fabric.plan.nodes import Explode
from fabric.plan.types import plain


def lower_explode(node: Explode, source: Relation, schema: pa.Schema) -> Relation:
    """`node` over `source`; `schema` is what it puts out."""
    index = source.schema.get_field_index(node.column)
    dtype = plain(source.schema.field(index).type)
    lists = source.column(node.column)
    if not t.is_list(source.schema.field(index).type):
        lists = _applied(_as_lists, lists, source.schema.field(index).type, dtype.value_type)
    if node.outer:
        lists = f.when(f.array_length(lists) > datafusion.lit(0), lists).end()
    names = source.names.fresh(), source.names.fresh()
    fields = zip(source.inner, source.schema.types, strict=True)
    kept = [_repeated(name, kind) for name, kind in fields if name != source.inner[index]]
    made = [lists.alias(names[0])]
    if node.position:
        own = pa.list_(dtype.value_type)
        made.append(_applied(_positions, lists, own, pa.int32()).alias(names[1]))
    unnested = names[: len(made)]
    df = source.df.select(*kept, *made).unnest_columns(*unnested, preserve_nulls=node.outer)
    outputs = source.outputs()
    outputs[index] = Output(datafusion.col(names[0]), node.column, schema.field(index).type)
    if node.position:
        outputs.append(Output(datafusion.col(names[1]), node.position, pa.int32()))
    return select(df, outputs, source.names)


def _repeated(name: str, dtype: pa.DataType) -> datafusion.Expr:
    """A column that comes out once for each element.

    DataFusion 55 takes keys of an aggregate below for unique above an unnest too, and then drops
    the elements from a distinct; it does not see through a call.
    """
    same = datafusion.udf(lambda values: values, [dtype], dtype, "immutable", "fabric_repeated")
    return same(datafusion.col(name)).alias(name)


def _applied(
    function: Callable[[pa.Array], pa.Array],
    lists: datafusion.Expr,
    dtype: pa.DataType,
    element: pa.DataType,
) -> datafusion.Expr:
    """`function`, which makes lists of `element`s."""
    name = f"fabric_explode{function.__name__}"
    return datafusion.udf(function, [dtype], pa.list_(element), "immutable", name)(lists)


def _as_lists(lists: pa.Array) -> pa.Array:
    """The same lists in the usual layout."""
    lists = plain_lists(lists)
    return _lists(lists, lists.flatten())


def _positions(lists: pa.Array) -> pa.Array:
    """The places of the elements of each list."""
    return _lists(lists, pa.array(positions_of(lengths_of(lists)), pa.int64()).cast(pa.int32()))


def _lists(like: pa.Array, values: pa.Array) -> pa.Array:
    """`values` in lists as long as those of `like`."""
    offsets = pa.array(np.append(0, np.cumsum(lengths_of(like))), pa.int32())
    return pa.ListArray.from_arrays(offsets, values, mask=like.is_null())
