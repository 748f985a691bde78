"""Columns, constants and aggregates as functions: ``from fabric import functions as F`` works too.

One job: the function face of what `Expr` has as methods. A string argument means a column.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from fabric.clients.dataframe.conditions import when
from fabric.clients.dataframe.expr import Expr, call
from fabric.clients.dataframe.literal import DTypeLike, to_dtype, to_literal
from fabric.errors import PlanError
from fabric.plan import expr as plan

__all__ = [
    "avg", "coalesce", "col", "concat_str", "count", "count_distinct", "lit", "max", "mean", "min",
    "n_unique", "sum", "when",
]  # fmt: skip
ColumnLike = Expr | str
"""An expression, or the name of a column."""


def col(name: str) -> Expr:
    """The column `name` of the input.

    >>> col("dep_delay") > 15
    col("dep_delay") > 15
    """
    if not isinstance(name, str):
        raise PlanError(
            f"col takes the name of a column, got {name!r}; for a constant use lit(...)"
        )
    return Expr(plan.Column(name))


def lit(value: Any, dtype: DTypeLike | None = None) -> Expr:
    """The constant `value`, of type `dtype` when given.

    >>> lit("JFK"), lit(1, "int64")
    (lit("JFK"), lit(1, "int64"))
    """
    literal = to_literal(value)
    if dtype is None:
        return Expr(literal)
    wanted = to_dtype(dtype)
    try:
        return Expr(plan.Literal(pa.scalar(literal.value, wanted).as_py(), wanted))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # "2013-01-01" as a date, say
        return Expr(literal).cast(wanted)


def as_column(value: Any) -> Expr:
    """An `Expr` as it is, a string as the column of that name, all else as a constant."""
    if isinstance(value, Expr):
        return value
    return col(value) if isinstance(value, str) else lit(value)


def sum(column: ColumnLike) -> Expr:
    """The sum of a column's values that are not null."""
    return as_column(column).sum()


def mean(column: ColumnLike) -> Expr:
    """The mean of a column's values that are not null."""
    return as_column(column).mean()


def min(column: ColumnLike) -> Expr:
    """The smallest value of a column."""
    return as_column(column).min()


def max(column: ColumnLike) -> Expr:
    """The largest value of a column."""
    return as_column(column).max()


def count(column: ColumnLike = "*") -> Expr:
    """How many rows there are, or how many values of a column are not null.

    >>> count()
    count()
    """
    return Expr(plan.Agg("count", None)) if column == "*" else as_column(column).count()


def count_distinct(column: ColumnLike) -> Expr:
    """How many different values a column has, nulls left out."""
    return as_column(column).count_distinct()


def coalesce(*columns: Any) -> Expr:
    """The first of `columns` that is not null."""
    return call("coalesce", *(as_column(column) for column in columns))


def concat_str(*columns: Any) -> Expr:
    """Strings one after the other; null when any of them is null."""
    return call("concat", *(as_column(column) for column in columns))


avg = mean
n_unique = count_distinct
