"""A summary of each column: one aggregate, and a row of it for each statistic, in a fixed order.

Select("statistic", "a", …)
  Sort("order")
    Union
      Select(0, "count", count(a), …)   Select(1, "null_count", …)   …
        Aggregate(count(a), mean(a), …)        shared
          X
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.mend import free_name
from fabric.plan.schema import schema_of
from fabric.plan.types import is_comparable, numeric

_Make = Callable[[plan.Expr], plan.Agg]
_F64 = pa.float64()


def _simple(function: str) -> _Make:
    return lambda source: plan.Agg(function, source)


def _quantile(q: float) -> _Make:
    return lambda source: plan.Agg("quantile", source, (plan.Literal(q, _F64),))


def _nulls(source: plan.Expr) -> plan.Agg:
    return plan.Agg("count_if", plan.Call("is_null", (source,)))


_ALL: dict[str, _Make] = {"count": _simple("count"), "null_count": _nulls}
_ORDERED: dict[str, _Make] = {"min": _simple("min"), "max": _simple("max")}
_NUMBERS: dict[str, _Make] = {
    "mean": _simple("mean"), "std": _simple("std"), "25%": _quantile(0.25),
    "50%": _quantile(0.5), "75%": _quantile(0.75),
}  # fmt: skip
_ROWS = ("count", "null_count", "mean", "std", "min", "25%", "50%", "75%", "max")


def described(source: nodes.Node) -> nodes.Node:
    """The summary of `source`."""
    schema = schema_of(source)
    fields = [field for field in schema if is_comparable(field.type)]
    if not fields:
        raise PlanError("describe needs a column of single values; lists and structs have none")
    names: dict[tuple[str, str], str] = {}
    aggs: list[plan.Expr] = []
    for field in fields:
        for statistic, make in _of(field.type).items():
            names[field.name, statistic] = f"{len(aggs)}"
            aggs.append(plan.Alias(make(plan.Column(field.name)), f"{len(aggs)}"))
    counted = nodes.Aggregate(source, (), tuple(aggs), path="describe_*/aggregate")
    rows = nodes.Union(
        tuple(_row(counted, fields, statistic, names) for statistic in _ROWS),
        path="describe_*/rows",
    )
    order, *shown = (plan.Column(name) for name in schema_of(rows).names)
    ordered = nodes.Sort(rows, (plan.SortKey(order),), path="describe_*/sort")
    return nodes.Select(ordered, tuple(shown))


def _of(dtype: pa.DataType) -> dict[str, _Make]:
    return _ALL | _ORDERED | (_NUMBERS if numeric(dtype) is not None else {})


def _row(
    counted: nodes.Node,
    fields: list[pa.Field],
    statistic: str,
    names: dict[tuple[str, str], str],
) -> nodes.Node:
    taken = [field.name for field in fields]
    label = free_name("statistic", taken)
    place = free_name("order", [*taken, label])
    exprs: list[plan.Expr] = [
        plan.Alias(plan.Literal(_ROWS.index(statistic), pa.int8()), place),
        plan.Alias(plan.Literal(statistic, pa.string()), label),
    ]
    for field in fields:
        dtype = _F64 if numeric(field.type) is not None else pa.string()
        name = names.get((field.name, statistic))
        value: plan.Expr = plan.Literal(None, dtype)
        if name is not None:
            value = plan.Cast(plan.Column(name), dtype)
        exprs.append(plan.Alias(value, field.name))
    return nodes.Select(counted, tuple(exprs), path=f"describe_*/{statistic}")
