"""Aggregates as methods: ``col("x").sum()``, under the names Polars and PySpark give them.

One job: each aggregate of the registry as a method of `Expr`. The same as functions is in
`functions/aggregates.py`; over a window they are what ``.over(...)`` of `methods/over.py` makes.
"""

from __future__ import annotations

from numbers import Real
from typing import Literal, Self

import pyarrow as pa

from fabric.clients.dataframe.expressions.types import (
    AnyExpression,
    ColumnName,
    Expression,
    call,
    column_node,
    to_node,
)
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan.functions.aggregates import INTERPOLATIONS

Interpolation = Literal["nearest", "linear", "lower", "higher", "midpoint"]


class AggregateMethods(Expression):
    """For ``group_by(...).agg(...)``, ``select`` and ``.over(...)``; nulls are left out.

    An aggregate of no values is null, a count is 0, a list is empty. NaN is a value, the largest:
    `max` finds it, and sums and means of it are NaN.

    Examples
    --------
    >>> from fabric import DataFrame, col
    >>> df = DataFrame({"x": [1, None, 4]})
    >>> df.select(n=col("x").count(), total=col("x").sum(), mid=col("x").median()).to_dicts()
    [{'n': 2, 'total': 5, 'mid': 2.5}]
    >>> df.filter(col("x") > 9).select(n=col("x").count(), total=col("x").sum()).to_dicts()
    [{'n': 0, 'total': None}]
    >>> col("delay").quantile(0.9)
    col("delay").quantile(0.9, "nearest")
    """

    __slots__ = ()

    def sum(self) -> Self:
        """The sum of values that are not null; null of none; overflow is an error.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1, None, 4]}).select(col("x").sum()).to_dicts()
        [{'x': 5}]
        """
        return _agg("sum", self)

    def mean(self) -> Self:
        """The mean of values that are not null; null of none.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1, None, 4]}).select(col("x").mean()).to_dicts()
        [{'x': 2.5}]
        """
        return _agg("mean", self)

    def min(self) -> Self:
        """The smallest value that is not null; NaN only where there is no other.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [2.0, None, float("nan")]}).select(col("x").min()).to_dicts()
        [{'x': 2.0}]
        """
        return _agg("min", self)

    def max(self) -> Self:
        """The largest value that is not null; NaN is the largest.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [2.0, None, float("nan")]}).select(col("x").max()).to_dicts()
        [{'x': nan}]
        """
        return _agg("max", self)

    def count(self) -> Self:
        """How many values are not null.

        >>> from fabric import DataFrame, col, count
        >>> DataFrame({"x": [1, None, 4]}).select(values=col("x").count(), rows=count()).to_dicts()
        [{'values': 2, 'rows': 3}]
        """
        return _agg("count", self)

    def null_count(self) -> Self:
        """How many values are null.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1, None, 4]}).select(col("x").null_count()).to_dicts()
        [{'x': 1}]
        """
        return _agg("count_if", call("is_null", self))

    def count_if(self) -> Self:
        """For how many rows the condition is true; null is not true.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1, None, 4]}).select(n=(col("x") > 2).count_if()).to_dicts()
        [{'n': 1}]
        """
        return _agg("count_if", self)

    def count_distinct(self) -> Self:
        """How many different values there are, nulls left out.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1, 1, None, 4]}).select(col("x").count_distinct()).to_dicts()
        [{'x': 2}]
        """
        return _agg("count_distinct", self)

    def n_unique(self) -> Self:
        """How many different values there are, null counted as one, as in Polars.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": [1, 1, None]})
        >>> df.select(a=col("x").n_unique(), b=col("x").count_distinct()).collect().to_pydict()
        {'a': [2], 'b': [1]}
        """
        return self._of(n_unique_of(to_node(self)))

    def approx_distinct(self) -> Self:
        """About how many different values there are, nulls left out; a few percent off.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1, 1, None, 4]}).select(col("x").approx_distinct()).to_dicts()
        [{'x': 2}]
        """
        return _agg("approx_distinct", self)

    # ---- one value of many
    def first(self) -> Self:
        """The value of one row, null when that row's is; which row is open without a window.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"t": [2, 1], "x": ["b", "a"]})
        >>> df.select(y=col("x").first().over(order_by="t")).to_dicts()
        [{'y': 'a'}, {'y': 'a'}]
        """
        return _agg("first", self)

    def last(self) -> Self:
        """The value of one row, null when that row's is; which row is open without a window.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"t": [2, 1], "x": ["b", "a"]})
        >>> df.select(y=col("x").last().over(order_by="t")).to_dicts()
        [{'y': 'b'}, {'y': 'b'}]
        """
        return _agg("last", self)

    def any_value(self) -> Self:
        """Some value that is not null; null where there is none.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [None, 4]}).select(col("x").any_value()).to_dicts()
        [{'x': 4}]
        """
        return _agg("any_value", self)

    def min_by(self, by: ColumnName) -> Self:
        """The value of a row where `by` is smallest; rows without `by` are left out.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"name": ["a", "b"], "age": [3, 2]})
        >>> df.select(col("name").min_by("age")).collect().to_pydict()
        {'name': ['b']}
        """
        return _agg("min_by", self, column_node(by))

    def max_by(self, by: ColumnName) -> Self:
        """The value of a row where `by` is largest; rows without `by` are left out.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"name": ["a", "b", "c"], "age": [3, 2, None]})
        >>> df.select(col("name").max_by("age")).to_dicts()
        [{'name': 'a'}]
        """
        return _agg("max_by", self, column_node(by))

    def collect(self) -> Self:
        """The list of all values that are not null, in any order.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [2, None, 1]}).select(col("x").collect().list.sort()).to_dicts()
        [{'x': [1, 2]}]
        """
        return _agg("collect", self)

    # ---- truth
    def bool_and(self) -> Self:
        """Whether all values are true, nulls left out; null where no value is left.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [True, None]}).select(col("x").bool_and()).to_dicts()
        [{'x': True}]
        """
        return _agg("bool_and", self)

    def bool_or(self) -> Self:
        """Whether any value is true, nulls left out; null where no value is left.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [False, None]}).select(col("x").bool_or()).to_dicts()
        [{'x': False}]
        """
        return _agg("bool_or", self)

    # ---- statistics
    def var(self, ddof: int = 1) -> Self:
        """The variance: of a sample (`ddof` 1) or of all values (0).

        That of a sample is null of fewer than two values.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": [1, None, 4]})
        >>> df.select(sample=col("x").var(), whole=col("x").var(ddof=0)).to_dicts()
        [{'sample': 4.5, 'whole': 2.25}]
        """
        return _agg(by_ddof("var", ddof), self)

    def std(self, ddof: int = 1) -> Self:
        """The standard deviation: of a sample (`ddof` 1) or of all values (0).

        >>> from fabric import col
        >>> col("x").std(), col("x").std(ddof=0)
        (col("x").std(), col("x").std_pop())
        """
        return _agg(by_ddof("std", ddof), self)

    def var_pop(self) -> Self:
        """The variance of all values, which is ``var(ddof=0)``.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1, None, 4]}).select(col("x").var_pop()).to_dicts()
        [{'x': 2.25}]
        """
        return _agg("var_pop", self)

    def std_pop(self) -> Self:
        """The standard deviation of all values, which is ``std(ddof=0)``.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1, None, 4]}).select(col("x").std_pop()).to_dicts()
        [{'x': 1.5}]
        """
        return _agg("std_pop", self)

    def skewness(self) -> Self:
        """The third standardised moment of all values, not corrected for a sample.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1, 2, 3, None]}).select(col("x").skewness()).to_dicts()
        [{'x': 0.0}]
        """
        return _agg("skewness", self)

    def kurtosis(self) -> Self:
        """The fourth standardised moment of all values, less 3, not corrected for a sample.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1, 1, 3, 3, None]}).select(col("x").kurtosis()).to_dicts()
        [{'x': -2.0}]
        """
        return _agg("kurtosis", self)

    def corr(self, other: ColumnName) -> Self:
        """Pearson's correlation with `other`; rows with a null are left out.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": [1, 2, 3, None], "y": [6, 4, 2, 9]})
        >>> df.select(r=col("x").corr("y")).to_dicts()
        [{'r': -1.0}]
        """
        return _agg("corr", self, column_node(other))

    def covar_samp(self, other: ColumnName) -> Self:
        """The covariance of a sample with `other`; rows with a null are left out.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": [1, 3, None], "y": [4, 8, 9]})
        >>> df.select(col("x").covar_samp("y")).to_dicts()
        [{'x': 4.0}]
        """
        return _agg("covar_samp", self, column_node(other))

    def covar_pop(self, other: ColumnName) -> Self:
        """The covariance of all rows with `other`; rows with a null are left out.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": [1, 3, None], "y": [4, 8, 9]})
        >>> df.select(col("x").covar_pop("y")).to_dicts()
        [{'x': 2.0}]
        """
        return _agg("covar_pop", self, column_node(other))

    def median(self) -> Self:
        """The middle value as float64, or the mean of the two in the middle.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1, 2, None, 9, 4]}).select(col("x").median()).to_dicts()
        [{'x': 3.0}]
        """
        return _agg("median", self)

    def quantile(self, quantile: float, interpolation: Interpolation = "nearest") -> Self:
        """The exact quantile (0 to 1) as float64; null of no value.

        Between two values it is the ``nearest``, the ``lower``, the ``higher``, their ``midpoint``
        or ``linear`` between them; `percentile` is linear, as in Spark.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": [1, 2, 5, 9]})
        >>> df.select(a=col("x").quantile(0.75), b=col("x").percentile(0.75)).to_dicts()
        [{'a': 5.0, 'b': 6.0}]
        """
        return _agg("quantile", self, *quantile_args(quantile, interpolation))

    def percentile(self, percentage: float) -> Self:
        """The exact quantile (0 to 1), linear between two values, as in Spark.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1, 2, 5, 9]}).select(col("x").percentile(0.75)).to_dicts()
        [{'x': 6.0}]
        """
        return _agg("quantile", self, *quantile_args(percentage, "linear"))

    def approx_quantile(self, quantile: float) -> Self:
        """An actual value about at `quantile` (0 to 1); null of none.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1, 2, 5, None]}).select(col("x").approx_quantile(0.5)).to_dicts()
        [{'x': 2}]
        """
        return _agg("approx_quantile", self, to_node(float(quantile)))

    avg = mean
    approx_n_unique = approx_distinct
    approx_count_distinct = approx_distinct
    variance = var
    var_samp = var
    stddev = std
    stddev_samp = std
    stddev_pop = std_pop
    skew = skewness
    collect_list = collect
    all = bool_and
    every = bool_and
    any = bool_or
    some = bool_or
    percentile_approx = approx_quantile


def n_unique_of(column: plan.Expr) -> plan.Expr:
    """The different values of `column`, and one more where one is null."""
    n_nulls = plan.Agg("count_if", plan.Call("is_null", (column,)))
    zero, one = plan.Literal(0, pa.int64()), plan.Literal(1, pa.int64())
    has_null = plan.Case(((plan.Call("gt", (n_nulls, zero)), one),), zero)
    return plan.Call("add", (plan.Agg("count_distinct", column), has_null))


def _agg(function: str, source: AnyExpression, *args: plan.Expr) -> AnyExpression:
    return source._of(plan.Agg(function, to_node(source), args))


def by_ddof(name: str, ddof: int) -> str:
    """The aggregate that divides by the number of values less `ddof`."""
    if ddof not in (0, 1):
        raise PlanError(f"{name} takes ddof=1 (a sample) or ddof=0 (all values), got {ddof!r}")
    return name if ddof == 1 else f"{name}_pop"


def quantile_args(quantile: float, interpolation: str) -> tuple[plan.Expr, ...]:
    """What follows the input of ``quantile`` in a plan, where linear is not said."""
    if not isinstance(quantile, Real) or isinstance(quantile, bool):
        raise PlanError(f"quantile takes a fraction from 0 to 1, got {quantile!r}")
    fraction = plan.Literal(float(quantile), pa.float64())
    if interpolation not in INTERPOLATIONS:
        known = ", ".join(map(repr, INTERPOLATIONS))
        raise PlanError(f"quantile has no interpolation {interpolation!r}; use one of {known}")
    linear = interpolation == "linear"
    return (fraction,) if linear else (fraction, plan.Literal(interpolation, pa.string()))
