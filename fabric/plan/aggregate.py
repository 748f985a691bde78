"""What an aggregate puts out in each of its phases.

One job: the output columns of "single", "partial" and "final". A partial aggregate puts out its
keys and then state columns called ``"{i}.{kind}"`` for aggregate i; a key of that name (names may
hold anything) makes the state's name longer. The keys of "final" are columns of the partial output.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import PlanError
from fabric.plan.expr import Agg, Alias, Expr, Literal, children, output_name
from fabric.plan.functions import AGGREGATES
from fabric.plan.infer import infer, infer_agg
from fabric.plan.nodes import Aggregate
from fabric.plan.types import bounded

Columns = list[tuple[str, pa.DataType]]


@dataclass(frozen=True, slots=True)
class StateColumn:
    """One state column of aggregate `index`; `kind` is one of its function's kinds."""

    index: int
    kind: str
    name: str
    dtype: pa.DataType


def unaliased(expr: Expr) -> Agg:
    """The aggregate under an alias."""
    inner = expr.input if isinstance(expr, Alias) else expr
    assert isinstance(inner, Agg)
    return inner


def single_columns(node: Aggregate, schema: pa.Schema) -> Columns:
    """Keys and results over input `schema`; raises `ExprFault`."""
    keys = [(output_name(key), infer(key, schema)) for key in node.keys]
    return [*keys, *((output_name(agg), infer_agg(agg, schema)) for agg in node.aggs)]


def state_name(node: Aggregate, index: int, kind: str) -> str:
    """The name of a state column: the same in the partial and the final phase."""
    name = f"{index}.{kind}"
    keys = {output_name(key) for key in node.keys}
    while name in keys:
        name += "_"
    return name


def state_columns(node: Aggregate, schema: pa.Schema) -> list[StateColumn]:
    """The state columns of the partial phase of `node` over input `schema`."""
    found = []
    for index, expr in enumerate(node.aggs):
        agg = unaliased(expr)
        types = [infer(part, schema) for part in children(agg)]
        states = AGGREGATES[agg.function].states
        if states is None:
            raise PlanError(f"{agg.function} has no partial form; exchange the rows first")
        for kind, state in states(tuple(types)):
            found.append(StateColumn(index, kind, state_name(node, index, kind), state))
    return found


def partial_columns(node: Aggregate, schema: pa.Schema) -> Columns:
    """Keys, then states."""
    keys = [(output_name(key), infer(key, schema)) for key in node.keys]
    return [*keys, *((state.name, state.dtype) for state in state_columns(node, schema))]


def final_columns(node: Aggregate, schema: pa.Schema) -> Columns:
    """Keys and results over the partial output `schema`."""
    keys = [(output_name(key), infer(key, schema)) for key in node.keys]
    results = [
        (output_name(agg), _final_type(node, index, unaliased(agg), schema))
        for index, agg in enumerate(node.aggs)
    ]
    return [*keys, *results]


def _final_type(node: Aggregate, index: int, agg: Agg, schema: pa.Schema) -> pa.DataType:
    """The result type, from the state's type.

    A decimal mean of more than 27 digits can't be read off its state: there the planner gives the
    input's type as ``Agg("mean", Literal(None, dtype))``; without it the widest is taken.
    """
    found = AGGREGATES.get(agg.function)
    if found is None or found.states is None:
        raise PlanError(f"{agg.function} has no final form; exchange the rows on the keys first")
    name = state_name(node, index, found.kinds[0])
    position = schema.get_field_index(name)
    if position < 0:
        raise PlanError(f"the final aggregate finds no state column {name!r} in its input")
    state = schema.field(position).type
    match agg.function:
        case "approx_distinct":
            return pa.int64()
        case "approx_quantile":
            return state.value_type
        case "mean":
            return _final_mean(agg, state)
    return pa.float64() if found.kinds[0] == "count" and len(found.kinds) > 1 else state


def _final_mean(agg: Agg, state: pa.DataType) -> pa.DataType:
    if not t.is_decimal(state):
        return state
    if isinstance(agg.input, Literal):
        return AGGREGATES["mean"].result(agg.input.dtype)
    precision = state.precision - 10 if state.precision < 38 else 38
    return bounded(precision + 4, state.scale + 4)
