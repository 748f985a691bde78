"""One aggregate of each column of groups: ``df.group_by("k").sum("a", "b")``.

One job: the aggregates of the registry as methods of groups, under the names of Polars and PySpark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

import pyarrow as pa
from pyarrow import types

from fabric.clients.dataframe import arguments as args
from fabric.clients.dataframe.calls import helpful
from fabric.clients.dataframe.methods.aggregates import (
    Interpolation,
    by_ddof,
    n_unique_of,
    quantile_args,
)
from fabric.clients.dataframe.verbs.base import F
from fabric.plan import expr as plan


class GroupAggregates(Generic[F]):
    """Groups of a frame, and an aggregate of each of some columns; nulls are left out.

    Each method is the aggregate of that name of `Expr`, whose docstring has the details. An
    aggregate of no values is null, a count is 0, a list is empty.

    Examples
    --------
    >>> from fabric import DataFrame
    >>> groups = DataFrame({"k": ["a", "a"], "x": [1, 2], "y": [3, None]}).group_by("k")
    >>> groups.max().to_dicts()
    [{'k': 'a', 'x': 2, 'y': 3}]
    >>> groups.sum("y").to_dicts()
    [{'k': 'a', 'y': 3}]
    """

    __slots__ = ("_frame", "_keys")

    def __init__(self, frame: F, keys: tuple[plan.Expr, ...]) -> None:
        self._frame = frame
        self._keys = keys

    def _aggregated(self, exprs: Sequence[plan.Expr]) -> F:
        """A row for each group."""
        raise NotImplementedError

    def count(self) -> F:
        """How many rows each group has, as ``count``; rows with nulls count.

        >>> from fabric import DataFrame
        >>> DataFrame({"k": ["a", "a"], "x": [1, None]}).group_by("k").count().to_dicts()
        [{'k': 'a', 'count': 2}]
        """
        return self._aggregated([plan.Alias(plan.Agg("count", None), "count")])

    def sum(self, *columns: str) -> F:
        """The sums of `columns` (none given: of every number that is not a key).

        An int64, a float64 or a decimal; an `ExpressionError` where that overflows.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "a", "b"], "x": [1, 4, None]}).group_by("k")
        >>> groups.sum("x").sort("k").to_dicts()
        [{'k': 'a', 'x': 5}, {'k': 'b', 'x': None}]
        """
        return self._each("sum", columns)

    def mean(self, *columns: str) -> F:
        """The means of `columns` (none given: of every number that is not a key).

        A float64, of decimals a decimal with four more digits after the point.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "a", "a"], "x": [1, 4, None]}).group_by("k")
        >>> groups.mean("x").to_dicts()
        [{'k': 'a', 'x': 2.5}]
        """
        return self._each("mean", columns)

    def min(self, *columns: str) -> F:
        """The smallest values of `columns` (none given: of every number that is not a key).

        Texts, dates, times and booleans have one, too; NaN is greater than any other number.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "a"], "x": [1, 4], "s": ["q", "p"]}).group_by("k")
        >>> groups.min("x", "s").to_dicts(), groups.min().to_dicts()
        ([{'k': 'a', 'x': 1, 's': 'p'}], [{'k': 'a', 'x': 1}])
        """
        return self._each("min", columns)

    def max(self, *columns: str) -> F:
        """The largest values of `columns` (none given: of every number that is not a key).

        Of the types that `min` takes; NaN is greater than any other number.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "a"], "x": [1.5, float("nan")]}).group_by("k")
        >>> groups.max("x").to_dicts()
        [{'k': 'a', 'x': nan}]
        """
        return self._each("max", columns)

    def median(self, *columns: str) -> F:
        """The medians of `columns` (none given: of every number that is not a key).

        A float64: the value in the middle, or the mean of the two in the middle.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "a", "a", "a"], "x": [1, 2, 3, 10]}).group_by("k")
        >>> groups.median("x").to_dicts()
        [{'k': 'a', 'x': 2.5}]
        """
        return self._each("median", columns)

    def quantile(
        self, quantile: float, *columns: str, interpolation: Interpolation = "nearest"
    ) -> F:
        """The exact quantiles of `columns` (none given: of every number that is not a key).

        Between two values the nearest, or as `interpolation` says; see ``col(…).quantile``.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "a", "a"], "x": [1, 5, 9]}).group_by("k")
        >>> groups.quantile(0.25, "x", interpolation="linear").to_dicts()
        [{'k': 'a', 'x': 3.0}]
        """
        return self._each("quantile", columns, quantile_args(quantile, interpolation))

    def approx_quantile(self, quantile: float, *columns: str) -> F:
        """Actual values about at `quantile` of `columns` (none given: of every number).

        Of the type of the column; a `PlanError` where `quantile` is not from 0 to 1.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "a", "a"], "x": [1, 2, 10]}).group_by("k")
        >>> groups.approx_quantile(0.5, "x").to_dicts()
        [{'k': 'a', 'x': 2}]
        """
        literal = plan.Literal(float(quantile), pa.float64())
        return self._each("approx_quantile", columns, (literal,))

    def var(self, *columns: str, ddof: int = 1) -> F:
        """The variances of `columns` (none given: of every number that is not a key).

        Those of a sample, null of fewer than two values; with `ddof` 0 those of all values.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "a"], "x": [1, 4]}).group_by("k")
        >>> groups.var("x").to_dicts(), groups.var("x", ddof=0).to_dicts()
        ([{'k': 'a', 'x': 4.5}], [{'k': 'a', 'x': 2.25}])
        """
        return self._each(by_ddof("var", ddof), columns)

    def std(self, *columns: str, ddof: int = 1) -> F:
        """The standard deviations of `columns` (none given: of every number, no key).

        The square roots of `var`, with the same `ddof`.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "a", "a"], "x": [1, 2, 3]}).group_by("k")
        >>> groups.std("x").to_dicts()
        [{'k': 'a', 'x': 1.0}]
        """
        return self._each(by_ddof("std", ddof), columns)

    def var_pop(self, *columns: str) -> F:
        """The variances of all values of `columns` (none given: of every number, no key).

        ``var`` with `ddof` 0; that of one value is 0.

        >>> from fabric import DataFrame
        >>> DataFrame({"k": ["a", "a"], "x": [1, 4]}).group_by("k").var_pop("x").to_dicts()
        [{'k': 'a', 'x': 2.25}]
        """
        return self._each("var_pop", columns)

    def std_pop(self, *columns: str) -> F:
        """The standard deviations of all values of `columns` (none given: of every number).

        ``std`` with `ddof` 0; that of one value is 0.

        >>> from fabric import DataFrame
        >>> DataFrame({"k": ["a", "a"], "x": [1, 4]}).group_by("k").std_pop("x").to_dicts()
        [{'k': 'a', 'x': 1.5}]
        """
        return self._each("std_pop", columns)

    def skewness(self, *columns: str) -> F:
        """The skewness of `columns` (none given: of every number that is not a key).

        The third standardised moment of all values; null where they are all equal.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "a", "a"], "x": [1, 2, 3]}).group_by("k")
        >>> groups.skewness("x").to_dicts()
        [{'k': 'a', 'x': 0.0}]
        """
        return self._each("skewness", columns)

    def kurtosis(self, *columns: str) -> F:
        """The kurtosis of `columns` (none given: of every number that is not a key).

        The fourth standardised moment of all values, less 3; null where they are all equal.

        >>> from fabric import DataFrame
        >>> DataFrame({"k": ["a", "a"], "x": [1, 4]}).group_by("k").kurtosis("x").to_dicts()
        [{'k': 'a', 'x': -2.0}]
        """
        return self._each("kurtosis", columns)

    def first(self, *columns: str) -> F:
        """A value of `columns` (none given: of all), the first met; rows have no order.

        Null where that row's is; `any_value` skips nulls, `min_by` names the order.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "b"], "x": [1, None]}).group_by("k")
        >>> groups.first("x").sort("k").to_dicts()
        [{'k': 'a', 'x': 1}, {'k': 'b', 'x': None}]
        """
        return self._each("first", columns, numbers=False)

    def last(self, *columns: str) -> F:
        """A value of `columns` (none given: of all), the last met; see `first`."""
        return self._each("last", columns, numbers=False)

    def any_value(self, *columns: str) -> F:
        """Some value of `columns` (none given: of all) that is not null.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "a"], "x": [None, 1]}).group_by("k")
        >>> groups.any_value("x").to_dicts()
        [{'k': 'a', 'x': 1}]
        """
        return self._each("any_value", columns, numbers=False)

    def count_distinct(self, *columns: str) -> F:
        """How many different values `columns` (none given: all) have; an int64.

        Null does not count; `n_unique` counts it as one value.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "a", "a"], "x": [1, 1, None]}).group_by("k")
        >>> groups.count_distinct("x").to_dicts()
        [{'k': 'a', 'x': 1}]
        """
        return self._each("count_distinct", columns, numbers=False)

    def n_unique(self, *columns: str) -> F:
        """How many different values `columns` (none given: all) have, null counted as one.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "a"], "x": [1, None]}).group_by("k")
        >>> groups.n_unique("x").to_dicts(), groups.count_distinct("x").to_dicts()
        ([{'k': 'a', 'x': 2}], [{'k': 'a', 'x': 1}])
        """
        names = args.flatten(columns) or self._values(numbers=False)
        return self._aggregated([n_unique_of(plan.Column(name)) for name in names])

    def len(self, name: str = "len") -> F:
        """How many rows each group has, in a column called `name`, as in Polars.

        An int64; a `PlanError` where a key is called so.

        >>> from fabric import DataFrame
        >>> DataFrame({"k": ["a", "a"], "x": [1, None]}).group_by("k").len("rows").to_dicts()
        [{'k': 'a', 'rows': 2}]
        """
        return self._aggregated([plan.Alias(plan.Agg("count", None), name)])

    def approx_distinct(self, *columns: str) -> F:
        """About how many different values `columns` (none given: all) have; a few percent off.

        An int64; null does not count.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "a", "a"], "x": [1, 2, None]}).group_by("k")
        >>> groups.approx_distinct("x").to_dicts()
        [{'k': 'a', 'x': 2}]
        """
        return self._each("approx_distinct", columns, numbers=False)

    def collect(self, *columns: str) -> F:
        """The lists of values of `columns` (none given: of all), nulls left out, in any order.

        >>> from fabric import DataFrame, col
        >>> groups = DataFrame({"k": ["a", "a", "a"], "x": [4, None, 1]}).group_by("k")
        >>> groups.collect("x").select("k", col("x").list.sort()).to_dicts()
        [{'k': 'a', 'x': [1, 4]}]
        """
        return self._each("collect", columns, numbers=False)

    def count_if(self, *columns: str) -> F:
        """For how many rows `columns` (none given: all) are true; an int64, null is not true.

        A `PlanError` where one of them is not of booleans.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "a", "a"], "late": [True, False, None]}).group_by("k")
        >>> groups.count_if("late").to_dicts()
        [{'k': 'a', 'late': 1}]
        """
        return self._each("count_if", columns, numbers=False)

    def bool_and(self, *columns: str) -> F:
        """Whether all values of `columns` (none given: of all) are true.

        A `PlanError` where one of them is not of booleans.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "a", "b"], "late": [True, None, None]}).group_by("k")
        >>> groups.bool_and("late").sort("k").to_dicts()
        [{'k': 'a', 'late': True}, {'k': 'b', 'late': None}]
        """
        return self._each("bool_and", columns, numbers=False)

    def bool_or(self, *columns: str) -> F:
        """Whether any value of `columns` (none given: of all) is true; see `bool_and`."""
        return self._each("bool_or", columns, numbers=False)

    def corr(self, column: str, other: str) -> F:
        """Pearson's correlation of two columns; rows with a null are left out.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "a"], "x": [1, 2], "y": [6, 3]}).group_by("k")
        >>> groups.corr("x", "y").to_dicts()
        [{'k': 'a', 'x': -1.0}]
        """
        return self._each("corr", (column,), (plan.Column(other),))

    def covar_samp(self, column: str, other: str) -> F:
        """The covariance of a sample of two columns; rows with a null are left out.

        A float64 under the name of `column`; null where fewer than two rows are left.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "a"], "x": [1, 3], "y": [2, 6]}).group_by("k")
        >>> groups.covar_samp("x", "y").to_dicts()
        [{'k': 'a', 'x': 4.0}]
        """
        return self._each("covar_samp", (column,), (plan.Column(other),))

    def covar_pop(self, column: str, other: str) -> F:
        """The covariance of all rows of two columns, 0 of one row; see `covar_samp`."""
        return self._each("covar_pop", (column,), (plan.Column(other),))

    def min_by(self, column: str, by: str) -> F:
        """The value of `column` where `by` is smallest in the group; rows without `by` don't count.

        >>> from fabric import DataFrame
        >>> groups = DataFrame({"k": ["a", "a"], "who": ["x", "y"], "age": [3, 2]}).group_by("k")
        >>> groups.min_by("who", by="age").to_dicts()
        [{'k': 'a', 'who': 'y'}]
        """
        return self._each("min_by", (column,), (plan.Column(by),))

    def max_by(self, column: str, by: str) -> F:
        """The value of `column` where `by` is largest in the group; see `min_by`."""
        return self._each("max_by", (column,), (plan.Column(by),))

    # ---- helpers
    def _each(
        self,
        function: str,
        columns: tuple[str, ...],
        rest: tuple[plan.Expr, ...] = (),
        *,
        numbers: bool = True,
    ) -> F:
        names = args.flatten(columns) or self._values(numbers)
        return self._aggregated([plan.Agg(function, plan.Column(name), rest) for name in names])

    def _values(self, numbers: bool) -> list[str]:
        """The columns that are no keys, all or those of numbers."""
        keys = {plan.output_name(key) for key in self._keys}
        fields = [field for field in self._frame.schema if field.name not in keys]
        return [f.name for f in fields if not numbers or types.is_integer(f.type)
                or types.is_floating(f.type) or types.is_decimal(f.type)]  # fmt: skip

    avg = mean
    stddev = std
    variance = var


helpful(GroupAggregates)
