"""Rollup, cube and grouping sets: an aggregate for each set of keys, one below the other.

    Union
      Select(a, b, total)               Select(a, null as b, total)      …
        Aggregate(a, b; total)            Aggregate(a; total)
          X                                 X (shared)

``grouping_id()`` and ``grouping(key)`` are constants in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pyarrow as pa

from fabric.clients.dataframe.lowering.aggregates import aggregate
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.faults import listed, quoted
from fabric.plan.printer import expr_text
from fabric.plan.schema import schema_of, type_of
from fabric.plan.walk import fold, walk_expr, with_expr_children

KeySet = tuple[bool, ...]
"""By key whether it is grouped by."""
KEYS_MAX = 12


def rollup_sets(n_keys: int) -> tuple[KeySet, ...]:
    """All keys, all but the last, …, none.

    >>> rollup_sets(1)
    ((True,), (False,))
    """
    return tuple(tuple(i < n for i in range(n_keys)) for n in range(n_keys, -1, -1))


def cube_sets(n_keys: int) -> tuple[KeySet, ...]:
    """Every subset of the keys, the largest first."""
    if n_keys > KEYS_MAX:
        raise PlanError(
            f"a cube of {n_keys} keys has {2**n_keys} sets; at most {KEYS_MAX} keys are allowed, "
            "use grouping_sets for the ones you need"
        )
    chosen = (c for size in range(n_keys, -1, -1) for c in combinations(range(n_keys), size))
    return tuple(tuple(i in one for i in range(n_keys)) for one in chosen)


def is_grouping(expr: plan.Expr) -> bool:
    """Whether ``grouping_id()`` or ``grouping(key)`` is anywhere in `expr`."""
    return any(_marker(part) for part in walk_expr(expr))


def aggregate_sets(
    source: nodes.Node,
    keys: tuple[plan.Expr, ...],
    exprs: Sequence[plan.Expr],
    sets: Sequence[KeySet],
) -> nodes.Node:
    """Group `source` by each of `sets` of `keys`; a key left out is null."""
    schema = schema_of(source)
    types = [type_of(key, schema) for key in keys]
    inputs = tuple(_one_set(source, keys, types, exprs, chosen) for chosen in sets)
    return nodes.Union(inputs)


def _one_set(
    source: nodes.Node,
    keys: tuple[plan.Expr, ...],
    types: Sequence[pa.DataType],
    exprs: Sequence[plan.Expr],
    chosen: KeySet,
) -> nodes.Node:
    here = tuple(key for key, wanted in zip(keys, chosen, strict=True) if wanted)
    aggs = [expr for expr in exprs if not _constant(expr)]
    filled = [_filled(expr, keys, chosen) for expr in aggs]
    node = aggregate(source, here, filled) if filled else _only_keys(source, here)
    out: list[plan.Expr] = []
    for key, dtype, wanted in zip(keys, types, chosen, strict=True):
        name = plan.output_name(key)
        null = plan.Alias(plan.Literal(None, dtype), name)
        out.append(plan.Column(name) if wanted else null)
    for expr in exprs:
        name = plan.output_name(expr)
        constant = _constant(expr)
        out.append(_filled(expr, keys, chosen, name) if constant else plan.Column(name))
    return nodes.Select(node, tuple(out), path="grouping_sets_*/select")


def _only_keys(source: nodes.Node, keys: tuple[plan.Expr, ...]) -> nodes.Node:
    """The groups, when nothing of their rows is asked for."""
    count = plan.Alias(plan.Agg("count", None), "__rows")
    return nodes.Aggregate(source, keys, (count,))


def _constant(expr: plan.Expr) -> bool:
    """Whether only grouping functions are in `expr`, so that it says nothing of the rows."""
    inner = [part for part in walk_expr(expr) if isinstance(part, plan.Agg)]
    return bool(inner) and all(map(_marker, inner))


def _marker(part: plan.Expr) -> bool:
    return isinstance(part, plan.Agg) and part.function in ("grouping_id", "grouping")


def _filled(
    expr: plan.Expr, keys: Sequence[plan.Expr], chosen: KeySet, name: str | None = None
) -> plan.Expr:
    """`expr` with constants for grouping functions, under `name` or as it was called."""
    if not is_grouping(expr):
        return expr
    inner = expr.input if isinstance(expr, plan.Alias) else expr

    def swap(part: plan.Expr, below: tuple[plan.Expr, ...]) -> plan.Expr:
        if not isinstance(part, plan.Agg) or not _marker(part):
            return with_expr_children(part, below)
        if part.function == "grouping_id":
            number = sum(1 << i for i, wanted in enumerate(reversed(chosen)) if not wanted)
            return plan.Literal(number, pa.int64())
        return plan.Literal(int(not chosen[_position(part, keys)]), pa.int8())

    return plan.Alias(fold(inner, swap), name or plan.output_name(expr))


def _position(part: plan.Agg, keys: Sequence[plan.Expr]) -> int:
    """Which key ``grouping(...)`` asks about."""
    for index, key in enumerate(keys):
        inner = key.input if isinstance(key, plan.Alias) else key
        if part.input in (inner, plan.Column(plan.output_name(key))):
            return index
    names = [plan.output_name(key) for key in keys]
    asked = "" if part.input is None else expr_text(part.input)
    raise PlanError(
        f"grouping asks about {asked}, which is not a key; the keys are {listed(names)}; write: "
        f"grouping({quoted(names[0]) if names else ''})"
    )
