"""Joins on Spark.

One job: a `Join` node of any kind. Keys are columns of their own on both sides, in one type; Spark
takes NaN for equal to NaN and -0.0 for 0.0 there, as the plan does. A condition that can raise must
only be looked at for pairs whose keys are equal, but Spark moves what reads one side below the
join; so it is spelt as a CASE over something of both sides.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from fabric.clients.spark.plan.relation import Relation, Scope, retyped
from fabric.operators.expressions.predicates import filter_expr
from fabric.plan.expr import Expr
from fabric.plan.nodes import Join
from fabric.plan.nodes.join import condition_columns, key_types, output_columns
from fabric.plan.schema import schema_of

_HOW = {
    "inner": "inner", "left": "left_outer", "right": "right_outer", "full": "full_outer",
    "semi": "left_semi", "anti": "left_anti", "cross": "cross",
}  # fmt: skip
_BROADCAST = frozenset(("inner", "left", "semi", "anti"))


def joined(node: Join, left: Relation, right: Relation) -> Relation:
    """`node` over both sides."""
    schema = schema_of(node)
    if set(left.inner) & set(right.inner):
        right = right.renamed()
    types = key_types(node, left.schema, right.schema)
    left_side, left_keys = _with_keys(left, node.left_keys, types)
    right_side, right_keys = _with_keys(right, node.right_keys, types)
    if node.condition is not None and not types:
        left_side, left_keys = left_side.appended([_something()])
        right_side, right_keys = right_side.appended([_something()])
    pairs = [sf.col(a) == sf.col(b) for a, b in zip(left_keys, right_keys, strict=True)]
    on = pairs if types else []
    if node.condition is not None:
        on = [*on, _condition(node, node.condition, left, right, reduce(and_, pairs))]
    right_df = right_side.df
    if node.strategy == "broadcast" and node.how in _BROADCAST:
        right_df = sf.broadcast(right_df)
    if on:
        df = left_side.df.join(right_df, reduce(and_, on), _HOW[node.how])
    else:
        df = left_side.df.crossJoin(right_df)
    both = Relation(df, schema, (), left.names)
    return both.selected(_outputs(node, left, right), schema)


def _with_keys(
    side: Relation, keys: tuple[Expr, ...], types: list[pa.DataType]
) -> tuple[Relation, list[str]]:
    values = zip(keys, types, strict=True)
    return side.appended((side.value(key, dtype), "key") for key, dtype in values)


def _something() -> tuple[SparkColumn, str]:
    """A column whose value the optimizer does not know: true."""
    return sf.spark_partition_id() >= 0, "true"


def _condition(
    node: Join, condition: Expr, left: Relation, right: Relation, matched: SparkColumn
) -> SparkColumn:
    """The condition over the columns of both sides; for `matched` pairs only if it can raise."""
    columns = condition_columns(node, left.schema, right.schema)
    schema = pa.schema([(column.name, column.dtype) for column in columns])
    inner = {column.name: (right if column.right else left).place(column.source)
             for column in columns}  # fmt: skip
    scope = Scope(schema, inner)
    if not scope.can_raise(condition):
        return scope.unguarded(condition)
    return sf.when(matched, scope.unguarded(filter_expr(condition, schema)))


def _outputs(node: Join, left: Relation, right: Relation) -> list[SparkColumn | str]:
    outputs: list[SparkColumn | str] = []
    for column in output_columns(node, left.schema, right.schema):
        side = right if column.right else left
        if column.merged is None:
            outputs.append(side.place(column.source))
            continue
        given = left.schema.field(column.source).type, right.schema.field(column.merged).type
        sides = left.column(column.source), right.column(column.merged)
        outputs.append(
            sf.coalesce(*(retyped(s, g, column.dtype) for s, g in zip(sides, given, strict=True)))
        )
    return outputs
