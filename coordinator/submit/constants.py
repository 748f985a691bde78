"""The value of an expression without columns, as tasks would compute it.

One job: `constant_value`, which the optimizer is given to fold constants with. The evaluator is
imported when there is something to compute. What may be large is left to tasks, which have memory
for it: `repeat("x", 1000000000)` has few bytes in a plan.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import ExpressionError
from fabric.plan.expr import Call, Expr, Literal
from fabric.plan.functions import FUNCTIONS
from fabric.plan.schema import type_of
from fabric.plan.walk import fold

_BYTES_MAX = 64 << 10
_FIXED = 16
_ONE_ROW = pa.schema([("_", pa.null())])
_BATCH = pa.record_batch([pa.nulls(1)], schema=_ONE_ROW)


def constant_value(expr: Expr) -> Literal | None:
    """`expr` as a constant of its type; None when it raises, may be large, or has no plain value.

    >>> from fabric.plan.expr import Call
    >>> sixty = Literal(60, pa.int32())
    >>> constant_value(Call("multiply", (sixty, sixty)))
    Literal(value=3600, dtype=DataType(int32))
    """
    from fabric.operators.expressions.arrow.compile import compile_expr

    dtype = type_of(expr, _ONE_ROW)
    if not _is_plain(dtype) or _bytes_at_most(expr) > _BYTES_MAX:
        return None
    try:
        values = compile_expr(expr, _ONE_ROW)(_BATCH)
    except ExpressionError:
        return None
    return Literal(values[0].as_py(), dtype)


def _bytes_at_most(expr: Expr) -> float:
    """What the largest value in the course of `expr` may take."""
    largest = 0.0

    def size(part: Expr, below: tuple[float, ...]) -> float:
        nonlocal largest
        found = float(_FIXED) if _is_fixed(part) else _grown(part, below)
        largest = max(largest, found, *below)
        return found

    fold(expr, size)
    return largest


def _is_fixed(part: Expr) -> bool:
    """Whether values of its type all take the same few bytes, and little work."""
    if isinstance(part, Literal) or (isinstance(part, Call) and FUNCTIONS[part.function].room):
        return False
    return bool(t.is_primitive(type_of(part, _ONE_ROW)))


def _grown(part: Expr, below: tuple[float, ...]) -> float:
    """What a part may take, given what is below it."""
    match part:
        case Literal(value=str() | bytes() as value):
            return 4.0 * len(value)
        case Literal():
            return _FIXED
        case Call(function=name, args=args) if (room := FUNCTIONS[name].room) is not None:
            return room(below, [arg if isinstance(arg, Literal) else None for arg in args])
        case _:
            return 2 * sum(below) + _FIXED


def _is_plain(dtype: pa.DataType) -> bool:
    """Whether a Python value holds all of it: no nanoseconds, nothing nested or encoded."""
    kinds = (t.is_boolean, t.is_integer, t.is_float32, t.is_float64, t.is_string, t.is_binary,
             t.is_date32, t.is_decimal128)  # fmt: skip
    stamp = t.is_timestamp(dtype) and dtype.unit != "ns"
    return bool(stamp or any(kind(dtype) for kind in kinds))
