"""Which columns a value can fill, and what it is there.

One job: a constant as one of a column's own type, so that filling nulls never changes the type.
"""

from __future__ import annotations

import math
from typing import Any, overload

import pyarrow as pa
from pyarrow import types as t

from fabric.clients.dataframe.expr import Expr
from fabric.clients.dataframe.types import IntoExpr, to_node
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan.faults import quoted, with_article
from fabric.plan.literals import scalar_of
from fabric.plan.types import is_string, plain


@overload
def fitting(value: IntoExpr, dtype: pa.DataType, name: str) -> plan.Expr: ...
@overload
def fitting(
    value: IntoExpr, dtype: pa.DataType, name: str, *, strict: bool
) -> plan.Expr | None: ...
def fitting(
    value: IntoExpr, dtype: pa.DataType, name: str, *, strict: bool = True
) -> plan.Expr | None:
    """`value` as a constant of the column `name`, None where another kind of value belongs.

    A value of the right kind that the column can't hold exactly is refused, and with `strict` so is
    one of another kind.
    """
    node = to_node(value)
    if isinstance(value, Expr) and not isinstance(node, plan.Literal):
        return node
    assert isinstance(node, plan.Literal)
    if _kind(node.dtype) != _kind(dtype):
        if strict:
            raise PlanError(
                f"fill_null can't put {value!r} into {quoted(name)}, {with_article(str(dtype))}"
            )
        return None
    wanted = plain(dtype)
    try:
        held = scalar_of(plan.Literal(node.value, wanted)).as_py()
        same = held == node.value or _is_nan(value)
    except ValueError:
        same = False
    if not same:
        raise PlanError(
            f"fill_null: {quoted(name)} is {dtype} and can't hold {value!r}; name the columns, "
            f'for example .fill_null({{"other": {value!r}}}), or cast {quoted(name)} before'
        )
    return plan.Literal(held, wanted)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _kind(dtype: pa.DataType) -> str:
    inner = plain(dtype)
    if is_string(inner):
        return "string"
    if t.is_integer(inner) or t.is_floating(inner) or t.is_decimal(inner):
        return "number"
    if t.is_timestamp(inner):
        return "timestamp"
    return f"type {inner.id}"
