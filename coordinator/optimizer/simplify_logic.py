"""Conditions without what says nothing.

    not (not a)  =>  a                a and true   =>  a          a and a         =>  a
    not (a < b)  =>  a >= b           a and false  =>  false      a and (a or b)  =>  a
    not is_null(a)  =>  is_not_null(a)                            (a and b) or (a and c)
    a in (1)     =>  a = 1            (or likewise)                 =>  a and (b or c)

Valid in three-valued logic: each pair has the same value when parts of it are null, and NaN is a
number like others, the largest. A part that can fail may vanish, but is not moved to rows on which
it was not looked at.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from fabric.coordinator.optimizer.expressions import conjoin, conjuncts
from fabric.coordinator.optimizer.nodes import map_values
from fabric.coordinator.optimizer.structure import Structure
from fabric.plan.expr import Call, Expr, IsIn, Literal
from fabric.plan.nodes import Node
from fabric.plan.schema import type_of
from fabric.plan.total import total
from fabric.plan.walk import rewrite_expr, walk_expr

_OPPOSITE = {
    "eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt",
    "is_null": "is_not_null", "is_not_null": "is_null",
}  # fmt: skip
_LOGIC = ("not", "and", "or", "eq_null_safe")
TRUE, FALSE = (Literal(value, pa.bool_()) for value in (True, False))


def simplify_logic(node: Node) -> Node:
    """Simplify every condition of a node; `node` itself when there is nothing to do."""
    return map_values(node, simplified)


def simplified(expr: Expr, schema: pa.Schema) -> Expr:
    """`expr` with its conditions simplified; itself when there is nothing to do."""
    if not any(map(_is_logic, walk_expr(expr))):
        return expr
    found = rewrite_expr(expr, lambda part: _part(part, schema))
    same = found is expr or not type_of(found, schema).equals(type_of(expr, schema))
    return expr if same else found


def _is_logic(part: Expr) -> bool:
    """Whether `_part` may make something else of it."""
    return isinstance(part, IsIn) or (isinstance(part, Call) and part.function in _LOGIC)


def _part(part: Expr, schema: pa.Schema) -> Expr:
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
