"""A pivot: one aggregate a value and column, over null where the row is of another value.

    Aggregate(k; sum(when(m == "x").then(v)) as x, sum(when(m == "y").then(v)) as y)
      X

A column whose value has no row in the group is null, whatever the aggregate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from fabric.clients.dataframe.aggregates import aggregate
from fabric.clients.dataframe.literal import PythonValue, to_literal
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.walk import fold, with_expr_children

_NULL = plan.Literal(None, pa.null())
_KEEPS_NULLS = ("first", "last")
_NEVER_NULL = (
    "count", "count_if", "count_distinct", "approx_distinct", "collect",
)  # fmt: skip


def value_name(value: PythonValue) -> str:
    """What the column of a pivoted value is called.

    >>> value_name("x"), value_name(None), value_name(True), value_name(1.5)
    ('x', 'null', 'true', '1.5')
    """
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def pivoted(
    source: nodes.Node,
    keys: tuple[plan.Expr, ...],
    on: str,
    columns: Sequence[tuple[str, Any, plan.Expr]],
) -> nodes.Node:
    """One row a group of `keys`; `columns` are a name, a value of `on` and an aggregate each."""
    if not columns:
        raise PlanError("pivot needs at least one value")
    exprs = [plan.Alias(_where(expr, _is_value(on, value)), name) for name, value, expr in columns]
    return aggregate(source, keys, exprs)


def _is_value(on: str, value: Any) -> plan.Expr:
    column = plan.Column(on)
    if value is None:
        return plan.Call("is_null", (column,))
    return plan.Call("eq", (column, to_literal(value)))


def _where(expr: plan.Expr, test: plan.Expr) -> plan.Expr:
    """`expr` over the rows where `test` is true only, null where there are none."""
    inner = expr.input if isinstance(expr, plan.Alias) else expr

    def one(part: plan.Expr, below: tuple[plan.Expr, ...]) -> plan.Expr:
        if isinstance(part, plan.Agg):
            return _over_test(part, test)
        return with_expr_children(part, below)

    return fold(inner, one)


def _over_test(agg: plan.Agg, test: plan.Expr) -> plan.Expr:
    n_rows = plan.Agg("count_if", test)
    if agg.function in _KEEPS_NULLS:  # the nulls of other rows must not be taken for values
        agg = replace(agg, function="any_value")
    if agg.function == "count" and agg.input is None:
        limited = n_rows
    elif agg.function in ("min_by", "max_by"):  # rows without `by` are left out
        (by,) = agg.args
        limited = replace(agg, args=(plan.Case(((test, by),), _NULL),))
    else:
        assert agg.input is not None
        limited = replace(agg, input=plan.Case(((test, agg.input),), _NULL))
    if agg.function not in _NEVER_NULL:
        return limited
    some = plan.Call("gt", (n_rows, plan.Literal(0, pa.int32())))
    return plan.Case(((some, limited),), _NULL)
