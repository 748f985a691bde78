"""Filters without what is always true, and none that never is.

    Filter(a = a and true)  =>  Filter(a is not null)        Filter(false)  =>  Limit(0)
      X                           X                            X                  X

Valid because a filter keeps a row only where its predicate is true: null counts as false here,
which it does not elsewhere. ``a = a`` is true for all but null (NaN equals itself).
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from fabric.coordinator.optimizer.expressions import conjoin, conjuncts
from fabric.coordinator.optimizer.simplify_logic import FALSE, TRUE
from fabric.coordinator.optimizer.structure import Structure
from fabric.plan.expr import Call, Expr, Literal
from fabric.plan.nodes import Filter, Limit, Node
from fabric.plan.schema import schema_of
from fabric.plan.total import total

_IF_VALID = ("eq", "le", "ge")
_NEVER = ("ne", "lt", "gt")


def simplify_filter(node: Node) -> Node:
    """Simplify or drop one filter; `node` itself when there is nothing to do."""
    match node:
        case Filter(input=source, predicate=predicate):
            schema = schema_of(source)
            parts = conjuncts(predicate)
            found = _different([_part(part, schema) for part in parts])
            if any(_is(part, FALSE) for part in found):
                return Limit(source, 0, path=node.path)
            kept = [part for part in found if not _is(part, TRUE)]
            if not kept:
                return source
            if len(kept) == len(parts) and all(map(_same_object, kept, parts)):
                return node
            return replace(node, predicate=conjoin(kept))
        case _:
            return node


def _part(part: Expr, schema: pa.Schema) -> Expr:
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


def _same_object(one: Expr, other: Expr) -> bool:
    return one is other
