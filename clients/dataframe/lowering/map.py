"""Functions of whole tables, by functions of arrays and an explode.

    Select(fields of rows)                   Select(fields of rows)
      Explode(rows)                            Explode(rows)
        Select(function(struct) as rows)         Select(function(group) as rows)
          X                                        Aggregate(keys, collect(struct) as group)
                                                     X

One job: ``map_batches`` and ``map_groups``; and ``map_async``, which has a node of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from inspect import iscoroutinefunction
from typing import Any, NamedTuple, TypeAlias, cast, get_args

import pyarrow as pa

from fabric.clients.dataframe.durations import Length, us
from fabric.clients.dataframe.expressions.expr import Expr
from fabric.clients.dataframe.expressions.literal import SchemaLike, to_dtype
from fabric.clients.dataframe.expressions.udf import UserFunction, own_object
from fabric.clients.dataframe.names import choice, number, whole
from fabric.errors import PlanError
from fabric.operators.functions.table_functions import MappedBatches, MappedGroups
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.mend import free_name
from fabric.plan.schema import schema_of
from fabric.plan.stream import OnBad

AsyncFunction: TypeAlias = Callable[[Any], Awaitable[Any]]
_ROWS = "rows"


def map_batches(source: nodes.Node, function: Callable[..., Any], schema: SchemaLike) -> nodes.Node:
    """`source` through `function`, batch by batch."""
    declared = _declared(function, schema, "map_batches")
    called = MappedBatches(function, declared, "map_batches")
    return _exploded(source, _structs(source), called, declared, "map_batches")


def map_groups(
    source: nodes.Node,
    keys: tuple[plan.Expr, ...],
    function: Callable[..., Any],
    schema: SchemaLike,
) -> nodes.Node:
    """`source` through `function`, group by group."""
    declared = _declared(function, schema, "map_groups")
    called = MappedGroups(function, declared, "map_groups")
    group = free_name("group", [plan.output_name(key) for key in keys])
    collected = plan.Alias(plan.Agg("collect", _structs(source)), group)
    grouped = nodes.Aggregate(source, keys, (collected,), path="map_groups_*/aggregate")
    return _exploded(grouped, plan.Column(group), called, declared, "map_groups")


class CallSettings(NamedTuple):
    """What a user says of the calls of ``map_async``."""

    capacity: int
    capacity_bytes: int
    ordered: bool
    timeout: Length
    retry: int
    backoff: Length
    rate: float | None
    batch: int | None
    on_error: OnBad


def map_async(
    source: nodes.Node,
    function: AsyncFunction,
    schema: SchemaLike,
    keep: tuple[str, ...],
    given: CallSettings,
) -> nodes.Node:
    """`source` through the asynchronous `function`, row by row or some at once."""
    name = getattr(function, "__name__", type(function).__name__)
    if isinstance(function, type):
        raise PlanError(
            f"map_async takes a function, and {name} is a class; write: map_async({name}(…), …)"
        )
    if not (iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)):
        raise PlanError(
            f"map_async awaits its function, and {_shown(function, name)} is not asynchronous; "
            f"write: async def {name if name.isidentifier() else 'f'}(row): …, with "
            "await asyncio.to_thread(…) around what blocks"
        )
    verb = "map_async"
    if given.rate == 0:
        raise PlanError("map_async: with rate=0 nothing is called; leave rate out for any rate")
    return nodes.MapAsync(
        source, own_object(function, name), _declared(function, schema, verb), keep,
        capacity=whole(given.capacity, 1, verb, "capacity"),
        capacity_bytes=whole(given.capacity_bytes, 1, verb, "capacity_bytes"),
        ordered=bool(given.ordered),
        timeout_us=us(given.timeout, "timeout", least=1),
        retries=whole(given.retry, 0, verb, "retry"),
        backoff_us=us(given.backoff, "backoff", least=1),
        rate_per_s=0.0 if given.rate is None else number(given.rate, verb, "rate"),
        batch=0 if given.batch is None else whole(given.batch, 1, verb, "batch"),
        on_error=cast(OnBad, choice(given.on_error, get_args(OnBad), verb, "on_error")),
    )  # fmt: skip


def _shown(function: object, name: str) -> str:
    return name if callable(function) and name.isidentifier() else repr(function)[:80]


def _structs(source: nodes.Node) -> plan.Expr:
    """Each row of `source` as one struct."""
    pairs = (
        (plan.Literal(name, pa.string()), plan.Column(name)) for name in schema_of(source).names
    )
    return plan.Call("struct", tuple(part for pair in pairs for part in pair))


def _exploded(
    source: nodes.Node, rows: plan.Expr, function: Any, schema: pa.Schema, verb: str
) -> nodes.Node:
    lists = UserFunction(function, pa.list_(pa.struct(list(schema))), "arrow")
    made = plan.Alias(lists(Expr(rows)).node, _ROWS)
    node: nodes.Node = nodes.Select(source, (made,), path=f"{verb}_*/function")
    node = nodes.Explode(node, _ROWS, path=f"{verb}_*/explode")
    fields = (
        plan.Alias(
            plan.Call("struct_field", (plan.Column(_ROWS), plan.Literal(name, pa.string()))), name
        )
        for name in schema.names
    )
    return nodes.Select(node, tuple(fields), path=f"{verb}_*")


def _declared(function: Any, schema: Any, verb: str) -> pa.Schema:
    """The columns that come out."""
    if not callable(function):
        raise PlanError(f"{verb} takes a function of a table, got {function!r}")
    if isinstance(schema, Mapping):
        schema = pa.schema([(name, to_dtype(dtype)) for name, dtype in schema.items()])
    if not isinstance(schema, pa.Schema) or not schema.names:
        raise PlanError(
            f'{verb} needs the columns that come out: schema={{"total": "int64"}}, or an Arrow '
            f"schema; got {schema!r}"
        )
    return schema
