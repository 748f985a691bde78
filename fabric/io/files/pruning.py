"""Which part of a predicate may decide about row groups by their statistics.

One job: turn the conjuncts ``column op constant`` whose column is an integer, string, binary,
boolean or date of the constant's own type into an Arrow expression. Floats never: statistics leave
NaN out, which is the largest value here. The filter itself always runs afterwards.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.plan.expr import Call, Column, Expr, IsIn, Literal

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_MIRRORED = {"eq": "eq", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def pruning_filter(predicate: Expr | None, schema: pa.Schema) -> pc.Expression | None:
    """What rows of a useful row group must satisfy, or None when nothing is known."""
    if predicate is None:
        return None
    parts = [found for part in _conjuncts(predicate) if (found := _part(part, schema)) is not None]
    return reduce(operator.and_, parts) if parts else None


def _conjuncts(expr: Expr) -> Iterator[Expr]:
    stack = [expr]
    while stack:
        part = stack.pop()
        if isinstance(part, Call) and part.function == "and":
            stack.extend(part.args)
        else:
            yield part


def _part(expr: Expr, schema: pa.Schema) -> pc.Expression | None:
    match expr:
        case Call(function=name, args=(Column(name=column), Literal() as value)):
            return _comparison(name, column, value, schema)
        case Call(function=name, args=(Literal() as value, Column(name=column))):
            return _comparison(_MIRRORED.get(name, ""), column, value, schema)
        case IsIn(input=Column(name=column), values=values) if values:
            parts = [_comparison("eq", column, value, schema) for value in values]
            known = [part for part in parts if part is not None]
            return reduce(operator.or_, known) if len(known) == len(parts) else None
        case _:
            return None


def _comparison(name: str, column: str, value: Literal, schema: pa.Schema) -> pc.Expression | None:
    if name not in _OPERATORS or value.value is None or column not in schema.names:
        return None
    dtype = schema.field(column).type
    both_integers = t.is_integer(dtype) and t.is_integer(value.dtype)
    if not (both_integers or (_is_exact(dtype) and dtype.equals(value.dtype))):
        return None
    constant = pa.scalar(value.value, value.dtype)
    return _OPERATORS[name](pc.field(column), pc.scalar(constant))


def _is_exact(dtype: pa.DataType) -> bool:
    return bool(
        t.is_string(dtype) or t.is_large_string(dtype) or t.is_date32(dtype) or t.is_boolean(dtype)
    )
