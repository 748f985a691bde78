"""Filter, select and with_columns on Spark: nodes that look at one row at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from fabric.clients.spark.plan.relation import Relation, guarded
from fabric.operators.expressions.predicates import split_filter
from fabric.plan.expr import Column, Expr, output_name
from fabric.plan.nodes import Select, WithColumns

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


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


def projected(node: Select | WithColumns, source: Relation, schema: pa.Schema) -> Relation:
    """`node` over `source`; `schema` is what it puts out."""
    made = {output_name(expr): expr for expr in node.exprs}
    outputs: list[SparkColumn | str] = []
    for name in schema.names:
        expr = made.get(name, Column(name))
        kept = isinstance(expr, Column) and expr.name == name
        if kept:
            outputs.append(source.place(name))
        else:
            outputs.append(source.value(expr))
    return source.selected(outputs, schema)
