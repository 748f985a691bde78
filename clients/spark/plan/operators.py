"""Filter, select, with_columns, explode, sort, limit, distinct and union on Spark.

One job: nodes that are a call or two of PySpark's. Joins, aggregates and window functions have a
file each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from fabric.clients.spark.connection import plainly_each
from fabric.clients.spark.plan.relation import Relation, guarded, retyped
from fabric.clients.spark.plan.rows import inside_schema, restored_batches
from fabric.clients.spark.types import arrow_schema, conform
from fabric.operators.chain import row_by_row
from fabric.operators.expressions.predicates import split_filter
from fabric.operators.functions.trust import functions_of, vouch
from fabric.plan.expr import Column, Expr, SortKey, output_name
from fabric.plan.node import Unary
from fabric.plan.nodes import Explode, Limit, Select, Sort, StageInput, Union, WithColumns
from fabric.plan.schema import schema_of


def filtered(source: Relation, predicate: Expr) -> Relation:
    """The rows of `source` for which `predicate` is true.

    Its conditions are taken from the left while they are true. The first ones that can't raise are
    a filter of their own, which Spark may move. Spark's AND would look at its right side where the
    left one is null too; so the others, from the first one on that can raise, are a CASE.
    """
    scope = source.scope()
    leading, staged = split_filter(predicate, source.schema)
    df = source.df if leading is None else source.df.filter(scope.unguarded(leading))
    if staged is not None:
        df = df.filter(guarded(scope.unguarded(staged)))
    return source.over(df)


def projected(node: Select | WithColumns, source: Relation) -> Relation:
    """`node` over `source`."""
    schema = schema_of(node)
    made = {output_name(expr): expr for expr in node.exprs}
    outputs = [
        source.place(name)
        if made.get(name, Column(name)) == Column(name)
        else source.value(made[name])
        for name in schema.names
    ]
    return source.selected(outputs, schema)


def exploded(node: Explode, source: Relation) -> Relation:
    """`node` over `source`."""
    schema = schema_of(node)
    index = source.schema.get_field_index(node.column)
    element, position = source.names.fresh(node.column), source.names.fresh("position")
    explode = sf.posexplode_outer if node.outer else sf.posexplode
    rows = source.df.select(
        *source.columns(), explode(source.column(node.column)).alias(position, element)
    )
    inner = [*source.inner[:index], element, *source.inner[index + 1 :]]
    if node.position:
        inner.append(position)
    return Relation(rows.select(*map(sf.col, inner)), schema, tuple(inner), source.names)


def by_operator(node: Unary, source: Relation) -> Relation:
    """`node`, which looks at each row alone, by the operator of agents in the workers of Spark."""
    schema = schema_of(node)
    inner = tuple(map(source.names.fresh, schema.names))
    # Rows without columns do not come through Spark's workers, so each has one more.
    extra = source.names.fresh("row")
    struct = inside_schema(schema.append(pa.field(extra, pa.bool_())), [*inner, extra])
    step = replace(node, input=StageInput(0, source.schema))
    given = source.df.select(*source.columns(), sf.lit(True).alias(extra))
    rows = given.mapInArrow(_RowByRow(step, arrow_schema(struct)), struct)
    return Relation(rows.select(*map(sf.col, inner)), schema, inner, source.names)


@dataclass(frozen=True)
class _RowByRow:
    """Spark sends it to its workers."""

    node: Unary
    wanted: pa.Schema

    @plainly_each
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for udf in functions_of(self.node):  # Spark's own way brought them here
            vouch(udf.payload)
        given = (batch.select(batch.schema.names[:-1]) for batch in batches)
        for made in row_by_row(self.node, restored_batches(given, schema_of(self.node.input))):
            extra = pa.repeat(True, made.num_rows)
            columns = [*made.columns, extra]
            yield conform(pa.RecordBatch.from_arrays(columns, self.wanted.names), self.wanted)


ROWS_MAX = (1 << 31) - 1
"""The largest number Spark's limit and offset take."""


def ordered(name: str, key: SortKey) -> SparkColumn:
    """The Spark column `name` as a sort key like `key`."""
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


def stacked(node: Union, *inputs: Relation) -> Relation:
    """All rows of all inputs, columns by position, in the types that `node` puts out."""
    schema, parts = schema_of(node), []
    for source in inputs:
        fields = zip(source.columns(), source.schema.types, schema.types, strict=True)
        parts.append(source.selected([retyped(*field) for field in fields], schema))
    df = parts[0].df
    for part in parts[1:]:
        df = df.unionAll(part.df)
    return parts[0].over(df)
