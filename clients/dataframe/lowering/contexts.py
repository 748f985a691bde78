"""Sub-contexts: the items of a list as rows that know their parent, and back.

    gather                                            explode(items, context="item")
      Select(parent columns, items' lists)              Explode(items, position "item.position")
        Join(left, on item.parent, item.copy)             Window(row_number() over item.parent
          P                                                      as item.copy)
          Filter(first item), its lists                      WithColumns(hash(row) as item.parent)
            Window(collect over parent, by position)           X
              items

P, the parents with their identity, is read again by ``gather``, so every parent survives whatever
became of its items. ``item.parent`` is the hash of the whole row (the one that places rows), and
``item.copy`` numbers the rows of one hash in the order of all their columns: so two equal parents
are two, two that merely share a hash too, and every place gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from fabric.clients.dataframe.lowering.aggregates import has_aggregate
from fabric.clients.dataframe.lowering.over import has_window
from fabric.clients.dataframe.names import call_text
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.faults import listed, nearest, quoted
from fabric.plan.mend import free_name
from fabric.plan.printer import expr_text
from fabric.plan.schema import schema_of, type_of
from fabric.plan.types import is_comparable, is_list
from fabric.plan.walk import fold, walk, with_expr_children

_POSITION = ".position"
_COUNTS = ("count", "count_if", "count_distinct", "approx_distinct")
_WHOLE = plan.Frame("rows", None, None)


class Context(NamedTuple):
    """An open sub-context: its name and the step that entered it."""

    name: str
    explode: nodes.Explode

    @property
    def ids(self) -> tuple[str, str]:
        """The columns by which parents are told apart."""
        return f"{self.name}.parent", f"{self.name}.copy"

    @property
    def position(self) -> str:
        """The column that orders the items of a parent."""
        return self.name + _POSITION


def entered(source: nodes.Node, column: str, name: str) -> nodes.Node:
    """The items of the list `column` of `source`, as the sub-context `name`."""
    schema = schema_of(source)
    taken = [one for one in schema.names if one.startswith(name + ".")]
    if taken:
        raise PlanError(
            f"explode: there are columns {listed(taken)} already, a context called {quoted(name)} "
            f"needs them; write: {call_text('explode', column, context=name + '_2')}"
        )
    if not is_list(schema.field(column).type):
        lists = [field.name for field in schema if is_list(field.type)]
        line = f"; write: {call_text('explode', lists[0], context=name)}" if lists else ""
        raise PlanError(
            f"explode needs a list, and {quoted(column)} is {schema.field(column).type}{line}"
        )
    parent, copy = f"{name}.parent", f"{name}.copy"
    hashed = plan.Call("hash", tuple(plan.Column(one) for one in schema.names))
    node: nodes.Node = nodes.WithColumns(
        source, (plan.Alias(hashed, parent),), path=f"{_part(name)}_*/parent"
    )
    order = tuple(plan.SortKey(plan.Column(f.name)) for f in schema if is_comparable(f.type))
    order = order or (plan.SortKey(plan.Column(parent)),)
    over = plan.Over(plan.Agg("row_number", None), (plan.Column(parent),), order)
    node = nodes.Window(node, (plan.Alias(over, copy),), path=f"{_part(name)}_*/copy")
    return nodes.Explode(node, column, False, name + _POSITION, path=f"{_part(name)}_*/explode")


def gathered(items: nodes.Node, name: str, exprs: Sequence[plan.Expr]) -> nodes.Node:
    """One row a parent of the sub-context `name`, with lists of the items or `exprs` of them."""
    context = _found(items, name)
    _append_only(items, context)
    here = schema_of(items).names
    needed = context.ids if exprs else (*context.ids, context.position)
    lost = [one for one in needed if one not in here]
    if lost:
        raise PlanError(
            f"gather: a step in the context {quoted(name)} left out {listed(lost)}, by which items "
            f"find their parent; keep them: select({', '.join(map(quoted, lost))}, …)"
        )
    if exprs:
        return _with_aggregates(items, context, exprs)
    return _with_lists(items, context)


def _part(name: str) -> str:
    """`name` as a part of a path."""
    return "".join(c if c.isalnum() or c in "_-. " else "_" for c in name).strip() or "context"


def _found(items: nodes.Node, name: str) -> Context:
    entries = [
        node
        for node in walk(items)
        if isinstance(node, nodes.Explode) and node.position.endswith(_POSITION)
    ]
    mine = [node for node in entries if node.position == name + _POSITION]
    if len(mine) == 1:
        return Context(name, mine[0])
    if mine:
        raise PlanError(
            f"gather: rows of {len(mine)} contexts called {quoted(name)} meet here; gather each "
            "before they are put together"
        )
    names = [node.position.removesuffix(_POSITION) for node in entries]
    near = nearest(name, names)
    line = f"; write: .gather({quoted(near)})" if near else ""
    raise PlanError(
        f"gather: there is no context {quoted(name)} here; the contexts are {listed(names)}{line}"
    )


def _append_only(items: nodes.Node, context: Context) -> None:
    """Refuse a change of a parent's column inside the sub-context: it would be lost."""
    explode = context.explode
    parents = {*schema_of(explode.input).names} - {explode.column}
    below = {id(node) for node in walk(explode)}
    for node in walk(items):
        if id(node) in below or not isinstance(node, nodes.WithColumns | nodes.Select):
            continue
        for expr in node.exprs:
            name = plan.output_name(expr)
            changed = isinstance(expr, plan.Alias) and expr.input != plan.Column(name)
            if changed and name in parents and name in schema_of(node.input).names:
                raise PlanError(
                    f"gather: {quoted(name)} belongs to the parent and was changed in the context "
                    f"{quoted(context.name)}; give the item's value a name of its own: "
                    f".alias({quoted(free_name(name, parents))})"
                )


def _keys(context: Context) -> tuple[plan.Expr, ...]:
    return tuple(plan.Column(one) for one in context.ids)


def _with_lists(items: nodes.Node, context: Context) -> nodes.Node:
    """The items' columns as lists in the order of the items."""
    parents = context.explode.input
    parent_names = schema_of(parents).names
    own = [
        one
        for one in schema_of(items).names
        if one == context.explode.column or (one not in parent_names and one != context.position)
    ]
    keys, order = _keys(context), (plan.SortKey(plan.Column(context.position)),)
    lists = [
        plan.Alias(
            plan.Over(plan.Agg("collect", plan.Call("array", (plan.Column(one),))), keys, order,
                      _WHOLE),
            f"__list_{i}",
        )
        for i, one in enumerate(own)
    ]  # fmt: skip
    first = plan.Alias(plan.Over(plan.Agg("row_number", None), keys, order), "__place")
    path = f"gather_{_part(context.name)}_*"
    node: nodes.Node = nodes.Window(items, (*lists, first), path=f"{path}/window")
    one_each = plan.Call("eq", (plan.Column("__place"), plan.Literal(1, pa.int32())))
    node = nodes.Filter(node, one_each, path=f"{path}/first")
    flat = (
        plan.Alias(plan.Call("list_flatten", (plan.Column(f"__list_{i}"),)), f"__item_{i}")
        for i in range(len(own))
    )
    node = nodes.Select(node, (*keys, *flat), path=f"{path}/lists")
    joined = nodes.Join(parents, node, keys, keys, "left", path=f"{path}/join")
    types = schema_of(node)
    values = {
        one: _or_empty(f"__item_{i}", types.field(f"__item_{i}").type, context)
        for i, one in enumerate(own)
    }
    kept = [one for one in parent_names if one not in context.ids]
    exprs = [plan.Alias(values.pop(one), one) if one in values else plan.Column(one)
             for one in kept]  # fmt: skip
    added = [plan.Alias(value, one) for one, value in values.items()]
    return nodes.Select(joined, (*exprs, *added), path=path)


def _or_empty(name: str, dtype: pa.DataType, context: Context) -> plan.Expr:
    """The list, an empty one for a parent without items, null for one whose list was null."""
    empty = plan.Cast(plan.Call("array", ()), dtype)
    whole = plan.Call("coalesce", (plan.Column(name), empty))
    there = plan.Call("is_not_null", (plan.Column(context.explode.column),))
    return plan.Case(((there, whole),), plan.Literal(None, pa.null()))


def _with_aggregates(items: nodes.Node, context: Context, exprs: Sequence[plan.Expr]) -> nodes.Node:
    """`exprs` of the items beside the parent's columns."""
    parents = context.explode.input
    kept = [one for one in schema_of(parents).names if one not in context.ids]
    for expr in exprs:
        _refuse(expr, kept)
    found: dict[plan.Agg, str] = {}
    schema = schema_of(items)
    outer = [_above(expr, found, schema) for expr in exprs]
    aggs = tuple(plan.Alias(agg, name) for agg, name in found.items())
    path = f"gather_{_part(context.name)}_*"
    keys = _keys(context)
    node = nodes.Aggregate(items, keys, aggs, path=f"{path}/aggregate")
    joined = nodes.Join(parents, node, keys, keys, "left", path=f"{path}/join")
    kept_columns = (plan.Column(one) for one in kept)
    return nodes.Select(joined, (*kept_columns, *outer), path=path)


def _refuse(expr: plan.Expr, kept: Sequence[str]) -> None:
    name = plan.output_name(expr)
    if name in kept:
        raise PlanError(
            f"gather would overwrite {quoted(name)} of the parent; give it a name of its own: "
            f".alias({quoted(free_name(name, kept))})"
        )
    if not has_aggregate(expr) or has_window(expr):
        text = expr_text(expr)
        raise PlanError(
            f"gather: {text} has one value an item, not one a parent; aggregate it, for example "
            f"{text}.sum(), or gather without aggregates for lists"
        )


def _above(expr: plan.Expr, found: dict[plan.Agg, str], schema: pa.Schema) -> plan.Expr:
    """`expr` over columns that hold its aggregates: of no items counts are 0, lists empty."""
    name = plan.output_name(expr)

    def swap(part: plan.Expr, below: tuple[plan.Expr, ...]) -> plan.Expr:
        if not isinstance(part, plan.Agg):
            return with_expr_children(part, below)
        column = plan.Column(found.setdefault(part, f"__agg_{len(found)}"))
        if part.function in _COUNTS:
            return plan.Call("coalesce", (column, plan.Literal(0, pa.int64())))
        if part.function == "collect":
            empty = plan.Cast(plan.Call("array", ()), type_of(part, schema))
            return plan.Call("coalesce", (column, empty))
        return column

    inner = expr.input if isinstance(expr, plan.Alias) else expr
    return plan.Alias(fold(inner, swap), name)
