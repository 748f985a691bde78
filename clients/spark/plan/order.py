"""Sort, limit, distinct and union on Spark: nodes that look at all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from fabric.clients.spark.plan.relation import Relation, retyped
from fabric.plan.expr import Column, SortKey
from fabric.plan.nodes import Limit, Sort

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

ROWS_MAX = (1 << 31) - 1
"""The largest number Spark's limit and offset take."""


def ordered(name: str, key: SortKey) -> SparkColumn:
    """The Spark column `name` as a sort key like `key`."""
    from pyspark.sql import functions as sf

    column = sf.col(name)
    if key.descending:
        return column.desc_nulls_last() if key.nulls_last else column.desc_nulls_first()
    return column.asc_nulls_last() if key.nulls_last else column.asc_nulls_first()


def sort_columns(keys: Sequence[SortKey], source: Relation) -> tuple[Relation, list[str]]:
    """`source` with the computed keys beside it, and the names of all keys."""
    computed = [key for key in keys if not isinstance(key.input, Column)]
    relation, made = source.appended((source.value(key.input), "order") for key in computed)
    fresh = iter(made)
    names = [
        source.place(key.input.name) if isinstance(key.input, Column) else next(fresh)
        for key in keys
    ]
    return relation, names


def sorted_by(node: Sort, source: Relation) -> Relation:
    """All rows in order; key columns that are not the plan's are dropped again."""
    relation, names = sort_columns(node.keys, source)
    keys = [ordered(name, key) for name, key in zip(names, node.keys, strict=True)]
    df = relation.df.sort(*keys)
    return source.over(df if relation is source else df.select(*source.columns()))


def limited(node: Limit, source: Relation) -> Relation:
    """At most `n` rows after `offset`."""
    df = source.df.offset(node.offset) if node.offset else source.df
    return source.over(df.limit(node.n) if node.n <= ROWS_MAX else df)


def different(source: Relation) -> Relation:
    """Each different row once."""
    return source.over(source.df.distinct())


def stacked(inputs: Sequence[Relation], schema: pa.Schema) -> Relation:
    """All rows of all inputs, columns by position, in the types of `schema`."""
    parts = []
    for source in inputs:
        fields = zip(source.columns(), source.schema.types, schema.types, strict=True)
        parts.append(source.selected([retyped(*field) for field in fields], schema))
    df = parts[0].df
    for part in parts[1:]:
        df = df.unionAll(part.df)
    return parts[0].over(df)
