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

from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa

from fabric.coordinator.optimizer.nodes import condition_names, join_names
from fabric.coordinator.optimizer.rule import Note
from fabric.plan.expr import Column, Expr, columns_of, output_name
from fabric.plan.node import remember_schema
from fabric.plan.nodes import (
    Aggregate,
    AssignWindows,
    Changes,
    Deduplicate,
    Exchange,
    Explode,
    Filter,
    Join,
    Limit,
    LookupJoin,
    Node,
    Scan,
    Select,
    Sort,
    StreamAggregate,
    StreamScan,
    TopN,
    Union,
    Watermark,
    Window,
    WithColumns,
)
from fabric.plan.nodes.join import merged_keys, output_columns
from fabric.plan.schema import is_known, schema_of
from fabric.plan.walk import walk
from fabric.plan.windowing import WINDOW_END, WINDOW_START

Names = frozenset[str]


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
        pruned = _pruned(over, required[id(node)])
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
    """What a node that must put out `mine` needs from each child."""
    needs: tuple[Names, ...]
    match node:
        case Filter(predicate=predicate):
            needs = (mine | columns_of(predicate),)
        case Select(exprs=exprs):
            needs = (_read(_kept(exprs, mine) or exprs[:1]),)
        case WithColumns(input=source, exprs=exprs, replace=True):  # what is replaced has a place
            needs = ((mine & frozenset(schema_of(source).names)) | _read(_kept(exprs, mine)),)
        case WithColumns(exprs=exprs) | Window(exprs=exprs):
            needs = ((mine - set(map(output_name, exprs))) | _read(_kept(exprs, mine)),)
        case Explode(column=column, position=position):
            own = {position} if position else set()  # a column may be called ""
            needs = ((mine - own) | {column},)
        case Aggregate(keys=keys, aggs=aggs):
            needs = (_read(keys) | _read(_kept(aggs, mine) or aggs[:1]),)
        case Join():
            needs = _join_needs(node, mine)
        case Sort(keys=keys):
            needs = (mine | _read(key.input for key in keys),)
        case Exchange(keys=names):
            needs = (mine | frozenset(names),)
        case Limit():
            needs = (mine,)
        case Union(inputs=inputs):
            wanted = [i for i, name in enumerate(schema_of(node).names) if name in mine]
            return tuple(frozenset(schema_of(x).names[i] for i in wanted) for x in inputs)
        case _:
            needs = _stream_needs(node, mine)
    return tuple(
        _at_least_one(names, schema_of(child))
        for names, child in zip(needs, node.children, strict=True)
    )


def _stream_needs(node: Node, mine: Names) -> tuple[Names, ...]:
    """The same for the nodes of streams; everything for what puts rows aside, and for others."""
    every = tuple(frozenset(schema_of(child).names) for child in node.children)
    if node.side_schemas(pa.schema([])):
        return every
    match node:
        case Watermark(column=column):
            return (mine | {column},)
        case AssignWindows(time=time):
            return ((mine - {WINDOW_START, WINDOW_END}) | {time},)
        case StreamAggregate(keys=keys, aggs=aggs, time=time):
            return (_read(keys) | _read(_kept(aggs, mine) or aggs[:1]) | set(filter(None, [time])),)
        case Deduplicate(keys=keys, by=by):
            return (mine | _read(keys) | set(filter(None, [by])),)
        case TopN(keys=keys, by=order, rank=rank):
            return ((mine - {rank}) | _read(keys) | _read(key.input for key in order),)
        case LookupJoin():
            return _join_needs(node.as_join, mine)
        case Changes(column=column):
            return (mine - {column},)
        case _:
            return every


def _join_needs(join: Join, mine: Names) -> tuple[Names, Names]:
    left, right = join_names(join)
    from_right = {output: name for output, name in right.items() if output in mine}
    from_left = frozenset(left) & mine
    # without the left column of that name, the right one would lose its suffix
    twins = frozenset(name for out, name in from_right.items() if out != name) & frozenset(left)
    merged = merged_keys(join)  # in a full join of both sides, in a right join the right one's
    asked_left, asked_right = _asked(join)
    return (
        from_left | twins | asked_left | merged | _read(join.left_keys),
        frozenset(from_right.values()) | asked_right | merged | _read(join.right_keys),
    )


def _asked(join: Join) -> tuple[Names, Names]:
    """What the condition reads of each side, and left columns that make its names what they are."""
    if join.condition is None:
        return frozenset(), frozenset()
    left, right = condition_names(join)
    names = columns_of(join.condition)
    renamed = {left[right[name]] for name in names if name in right and right[name] in left}
    of_left = {left[name] for name in names if name in left}
    return frozenset(of_left | renamed), frozenset(right[name] for name in names if name in right)


def _pruned(node: Node, mine: Names) -> Node:
    """`node` over its pruned children, without what is not in `mine`."""
    match node:
        case StreamScan() if node.side_schemas(node.schema):
            return node  # whoever reads what it puts aside reads the same scan
        case Scan(schema=schema, columns=columns) | StreamScan(schema=schema, columns=columns):
            names = schema.names if columns is None else columns
            kept = tuple(name for name in names if name in mine)
            return node if len(kept) == len(names) else replace(node, columns=kept)
        case Select(exprs=exprs):
            return _with_exprs(exprs, mine, lambda kept: replace(node, exprs=kept), node)
        case WithColumns(input=source, exprs=exprs) | Window(input=source, exprs=exprs):
            if not _kept(exprs, mine):
                return source
            return _with_exprs(exprs, mine, lambda kept: replace(node, exprs=kept), node)
        case Explode(position=position) if position and position not in mine:
            return replace(node, position="")
        case Aggregate(aggs=aggs) | StreamAggregate(aggs=aggs):
            return _with_exprs(aggs, mine, lambda kept: replace(node, aggs=kept), node)
        case _:
            return node


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


def _with_exprs(
    exprs: tuple[Expr, ...], mine: Names, make: Callable[[tuple[Expr, ...]], Node], node: Node
) -> Node:
    kept = _kept(exprs, mine) or exprs[:1]
    return node if len(kept) == len(exprs) else make(kept)


def _narrowed(parent: Node, child: Node, pruned: Node, wanted: Names, note: Note) -> Node:
    """`pruned` with just what `parent` wants of it, where rows may travel."""
    if not isinstance(parent, Join | Exchange | Sort | Union | Window | LookupJoin):
        return pruned
    before = schema_of(pruned)
    schema = _part_of(before, wanted)
    if schema is before:
        return pruned
    select = Select(pruned, tuple(map(Column, schema.names)), path=f"{child.path}/columns")
    remember_schema(select, schema)
    return note(pruned, select)


def _kept(exprs: Iterable[Expr], mine: Names) -> tuple[Expr, ...]:
    return tuple(expr for expr in exprs if output_name(expr) in mine)


def _read(exprs: Iterable[Expr]) -> Names:
    return frozenset().union(*map(columns_of, exprs))


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
