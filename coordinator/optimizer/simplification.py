"""Expressions that say the same with less.

Constants are folded and conditions simplified in every expression of a node. A filter's condition
may lose more than others, because null counts as false there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from fabric.coordinator.optimizer.expressions import conjoin, conjuncts
from fabric.coordinator.optimizer.nodes import map_values
from fabric.coordinator.optimizer.structure import Structure
from fabric.errors import PlanError
from fabric.plan.expr import Agg, Alias, Call, Column, Expr, IsIn, Literal, Over, Udf, children
from fabric.plan.functions import signature
from fabric.plan.nodes import Filter, Limit, Node
from fabric.plan.schema import schema_of, type_of
from fabric.plan.total import total
from fabric.plan.walk import rewrite_expr, walk_expr, with_expr_children

Evaluate = Callable[[Expr], Literal | None]
"""The value of an expression without columns, or None when it raises."""

_OPPOSITE = {
    "eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt",
    "is_null": "is_not_null", "is_not_null": "is_null",
}  # fmt: skip
_LOGIC = ("not", "and", "or", "eq_null_safe")
TRUE, FALSE = (Literal(value, pa.bool_()) for value in (True, False))
_IF_VALID = ("eq", "le", "ge")
_NEVER = ("ne", "lt", "gt")


def fold_constants(evaluate: Evaluate, node: Node) -> Node:
    """Constants computed once, before anything runs.

        Filter(a < 60 * 60)        Filter(a < 3600)
          X                   =>     X

    Valid for what reads no column, has no user's function in it and can't fail or didn't: a failing
    constant stays, to fail when there is a row for it. The evaluator is given, and is the one that
    tasks use. A constant may give a call around it other types (a decimal's digits): then it stays
    too.

    Fold in every expression of a node; `node` itself when there is nothing to do.
    """
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


def simplify_logic(node: Node) -> Node:
    """Conditions without what says nothing.

        not (not a)  =>  a                a and true   =>  a          a and a         =>  a
        not (a < b)  =>  a >= b           a and false  =>  false      a and (a or b)  =>  a
        not is_null(a)  =>  is_not_null(a)                            (a and b) or (a and c)
        a in (1)     =>  a = 1            (or likewise)                 =>  a and (b or c)

    Valid in three-valued logic: each pair has the same value when parts of it are null, and NaN is
    a number like others, the largest. A part that can fail may vanish, but is not moved to rows on
    which it was not looked at.

    Simplify every condition of a node; `node` itself when there is nothing to do.
    """
    return map_values(node, simplified)


def simplified(expr: Expr, schema: pa.Schema) -> Expr:
    """`expr` with its conditions simplified; itself when there is nothing to do."""
    if not any(map(_is_logic, walk_expr(expr))):
        return expr
    found = rewrite_expr(expr, lambda part: _logic_part(part, schema))
    same = found is expr or not type_of(found, schema).equals(type_of(expr, schema))
    return expr if same else found


def _is_logic(part: Expr) -> bool:
    """Whether `_logic_part` may make something else of it."""
    return isinstance(part, IsIn) or (isinstance(part, Call) and part.function in _LOGIC)


def _logic_part(part: Expr, schema: pa.Schema) -> Expr:
    match part:
        case Call(function="not", args=(inner,)):
            return _negated(part, inner)
        case Call(function="and" | "or" as function, args=(left, right)):
            return _joined(part, function, left, right, schema)
        case Call(function="eq_null_safe", args=(inner, Literal(value=None))):
            return Call("is_null", (inner,))
        case IsIn(input=inner, values=(Literal() as value,)) if value.value is not None:
            return Call("eq", (inner, value))
        case _:
            return part


def _negated(part: Expr, inner: Expr) -> Expr:
    match inner:
        case Call(function="not", args=(twice,)):
            return twice
        case Call(function=function, args=args) if function in _OPPOSITE:
            return Call(_OPPOSITE[function], args)
        case Literal(value=bool() as value):
            return FALSE if value else TRUE
        case _:
            return part


def _joined(part: Expr, function: str, left: Expr, right: Expr, schema: pa.Schema) -> Expr:
    """``left and right`` or ``left or right``; `decides` is the value that needs no other side."""
    decides = function == "or"
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Literal) and isinstance(one.value, bool):
            return one if one.value is decides else other
    known = Structure()
    inverse = "and" if decides else "or"
    if known.same(left, right) or _holds(right, left, inverse, known):
        return left
    if _holds(left, right, inverse, known) and total(right, schema):
        return right
    return _factored(part, left, right, known, schema) if decides else part


def _holds(whole: Expr, part: Expr, function: str, known: Structure) -> bool:
    """Whether `whole` is ``part <function> something``."""
    match whole:
        case Call(function=name, args=args) if name == function:
            return any(known.same(arg, part) for arg in args)
        case _:
            return False


def _factored(part: Expr, left: Expr, right: Expr, known: Structure, schema: pa.Schema) -> Expr:
    """``(a and b) or (a and c)`` with `a` taken out."""
    lefts, rights = conjuncts(left), conjuncts(right)
    numbers = {known.expr(one) for one in rights}
    common = [one for one in lefts if known.expr(one) in numbers and total(one, schema)]
    if not common:
        return part
    taken = {known.expr(one) for one in common}
    is_left: Callable[[Expr], bool] = lambda one: known.expr(one) not in taken  # noqa: E731
    rests = [[one for one in side if is_left(one)] for side in (lefts, rights)]
    if not all(rests):
        return conjoin(common)
    return conjoin([*common, Call("or", (conjoin(rests[0]), conjoin(rests[1])))])


def simplify_filter(node: Node) -> Node:
    """Filters without what is always true, and none that never is.

        Filter(a = a and true)  =>  Filter(a is not null)        Filter(false)  =>  Limit(0)
          X                           X                            X                  X

    Valid because a filter keeps a row only where its predicate is true: null counts as false here,
    which it does not elsewhere. ``a = a`` is true for all but null (NaN equals itself).

    Simplify or drop one filter; `node` itself when there is nothing to do.
    """
    match node:
        case Filter(input=source, predicate=predicate):
            schema = schema_of(source)
            parts = conjuncts(predicate)
            found = _different([_filter_part(part, schema) for part in parts])
            if any(_is(part, FALSE) for part in found):
                return Limit(source, 0, path=node.path)
            kept = [part for part in found if not _is(part, TRUE)]
            if not kept:
                return source
            if len(kept) == len(parts) and all(map(operator.is_, kept, parts)):
                return node
            return replace(node, predicate=conjoin(kept))
        case _:
            return node


def _filter_part(part: Expr, schema: pa.Schema) -> Expr:
    match part:
        case Literal(value=value):
            return TRUE if value is True else FALSE
        case Call(function=function, args=(left, right)) if Structure().same(left, right):
            if function == "eq_null_safe":
                return TRUE
            if function in _IF_VALID and total(left, schema):
                return Call("is_not_null", (left,))
            return FALSE if function in _NEVER else part
        case Call(function=name, args=args) if name in (*_IF_VALID, *_NEVER) and any(
            isinstance(arg, Literal) and arg.value is None for arg in args
        ):
            return FALSE
        case _:
            return part


def _different(parts: list[Expr]) -> list[Expr]:
    """Each condition once."""
    known, seen, found = Structure(), set(), []
    for part in parts:
        if (number := known.expr(part)) not in seen:
            seen.add(number)
            found.append(part)
    return found


def _is(part: Expr, constant: Literal) -> bool:
    return isinstance(part, Literal) and part.value is constant.value
