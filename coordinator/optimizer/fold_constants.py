"""Constants computed once, before anything runs.

    Filter(a < 60 * 60)        Filter(a < 3600)
      X                   =>     X

Valid for what reads no column, has no user's function in it and can't fail or didn't: a failing
constant stays, to fail when there is a row for it. The evaluator is given, and is the one that
tasks use. A constant may give a call around it other types (a decimal's digits): then it stays too.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from fabric.coordinator.optimizer.nodes import map_values
from fabric.errors import PlanError
from fabric.plan.expr import Agg, Alias, Call, Column, Expr, Literal, Over, Udf, children
from fabric.plan.functions import signature
from fabric.plan.nodes import Node
from fabric.plan.schema import type_of
from fabric.plan.walk import walk_expr, with_expr_children

Evaluate = Callable[[Expr], Literal | None]
"""The value of an expression without columns, or None when it raises."""


def fold_constants(evaluate: Evaluate, node: Node) -> Node:
    """Fold in every expression of a node; `node` itself when there is nothing to do."""
    return map_values(node, lambda expr, schema: folded(expr, schema, evaluate))


def folded(expr: Expr, schema: pa.Schema, evaluate: Evaluate) -> Expr:
    """`expr` with constants for its largest constant parts; itself when there are none."""
    done: dict[int, Expr] = {}
    parts = list(walk_expr(expr))
    constant: dict[int, bool] = {}
    for part in parts:
        constant[id(part)] = not isinstance(part, Column | Agg | Over | Udf | Alias) and all(
            constant[id(child)] for child in children(part)
        )
    if not any(constant[id(part)] for part in parts if not isinstance(part, Literal)):
        return expr
    for part in parts:
        if constant[id(part)]:
            done[id(part)] = part
            continue
        below = [_value(child, constant, evaluate, done) for child in children(part)]
        done[id(part)] = _with(part, below, [done[id(c)] for c in children(part)], schema)
    return _value(expr, constant, evaluate, done)


def _value(
    part: Expr, constant: dict[int, bool], evaluate: Evaluate, done: dict[int, Expr]
) -> Expr:
    if not constant[id(part)] or isinstance(part, Literal):
        return done[id(part)]
    return evaluate(part) or part


def _with(part: Expr, folded_: list[Expr], plain: list[Expr], schema: pa.Schema) -> Expr:
    """`part` over folded children, if a call takes them as it took the others."""
    found = with_expr_children(part, folded_)
    if found is part or not isinstance(part, Call):
        return found
    types = [type_of(child, schema) for child in plain]
    try:
        before, after = (signature(part.function, types, _literals(c)) for c in (plain, folded_))
    except PlanError:  # a constant that the function refuses
        return with_expr_children(part, plain)
    return found if before == after else with_expr_children(part, plain)


def _literals(exprs: list[Expr]) -> list[Literal | None]:
    return [expr if isinstance(expr, Literal) else None for expr in exprs]
