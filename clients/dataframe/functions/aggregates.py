"""Aggregates as functions: ``sum("x")`` is ``col("x").sum()``; a string argument is a column.

One job: the function face of `methods/aggregates.py`, and the table of names by which
``agg({"x": "stddev"})`` finds an aggregate.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable

import pyarrow as pa

from fabric.clients.dataframe.expressions.expr import Expr, as_column
from fabric.clients.dataframe.expressions.types import ColumnName, all_of
from fabric.clients.dataframe.methods.aggregates import Interpolation
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan.faults import nearest
from fabric.plan.functions import AGGREGATES

__all__ = [
    "any_value", "approx_count_distinct", "approx_distinct", "approx_n_unique", "approx_quantile",
    "avg", "bool_and", "bool_or", "collect_list", "corr", "count", "count_distinct", "count_if",
    "covar_pop", "covar_samp", "every", "first", "kurtosis", "last", "len", "max", "max_by", "mean",
    "median", "min", "min_by", "n_unique", "percentile", "percentile_approx", "quantile",
    "skewness", "some", "std", "std_pop", "stddev", "stddev_pop", "stddev_samp", "sum", "var",
    "var_pop", "var_samp", "variance",
]  # fmt: skip

ALIASES: dict[str, str] = {
    "avg": "mean", "approx_n_unique": "approx_distinct", "approx_count_distinct": "approx_distinct",
    "variance": "var", "var_samp": "var", "stddev": "std", "stddev_samp": "std",
    "stddev_pop": "std_pop", "skew": "skewness", "collect_list": "collect", "every": "bool_and",
    "all": "bool_and", "some": "bool_or", "any": "bool_or", "len": "count",
}  # fmt: skip
"""Names of Polars and PySpark, and the aggregate of the registry each one is."""


def registry_name(name: str, shown: str, line: Callable[[str], str]) -> str:
    """The registry's name of an aggregate of that name; `line` writes the call with another one.

    Raises
    ------
    PlanError
        There is none; the call is told as `shown`.
    """
    known = ALIASES.get(name, name)
    if known not in AGGREGATES:
        near = nearest(name, [*AGGREGATES, *ALIASES])
        raise PlanError(
            f"{shown} is not a valid aggregate; use one of {', '.join(sorted(AGGREGATES))}"
            + (f"; write: {line(near)}" if near else "")
        )
    return known


def sum(column: ColumnName) -> Expr:
    """The sum of a column's values that are not null."""
    return as_column(column).sum()


def mean(column: ColumnName) -> Expr:
    """The mean of a column's values that are not null."""
    return as_column(column).mean()


def min(column: ColumnName) -> Expr:
    """The smallest value of a column."""
    return as_column(column).min()


def max(column: ColumnName) -> Expr:
    """The largest value of a column."""
    return as_column(column).max()


def count(column: ColumnName = "*") -> Expr:
    """How many rows there are, or how many values of a column are not null.

    >>> count()
    count()
    """
    if isinstance(column, str) and column == "*":
        return Expr(plan.Agg("count", None))
    return as_column(column).count()


def count_if(condition: ColumnName) -> Expr:
    """For how many rows `condition` is true.

    >>> from fabric import col
    >>> count_if(col("delay") > 15)
    (col("delay") > 15).count_if()
    """
    return as_column(condition).count_if()


def count_distinct(column: ColumnName, *more: ColumnName) -> Expr:
    """How many different values a column has, or several side by side; no null counts.

    Of several columns, rows where any of them is null are left out, as in PySpark.

    >>> from fabric import DataFrame
    >>> df = DataFrame({"a": [1, 1, 2, None], "b": ["x", "x", "x", "y"]})
    >>> df.select(n=count_distinct("a", "b")).collect().to_pydict()
    {'n': [2]}
    """
    if not more:
        return as_column(column).count_distinct()
    columns = [as_column(one).node for one in (column, *more)]
    values = [one.input if isinstance(one, plan.Alias) else one for one in columns]
    names = [plan.Literal(f"_{place}", pa.string()) for place in range(builtins.len(values))]
    pairs = [part for pair in zip(names, values, strict=True) for part in pair]
    whole = [plan.Call("is_not_null", (value,)) for value in values]
    rows = plan.Case(
        ((all_of(whole), plan.Call("struct", tuple(pairs))),), plan.Literal(None, pa.null())
    )
    named = "_".join(map(plan.output_name, columns))
    return Expr(plan.Alias(plan.Agg("count_distinct", rows), named))


def n_unique(column: ColumnName) -> Expr:
    """How many different values a column has, null counted as one, as in Polars."""
    return as_column(column).n_unique()


def len() -> Expr:
    """How many rows there are, in a column called ``len``, as in Polars; an int64.

    >>> from fabric import DataFrame
    >>> DataFrame({"a": [1, None]}).select(len()).to_dicts()
    [{'len': 2}]
    """
    return count().alias("len")


def approx_distinct(column: ColumnName) -> Expr:
    """About how many different values a column has, nulls left out; a few percent off."""
    return as_column(column).approx_distinct()


def first(column: ColumnName) -> Expr:
    """The value of one row, null when that row's is; which row is open without a window."""
    return as_column(column).first()


def last(column: ColumnName) -> Expr:
    """The value of one row, null when that row's is; which row is open without a window."""
    return as_column(column).last()


def any_value(column: ColumnName) -> Expr:
    """Some value of a column that is not null."""
    return as_column(column).any_value()


def min_by(column: ColumnName, by: ColumnName) -> Expr:
    """The value of `column` in a row where `by` is smallest."""
    return as_column(column).min_by(by)


def max_by(column: ColumnName, by: ColumnName) -> Expr:
    """The value of `column` in a row where `by` is largest.

    >>> max_by("city", by="population")
    col("city").max_by(col("population"))
    """
    return as_column(column).max_by(by)


def collect_list(column: ColumnName) -> Expr:
    """The list of a column's values that are not null, in any order."""
    return as_column(column).collect()


def bool_and(column: ColumnName) -> Expr:
    """Whether all values of a column are true."""
    return as_column(column).bool_and()


def bool_or(column: ColumnName) -> Expr:
    """Whether any value of a column is true."""
    return as_column(column).bool_or()


def var(column: ColumnName, ddof: int = 1) -> Expr:
    """The variance: of a sample (`ddof` 1) or of all values (0)."""
    return as_column(column).var(ddof)


def std(column: ColumnName, ddof: int = 1) -> Expr:
    """The standard deviation: of a sample (`ddof` 1) or of all values (0)."""
    return as_column(column).std(ddof)


def var_pop(column: ColumnName) -> Expr:
    """The variance of all values."""
    return as_column(column).var_pop()


def std_pop(column: ColumnName) -> Expr:
    """The standard deviation of all values."""
    return as_column(column).std_pop()


def skewness(column: ColumnName) -> Expr:
    """The third standardised moment of all values."""
    return as_column(column).skewness()


def kurtosis(column: ColumnName) -> Expr:
    """The fourth standardised moment of all values, less 3."""
    return as_column(column).kurtosis()


def corr(column: ColumnName, other: ColumnName) -> Expr:
    """Pearson's correlation of two columns; rows with a null are left out."""
    return as_column(column).corr(other)


def covar_samp(column: ColumnName, other: ColumnName) -> Expr:
    """The covariance of a sample of two columns; rows with a null are left out."""
    return as_column(column).covar_samp(other)


def covar_pop(column: ColumnName, other: ColumnName) -> Expr:
    """The covariance of all rows of two columns; rows with a null are left out."""
    return as_column(column).covar_pop(other)


def median(column: ColumnName) -> Expr:
    """The middle value, or the mean of the two in the middle."""
    return as_column(column).median()


def quantile(column: ColumnName, quantile: float, interpolation: Interpolation = "nearest") -> Expr:
    """The exact quantile (0 to 1); between two values the nearest, or as `interpolation` says."""
    return as_column(column).quantile(quantile, interpolation)


def percentile(column: ColumnName, percentage: float) -> Expr:
    """The exact quantile (0 to 1), linear between two values, as in Spark."""
    return as_column(column).percentile(percentage)


def approx_quantile(column: ColumnName, quantile: float) -> Expr:
    """An actual value about at `quantile` (0 to 1)."""
    return as_column(column).approx_quantile(quantile)


avg = mean
approx_n_unique = approx_distinct
approx_count_distinct = approx_distinct
variance = var
var_samp = var
stddev = std
stddev_samp = std
stddev_pop = std_pop
percentile_approx = approx_quantile
every = bool_and
some = bool_or
