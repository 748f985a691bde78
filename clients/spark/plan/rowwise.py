"""Filter, select and with_columns on Spark: nodes that look at one row at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from fabric.clients.spark.plan.relation import Relation, guarded
from fabric.operators.expressions.predicates import filter_expr
from fabric.plan.expr import Column, Expr, output_name
from fabric.plan.nodes import Select, WithColumns

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


def filtered(source: Relation, predicate: Expr) -> Relation:
    """The rows of `source` for which `predicate` is true.

    Its conditions are taken from the left while they are true. Spark's AND would look at its right
    side where the left one is null too; one that can raise is spelt as a CASE.
    """
    scope = source.scope()
    if not scope.can_raise(predicate):
        return source.over(source.df.filter(scope.unguarded(predicate)))
    staged = filter_expr(predicate, source.schema)
    return source.over(source.df.filter(guarded(scope.unguarded(staged))))


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
