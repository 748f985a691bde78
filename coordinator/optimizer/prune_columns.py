"""Read, compute and send only columns that somebody needs.

    Select(a)                 Select(a)
      Join(k)                   Join(k)
        Scan(a, b, k)    =>       Scan(a, k)
        WithColumns(f as c)       Scan(k)
          Scan(k, d)

Valid because a column that nobody reads can't change a row; what is left keeps its order. Unlike
the other rules it looks at the whole plan: a node shared by two parents keeps what either needs.
Join sides, exchanges, sorts and unions also lose what only the node below them needed.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from fabric.coordinator.optimizer.passes import Note
from fabric.plan.expr import Column, output_name
from fabric.plan.node import Names, remember_schema
from fabric.plan.nodes import (
    Aggregate,
    Exchange,
    Filter,
    Join,
    Limit,
    Node,
    Scan,
    Select,
    Sort,
    Window,
    WithColumns,
)
from fabric.plan.nodes.join import output_columns
from fabric.plan.schema import is_known, schema_of
from fabric.plan.walk import walk


def prune_columns(root: Node, note: Note) -> Node:
    """Prune the plan below `root`, whose columns all stay; `root` itself when all are needed."""
    order = list(walk(root))
    required, needs = _required(root, order)
    done: dict[int, Node] = {}
    for node in order:
        children = tuple(
            _narrowed(node, child, done[id(child)], wanted, note)
            for child, wanted in zip(node.children, needs[id(node)], strict=True)
        )
        over = node.with_children(children)
        pruned = over.without_unwanted(required[id(node)])
        if pruned is not node:
            _remember_schema(pruned, schema_of(node))
        done[id(node)] = over if pruned is over else note(over, pruned)
    return done[id(root)]


def _required(
    root: Node, order: list[Node]
) -> tuple[dict[int, Names], dict[int, tuple[Names, ...]]]:
    """What each node must put out, and what it needs of each child; parents come first."""
    needs: dict[int, tuple[Names, ...]] = {}
    required: dict[int, Names] = {id(root): frozenset(schema_of(root).names)}
    for node in reversed(order):
        mine = required[id(node)] = _at_least_one(required[id(node)], schema_of(node))
        needs[id(node)] = _child_needs(node, mine)
        for child, wanted in zip(node.children, needs[id(node)], strict=True):
            required[id(child)] = required.get(id(child), frozenset()) | wanted
    return required, needs


def _child_needs(node: Node, mine: Names) -> tuple[Names, ...]:
    """What a node that must put out `mine` needs of each child; all, for what puts rows aside."""
    schemas = tuple(map(schema_of, node.children))
    if node.side_schemas(pa.schema([])):
        return tuple(frozenset(schema.names) for schema in schemas)
    needs = node.needs(mine, *schemas)
    return tuple(map(_at_least_one, needs, schemas))


def _remember_schema(node: Node, before: pa.Schema) -> None:
    """Keep what `node` puts out, of the columns `before`: their types need no second inference."""
    match node:
        case _ if is_known(node):
            return
        case Filter(input=source) | Sort(input=source) | Limit(input=source):
            remember_schema(node, schema_of(source))
        case Exchange(input=source):
            remember_schema(node, schema_of(source))
        case Scan(columns=kept) if kept is not None:
            remember_schema(node, _part_of(before, kept))
        case Select(exprs=exprs):
            remember_schema(node, _part_of(before, map(output_name, exprs)))
        case Aggregate(keys=keys, aggs=aggs):
            remember_schema(node, _part_of(before, map(output_name, (*keys, *aggs))))
        case WithColumns(replace=True):
            return  # a column has its old type back when what replaced it is gone
        case WithColumns(input=source, exprs=exprs) | Window(input=source, exprs=exprs):
            added = [before.field(output_name(expr)) for expr in exprs]
            remember_schema(node, pa.schema([*schema_of(source), *added]))
        case Join(left=left, right=right):
            columns = output_columns(node, schema_of(left), schema_of(right))
            remember_schema(node, pa.schema([(column.name, column.dtype) for column in columns]))


def _part_of(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """The fields of `schema` that are called so."""
    wanted = frozenset(names)
    if wanted.issuperset(schema.names):
        return schema
    return pa.schema([field for field in schema if field.name in wanted])


def _narrowed(parent: Node, child: Node, pruned: Node, wanted: Names, note: Note) -> Node:
    """`pruned` with just what `parent` wants of it, where rows may travel."""
    if not parent.HOLDS_ROWS:
        return pruned
    before = schema_of(pruned)
    schema = _part_of(before, wanted)
    if schema is before:
        return pruned
    select = Select(pruned, tuple(map(Column, schema.names)), path=f"{child.path}/columns")
    remember_schema(select, schema)
    return note(pruned, select)


def _at_least_one(names: Names, schema: pa.Schema) -> Names:
    """`names`, or the cheapest column when there is none: rows without columns can't travel."""
    if names or not schema.names:
        return names
    return frozenset((min(schema, key=_width).name,))


def _width(field: pa.Field) -> int:
    try:
        return int(field.type.bit_width)
    except ValueError:
        return 1 << 20
