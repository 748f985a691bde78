"""Lists and structs as rows and columns: several lists side by side, fields in a struct's place."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from fabric.clients.dataframe.names import call_text
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.faults import quoted
from fabric.plan.mend import free_name
from fabric.plan.schema import schema_of
from fabric.plan.types import is_list, plain


def exploded(source: nodes.Node, names: Sequence[str], outer: bool, position: str) -> nodes.Node:
    """A row for each place in the lists `names`."""
    if len(names) == 1:
        return nodes.Explode(source, names[0], outer, position)
    schema = schema_of(source)
    for name in names:
        dtype = schema.field(name).type
        if not is_list(dtype):
            others = [one for one in names if is_list(schema.field(one).type)]
            line = f"; write: {call_text('explode', *others)}" if others else ""
            raise PlanError(f"explode needs lists, and {quoted(name)} is {dtype}{line}")
    zipped = free_name("__zip", schema.names)
    pairs = (part for name in names for part in (_text(name), plan.Column(name)))
    side_by_side = plan.Alias(plan.Call("list_zip", tuple(pairs)), zipped)
    node: nodes.Node = nodes.WithColumns(source, (side_by_side,), path="explode_*/zip")
    node = nodes.Explode(node, zipped, outer, position, path="explode_*/rows")
    exprs: list[plan.Expr] = []
    for field in schema:
        value = plan.Call("struct_field", (plan.Column(zipped), _text(field.name)))
        column = plan.Column(field.name)
        exprs.append(plan.Alias(value, field.name) if field.name in names else column)
    if position:
        exprs.append(plan.Column(position))
    return nodes.Select(node, tuple(exprs), path="explode_*")


def unnested(source: nodes.Node, names: Sequence[str]) -> nodes.Node:
    """The fields of the structs `names` in their places."""
    schema = schema_of(source)
    exprs: list[plan.Expr] = []
    for field in schema:
        if field.name not in names:
            exprs.append(plan.Column(field.name))
            continue
        dtype = plain(field.type)
        if not pa.types.is_struct(dtype):
            structs = [f.name for f in schema if pa.types.is_struct(plain(f.type))]
            line = f"; write: {call_text('unnest', *structs)}" if structs else ""
            raise PlanError(f"unnest needs a struct, and {quoted(field.name)} is {dtype}{line}")
        for inner in dtype:
            value = plan.Call("struct_field", (plan.Column(field.name), _text(inner.name)))
            exprs.append(plan.Alias(value, inner.name))
    _refuse_doubles(exprs, names)
    return nodes.Select(source, tuple(exprs), path="unnest_*")


def _refuse_doubles(exprs: Sequence[plan.Expr], structs: Sequence[str]) -> None:
    names = [plan.output_name(expr) for expr in exprs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        line = call_text("rename", {twice: free_name(twice, names)})
        raise PlanError(
            f"unnest would put out two columns called {quoted(twice)}; rename the one that is "
            f"there before: {line}{call_text('unnest', *structs)}"
        )


def _text(value: str) -> plan.Literal:
    return plan.Literal(value, pa.string())
