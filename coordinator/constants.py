"""The value of an expression without columns, as tasks would compute it.

One job: `constant_value`, which the optimizer is given to fold constants with. The evaluator is
imported when there is something to compute.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import ExpressionError
from fabric.plan.expr import Expr, Literal
from fabric.plan.schema import type_of

_ONE_ROW = pa.schema([("_", pa.null())])
_BATCH = pa.record_batch([pa.nulls(1)], schema=_ONE_ROW)


def constant_value(expr: Expr) -> Literal | None:
    """`expr` as a constant of its type; None when it raises, or has no plain value.

    >>> from fabric.plan.expr import Call
    >>> sixty = Literal(60, pa.int32())
    >>> constant_value(Call("multiply", (sixty, sixty)))
    Literal(value=3600, dtype=DataType(int32))
    """
    from fabric.operators.expressions.arrow.compile import compile_expr

    dtype = type_of(expr, _ONE_ROW)
    if not _is_plain(dtype):
        return None
    try:
        values = compile_expr(expr, _ONE_ROW)(_BATCH)
    except ExpressionError:
        return None
    return Literal(values[0].as_py(), dtype)


def _is_plain(dtype: pa.DataType) -> bool:
    """Whether a Python value holds all of it: no nanoseconds, nothing nested or encoded."""
    kinds = (t.is_boolean, t.is_integer, t.is_float32, t.is_float64, t.is_string, t.is_binary,
             t.is_date32, t.is_decimal128)  # fmt: skip
    stamp = t.is_timestamp(dtype) and dtype.unit != "ns"
    return bool(stamp or any(kind(dtype) for kind in kinds))
