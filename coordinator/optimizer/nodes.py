"""What rules ask of nodes.

One job: small copies that keep the path, so that an error still names the node the user wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from fabric.coordinator.optimizer.expressions import conjoin, named
from fabric.plan.expr import Column, Expr, output_name
from fabric.plan.node import remember_schema
from fabric.plan.nodes import (
    Aggregate,
    Filter,
    Join,
    Node,
    Scan,
    Select,
    Sort,
    StreamJoin,
    UpdatingJoin,
    WithColumns,
)
from fabric.plan.nodes.join import JoinColumn, condition_columns, output_columns
from fabric.plan.schema import schema_of
from fabric.plan.walk import map_exprs, with_exprs


def moved_filter(node: Filter, source: Node, parts: Sequence[Expr]) -> Node:
    """`node` with only `parts`, over another input."""
    moved = replace(node, input=source, predicate=conjoin(parts))
    remember_schema(moved, schema_of(source))
    return moved


def filtered(node: Filter, source: Node, kept: Sequence[Expr]) -> Node:
    """What stays above: `node` with `kept` over `source`, or just `source` when nothing is kept.

    `source` puts out what the filter did.
    """
    remember_schema(source, schema_of(node))
    return moved_filter(node, source, kept) if kept else source


def exact_columns(schema: pa.Schema) -> list[str]:
    """Columns in which equal values are the same value: no float can be inside."""
    return [field.name for field in schema if _is_exact(field.type)]


def _is_exact(dtype: pa.DataType) -> bool:
    if isinstance(dtype, pa.DictionaryType):
        return _is_exact(dtype.value_type)
    if dtype.num_fields:
        return all(_is_exact(dtype.field(i).type) for i in range(dtype.num_fields))
    return not pa.types.is_floating(dtype)


def join_names(join: Join) -> tuple[dict[str, str], dict[str, str]]:
    """By output name: the column of the left side, and that of the right side."""
    return _by_side(output_columns(join, schema_of(join.left), schema_of(join.right)))


def map_values(node: Node, change: Callable[[Expr, pa.Schema], Expr]) -> Node:
    """`node` with `change(expr, schema)` in place of each expression; names of columns stay.

    Join keys are left alone: two of one name become one column. `node` itself when none changes.
    """
    match node:
        case Scan(predicate=predicate, schema=schema) if predicate is not None:
            return with_exprs(node, (change(predicate, schema),))
        case Filter() | Sort():
            schema = schema_of(node.input)
            return map_exprs(node, lambda expr: change(expr, schema))
        case Select() | WithColumns() | Aggregate():
            schema = schema_of(node.input)
            return map_exprs(
                node,
                lambda expr: (
                    expr if isinstance(expr, Column) else _renamed(expr, change(expr, schema))
                ),
            )
        case Join(condition=condition) if condition is not None:
            found = change(condition, condition_schema(node))
            return node if found is condition else replace(node, condition=found)
        case StreamJoin() | UpdatingJoin() if node.condition is not None:
            found = change(node.condition, condition_schema(node.as_join))
            return node if found is node.condition else replace(node, condition=found)
        case _:
            return node


def _renamed(before: Expr, after: Expr) -> Expr:
    return before if after is before else named(after, output_name(before))


def condition_schema(join: Join) -> pa.Schema:
    """The columns that the condition of a join may read."""
    columns = condition_columns(join, schema_of(join.left), schema_of(join.right))
    return pa.schema([(column.name, column.dtype) for column in columns])


def condition_names(join: Join) -> tuple[dict[str, str], dict[str, str]]:
    """By the name in the condition: the column of the left side, and that of the right side."""
    return _by_side(condition_columns(join, schema_of(join.left), schema_of(join.right)))


def _by_side(columns: Iterable[JoinColumn]) -> tuple[dict[str, str], dict[str, str]]:
    left = {column.name: column.source for column in columns if not column.right}
    return left, {column.name: column.source for column in columns if column.right}
