"""Sorts: of all rows in one task, and what the tasks of a sort over several do first.

One job: the three phases. "single" sorts by computed key columns, which are dropped afterwards.
"sample" puts out the keys of some rows, "place" finds the range of every row among the samples of
all tasks; the rows then go to the task of their range, which sorts them alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import datafusion
import pyarrow as pa

from fabric.errors import InternalError
from fabric.operators.fragment.keys import normalised
from fabric.operators.fragment.ranges import Ranges
from fabric.operators.fragment.relation import Output, Relation, select
from fabric.operators.fragment.scan import Tables
from fabric.plan.nodes import Sort, StageInput
from fabric.plan.schema import schema_of, type_of
from fabric.plan.sort import WEIGHT
from fabric.plan.types import plain

Collect = Callable[[datafusion.DataFrame], list[pa.RecordBatch]]
SAMPLE = 4096
"""Keys that each task shows to all: ranges are then even to a few percent."""


def lower_sort(node: Sort, below: Sequence[Relation], tables: Tables, collect: Collect) -> Relation:
    """`node` over its lowered inputs."""
    match node.phase:
        case "sample":
            return _sample(node, tables)
        case "place":
            return _place(node, below[0], _rows(below[1], collect))
        case _:
            return _sorted(node, below[0])


def _sorted(node: Sort, source: Relation) -> Relation:
    kept = [datafusion.col(name) for name in source.inner]
    keys, order = [], []
    for key in node.keys:
        name, dtype = source.names.fresh(), type_of(key.input, source.schema)
        keys.append(normalised(source.expr(key.input), dtype).alias(name))
        column = datafusion.col(name)
        order.append(column.sort(ascending=not key.descending, nulls_first=not key.nulls_last))
    return source.over(source.df.select(*kept, *keys).sort(*order).select(*kept))


def _sample(node: Sort, tables: Tables) -> Relation:
    """The keys of rows at even distances, and for how many rows each stands."""
    if not isinstance(node.input, StageInput):
        raise InternalError("only rows that have arrived can be sampled")
    rows = tables.sampled(node.input, SAMPLE)
    *keys, weight = schema_of(node)
    stands_for = max(1, int(tables.n_rows(node.input)) // SAMPLE)
    outputs = [
        Output(rows.expr(key.input), field.name, field.type)
        for key, field in zip(node.keys, keys, strict=True)
    ]
    whole = datafusion.lit(pa.scalar(stands_for, weight.type))
    return select(rows.df, [*outputs, Output(whole, weight.name, weight.type)], rows.names)


def _rows(relation: Relation, collect: Collect) -> pa.Table:
    """All rows of a relation, under user names."""
    names = [f'"{name}"' for name in relation.inner]
    arrays = [batch.columns for batch in collect(relation.df.select(*names))]
    batches = [pa.RecordBatch.from_arrays(columns, schema=relation.schema) for columns in arrays]
    return pa.Table.from_batches(batches, relation.schema)


def _place(node: Sort, source: Relation, samples: pa.Table) -> Relation:
    """The rows and the number of each one's range."""
    ranges = Ranges(samples.drop_columns([WEIGHT]), samples[WEIGHT], node.keys, node.n_ranges)
    types = [plain(type_of(key.input, source.schema)) for key in node.keys]
    find = datafusion.udf(ranges.of, types, pa.int32(), "volatile", "fabric_range")
    keys = [source.expr(key.input).cast(dtype) for key, dtype in zip(node.keys, types, strict=True)]
    field = schema_of(node)[-1]
    made = Output(find(*keys), field.name, field.type)
    return select(source.df, [*source.outputs(), made], source.names)
