"""Groups of rows with an end: `Aggregate`, and the columns of each of its phases.

A partial aggregate puts out its
keys and then state columns called ``"{i}.{kind}"`` for aggregate i; a key of that name (names may
hold anything) makes the state's name longer. The keys of "final" are columns of the partial output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import PlanError
from fabric.plan.columns import check_no_aggregates, check_unique, read_by, wanted_of
from fabric.plan.expr import Agg, Alias, Column, Expr, children, output_name
from fabric.plan.expr import Literal as Constant
from fabric.plan.faults import quoted
from fabric.plan.functions import AGGREGATES
from fabric.plan.infer import infer, infer_agg
from fabric.plan.mend import free_name, mended
from fabric.plan.node import Columns, Names, Node, Role, Unary
from fabric.plan.python import columns_text
from fabric.plan.schema import schema_of
from fabric.plan.stream import Stream, endless
from fabric.plan.types import bounded, is_groupable
from fabric.plan.walk import rewrite_expr, walk_expr

AggregatePhase = Literal["single", "partial", "final"]


@dataclass(frozen=True, slots=True)
class Aggregate(Unary):
    """Group by `keys` (none: one row) and compute `aggs` (`Agg` or `Alias` of `Agg`).

    `phase` is "single" in a logical plan. The planner splits it: "partial" puts out the keys and
    state columns, "final" merges those.
    """

    keys: tuple[Expr, ...]
    aggs: tuple[Expr, ...]
    phase: AggregatePhase = "single"

    WIRE: ClassVar[str] = "aggregate"
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("keys", "aggs")
    ROLE: ClassVar[Role] = "group"
    CHOICES: ClassVar[Mapping[str, tuple[object, ...]]] = {"phase": ("single",)}

    def output(self, *inputs: pa.Schema) -> Columns:
        """The keys, then results or states."""
        (schema,) = inputs
        if not self.keys and not self.aggs:
            raise PlanError("an aggregate needs a key or an aggregate, for example .agg(count())")
        if self.phase == "partial":
            return partial_columns(self, schema)
        self._check_aggregates(schema)
        for key in self.keys:
            check_no_aggregates((key,))
            dtype = infer(key, schema)
            if not is_groupable(dtype):
                name = quoted(output_name(key))
                raise PlanError(f"group_by can't compare values of {name}: {dtype}")
        if self.phase == "final":
            return final_columns(self, schema)
        columns = single_columns(self, schema)
        check_unique(self, (*self.keys, *self.aggs), set())
        return columns

    def _check_aggregates(self, schema: pa.Schema) -> None:
        """Refuse in `aggs` what is no aggregate: a column becomes a key, arithmetic goes above."""
        for expr in self.aggs:
            inner = expr.input if isinstance(expr, Alias) else expr
            if isinstance(inner, Agg):
                continue
            others = tuple(agg for agg in self.aggs if agg is not expr)
            if not any(isinstance(part, Agg) for part in walk_expr(inner)):
                infer(inner, schema)
                name = quoted(output_name(expr))
                keys = (*self.keys, expr)
                distinct = f".select({columns_text(keys)}).distinct()"
                line = replace(self, keys=keys, aggs=others) if others else distinct
                raise mended(
                    f"agg takes aggregates only, and {name} is not one; make it a key", line
                )
            raise self._with_arithmetic_after(expr, others)

    def _with_arithmetic_after(self, expr: Expr, others: tuple[Expr, ...]) -> PlanError:
        """The error for ``sum(a) / sum(b)`` in agg: aggregate first, compute after."""
        inner = expr.input if isinstance(expr, Alias) else expr
        aggs: list[Alias] = []

        def name_it(part: Expr) -> Expr:
            if not isinstance(part, Agg):
                return part
            plain = f"{output_name(part)}_{part.function}" if part.input is not None else "n"
            aggs.append(Alias(part, free_name(plain, [agg.name for agg in aggs])))
            return Column(aggs[-1].name)

        above = rewrite_expr(inner, name_it)
        after = Alias(above, expr.name if isinstance(expr, Alias) else "result")
        line = replace(self, aggs=(*others, *aggs)).text()
        return mended(
            "agg takes aggregates only, not arithmetic around them; compute it after",
            f"{line}.with_columns({columns_text((after,))})",
        )

    def keeping(self, name: str) -> Aggregate:
        """With the column as a key."""
        return replace(self, keys=(*self.keys, Column(name)))

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """What the keys and the wanted aggregates read."""
        return (read_by(self.keys) | read_by(wanted_of(self.aggs, wanted)),)

    def without_unwanted(self, wanted: Names) -> Node:
        """Only the wanted aggregates."""
        aggs = wanted_of(self.aggs, wanted)
        return self if aggs is self.aggs else replace(self, aggs=aggs)

    def stream(self, *below: Any) -> Stream:
        """Refused."""
        raise endless(
            "an aggregate of all its rows never comes",
            'write: .group_by(…).window("1 hour").agg(…)',
        )

    def text(self) -> str:
        """``.group_by("a").agg(count())``."""
        text = f".group_by({columns_text(self.keys)})" if self.keys else ""
        text += f".agg({columns_text(self.aggs)})"
        return text if self.phase == "single" else f"{text} {self.phase}"


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
    if isinstance(agg.input, Constant):
        return AGGREGATES["mean"].result(agg.input.dtype)
    precision = state.precision - 10 if state.precision < 38 else 38
    return bounded(precision + 4, state.scale + 4)


def partial_schema(node: Aggregate) -> pa.Schema:
    """What the partial phase of `node` puts out: keys, then state columns."""
    return pa.schema(partial_columns(node, schema_of(node.input)))
