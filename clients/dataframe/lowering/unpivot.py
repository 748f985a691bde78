"""Columns as rows: a list of their values, exploded with its positions, which say the names.

Select(k, when(at == 0).then("x")… as variable, values as value)
  Explode(values, position at)
    WithColumns(array(x, y) as values)
      X
"""

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
from fabric.plan.types import common_type


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
