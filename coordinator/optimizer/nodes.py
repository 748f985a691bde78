"""What rules ask of nodes.

One job: small copies that keep the path, so that an error still names the node the user wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from fabric.coordinator.optimizer.expressions import conjoin
from fabric.plan.expr import Expr
from fabric.plan.join import output_columns
from fabric.plan.nodes import Filter, Join, Node
from fabric.plan.schema import schema_of


def moved_filter(node: Filter, source: Node, parts: Sequence[Expr]) -> Node:
    """`node` with only `parts`, over another input."""
    return replace(node, input=source, predicate=conjoin(parts))


def filtered(node: Filter, source: Node, kept: Sequence[Expr]) -> Node:
    """What stays above: `node` with `kept` over `source`, or just `source` when nothing is kept."""
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
    columns = output_columns(join, schema_of(join.left), schema_of(join.right))
    left = {column.name: column.source for column in columns if not column.right}
    return left, {column.name: column.source for column in columns if column.right}
