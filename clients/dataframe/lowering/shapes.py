"""Rows into columns and columns into rows: explode, unnest, pivot and unpivot.

Several lists are exploded side by side, as one list of structs.

A pivot is one aggregate a value and column, over null where the row is of another value; a column
whose value has no row in the group is null, whatever the aggregate:

    Aggregate(k; sum(when(m == "x").then(v)) as x, sum(when(m == "y").then(v)) as y)
      X

An unpivot explodes a list of the values with its positions, which say the names:

    Select(k, when(at == 0).then("x")… as variable, values as value)
      Explode(values, position at)
        WithColumns(array(x, y) as values)
          X
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from fabric.clients.dataframe.expressions.literal import PythonValue, to_literal
from fabric.clients.dataframe.lowering.aggregates import aggregate
from fabric.clients.dataframe.names import call_text
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.faults import quoted
from fabric.plan.mend import free_name
from fabric.plan.schema import schema_of
from fabric.plan.types import common_type, is_list, plain
from fabric.plan.walk import fold, with_expr_children


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


_NULL = plan.Literal(None, pa.null())
_KEEPS_NULLS = ("first", "last")
_NEVER_NULL = (
    "count", "count_if", "count_distinct", "approx_distinct", "collect",
)  # fmt: skip


def value_name(value: PythonValue) -> str:
    """What the column of a pivoted value is called.

    >>> value_name("x"), value_name(None), value_name(True), value_name(1.5)
    ('x', 'null', 'true', '1.5')
    """
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def pivoted(
    source: nodes.Node,
    keys: tuple[plan.Expr, ...],
    on: str,
    columns: Sequence[tuple[str, Any, plan.Expr]],
) -> nodes.Node:
    """One row a group of `keys`; `columns` are a name, a value of `on` and an aggregate each."""
    if not columns:
        raise PlanError("pivot needs at least one value")
    exprs = [plan.Alias(_where(expr, _is_value(on, value)), name) for name, value, expr in columns]
    return aggregate(source, keys, exprs)


def _is_value(on: str, value: Any) -> plan.Expr:
    column = plan.Column(on)
    if value is None:
        return plan.Call("is_null", (column,))
    return plan.Call("eq", (column, to_literal(value)))


def _where(expr: plan.Expr, test: plan.Expr) -> plan.Expr:
    """`expr` over the rows where `test` is true only, null where there are none."""
    inner = expr.input if isinstance(expr, plan.Alias) else expr

    def one(part: plan.Expr, below: tuple[plan.Expr, ...]) -> plan.Expr:
        if isinstance(part, plan.Agg):
            return _over_test(part, test)
        return with_expr_children(part, below)

    return fold(inner, one)


def _over_test(agg: plan.Agg, test: plan.Expr) -> plan.Expr:
    n_rows = plan.Agg("count_if", test)
    if agg.function in _KEEPS_NULLS:  # the nulls of other rows must not be taken for values
        agg = replace(agg, function="any_value")
    if agg.function == "count" and agg.input is None:
        limited = n_rows
    elif agg.function in ("min_by", "max_by"):  # rows without `by` are left out
        (by,) = agg.args
        limited = replace(agg, args=(plan.Case(((test, by),), _NULL),))
    else:
        assert agg.input is not None
        limited = replace(agg, input=plan.Case(((test, agg.input),), _NULL))
    if agg.function not in _NEVER_NULL:
        return limited
    some = plan.Call("gt", (n_rows, plan.Literal(0, pa.int32())))
    return plan.Case(((some, limited),), _NULL)


def unpivoted(
    source: nodes.Node, on: Sequence[str], index: Sequence[str], named: tuple[str, str]
) -> nodes.Node:
    """A row for each row of `source` and name of `on`."""
    if not on:
        raise PlanError('unpivot needs a column, for example unpivot(["x", "y"], index="id")')
    for name in named:
        if name in index:
            raise PlanError(
                f"unpivot would put out two columns called {quoted(name)}; give another "
                "variable_name or value_name"
            )
    if named[0] == named[1]:
        raise PlanError("unpivot needs two different names, variable_name and value_name")
    schema = schema_of(source)
    values = tuple(plan.Cast(plan.Column(n), _common(schema, on, index)) for n in on)
    listed = free_name("__values", schema.names)
    place = free_name("__place", schema.names)
    node: nodes.Node = nodes.WithColumns(
        source, (plan.Alias(plan.Call("array", values), listed),), path="unpivot_*/values"
    )
    node = nodes.Explode(node, listed, False, place, path="unpivot_*/rows")
    kept = tuple(plan.Column(name) for name in index)
    which = plan.Alias(_name_at(plan.Column(place), on), named[0])
    value = plan.Alias(plan.Column(listed), named[1])
    return nodes.Select(node, (*kept, which, value), path="unpivot_*")


def _common(schema: pa.Schema, on: Sequence[str], index: Sequence[str]) -> pa.DataType:
    found = schema.field(on[0]).type
    for name in on[1:]:
        dtype = schema.field(name).type
        common = common_type(found, dtype)
        if common is None:
            fits = [n for n in on if common_type(found, schema.field(n).type) is not None]
            line = call_text("unpivot", fits, index=list(index) or None)
            raise PlanError(
                f"unpivot needs columns of one type: {quoted(on[0])} is {found} and {quoted(name)} "
                f"is {dtype}; cast one of them, or write: {line}"
            )
        found = common
    return found


def _name_at(place: plan.Expr, names: Sequence[str]) -> plan.Expr:
    """The name whose position is `place`."""
    branches = tuple(
        (
            plan.Call("eq", (place, plan.Literal(i, pa.int32()))),
            plan.Literal(name, pa.string()),
        )
        for i, name in enumerate(names)
    )
    if len(branches) == 1:
        return branches[0][1]
    return plan.Case(branches[:-1], branches[-1][1])
