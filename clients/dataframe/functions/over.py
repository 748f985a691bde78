"""Window functions as functions: ``row_number().over("k", order_by="t")``; a string is a column.

One job: the ranks and shares, which read no column, and the function face of `methods/over.py`
under PySpark's names.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.clients.dataframe.expressions.expr import Expr, as_column
from fabric.clients.dataframe.expressions.types import ColumnName, IntoExpr
from fabric.errors import PlanError
from fabric.plan import expr as plan

__all__ = [
    "cume_dist", "dense_rank", "first_value", "lag", "last_value", "lead", "nth_value", "ntile",
    "percent_rank", "rank", "row_number",
]  # fmt: skip


def row_number() -> Expr:
    """1, 2, 3 … in order; equal rows in any order.

    >>> row_number().over("k", order_by="t")
    row_number().over("k", order_by="t")
    """
    return Expr(plan.Agg("row_number", None))


def rank() -> Expr:
    """Equal rows get one number, the next ones the number of rows before them plus 1; an int32.

    Nulls come first and are equal. Needs an order: a `PlanError` without.

    >>> from fabric import DataFrame
    >>> df = DataFrame({"t": [1, 2, 2, 4]})
    >>> df.select(rank().over(order_by="t").alias("rank")).collect().to_pydict()
    {'rank': [1, 2, 2, 4]}
    """
    return Expr(plan.Agg("rank", None))


def dense_rank() -> Expr:
    """Equal rows get one number, without gaps; an int32. See `rank`.

    >>> from fabric import DataFrame
    >>> df = DataFrame({"t": [1, 2, 2, 4]})
    >>> df.select(dense_rank().over(order_by="t").alias("rank")).collect().to_pydict()
    {'rank': [1, 2, 2, 3]}
    """
    return Expr(plan.Agg("dense_rank", None))


def percent_rank() -> Expr:
    """``(rank - 1) / (rows - 1)``, a float64 from 0 to 1; 0 of one row. See `rank`.

    >>> from fabric import DataFrame
    >>> df = DataFrame({"t": [1, 2, 2, 4, 5]})
    >>> df.select(percent_rank().over(order_by="t").alias("rank")).collect().to_pydict()
    {'rank': [0.0, 0.25, 0.25, 0.75, 1.0]}
    """
    return Expr(plan.Agg("percent_rank", None))


def cume_dist() -> Expr:
    """The share of rows up to this one and its equals, a float64 up to 1. Needs an order.

    >>> from fabric import DataFrame
    >>> df = DataFrame({"t": [1, 2, 2, 4]})
    >>> df.select(cume_dist().over(order_by="t").alias("share")).collect().to_pydict()
    {'share': [0.25, 0.75, 0.75, 1.0]}
    """
    return Expr(plan.Agg("cume_dist", None))


def ntile(n: int) -> Expr:
    """The rows in `n` parts as equal as can be, numbered from 1; an int32. Needs an order.

    The first parts have a row more. `PlanError` where `n` is not a whole number of at least 1.

    >>> from fabric import DataFrame
    >>> df = DataFrame({"t": [1, 2, 3, 4, 5]})
    >>> df.select(ntile(2).over(order_by="t").alias("half")).collect().to_pydict()
    {'half': [1, 1, 1, 2, 2]}
    """
    if type(n) is not int or n < 1:
        raise PlanError(f"ntile takes a number of parts of at least 1, got {n!r}")
    return Expr(plan.Agg("ntile", None, (plan.Literal(n, pa.int32()),)))


def lag(column: ColumnName, offset: int = 1, default: IntoExpr = None) -> Expr:
    """The value `offset` rows before, `default` where there is none."""
    return as_column(column).lag(offset, default)


def lead(column: ColumnName, offset: int = 1, default: IntoExpr = None) -> Expr:
    """The value `offset` rows after, `default` where there is none."""
    return as_column(column).lead(offset, default)


def first_value(column: ColumnName, ignore_nulls: bool = False) -> Expr:
    """The first value of the frame."""
    return as_column(column).first_value(ignore_nulls)


def last_value(column: ColumnName, ignore_nulls: bool = False) -> Expr:
    """The last value of the frame; by default a frame ends at the current row."""
    return as_column(column).last_value(ignore_nulls)


def nth_value(column: ColumnName, n: int, ignore_nulls: bool = False) -> Expr:
    """Value number `n` of the frame, counted from 1."""
    return as_column(column).nth_value(n, ignore_nulls)
