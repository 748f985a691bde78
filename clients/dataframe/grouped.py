"""What ``df.group_by(...)`` gives: groups that wait for ``.agg(...)``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyarrow import types

from fabric.clients.dataframe import arguments as args
from fabric.clients.dataframe.aggregates import aggregate
from fabric.errors import PlanError
from fabric.plan import expr as plan

if TYPE_CHECKING:
    from fabric.clients.dataframe.frame import DataFrame

_FUNCTIONS = {
    "sum": "sum", "min": "min", "max": "max", "mean": "mean", "avg": "mean", "count": "count",
    "count_distinct": "count_distinct", "n_unique": "count_distinct",
}  # fmt: skip


class GroupBy:
    """Groups of rows with equal keys.

    Examples
    --------
    >>> from fabric import DataFrame, col
    >>> groups = DataFrame({"k": ["a", "a"], "v": [1, 2]}).group_by("k")
    >>> groups.agg(share=col("v").max() / col("v").sum()).collect().to_pylist()
    [{'k': 'a', 'share': 0.6666666666666666}]
    """

    __slots__ = ("_frame", "_keys")

    def __init__(self, frame: DataFrame, keys: tuple[plan.Expr, ...]) -> None:
        self._frame = frame
        self._keys = keys

    def agg(self, *aggregates: Any, **named: Any) -> DataFrame:
        """One row a group: aggregates, ``name=aggregate``, or PySpark's ``{"column": "sum"}``."""
        exprs: list[plan.Expr] = []
        for aggregate_ in args.flatten(aggregates):
            if isinstance(aggregate_, Mapping):
                exprs += [_by_name(column, name) for column, name in aggregate_.items()]
            else:
                exprs.append(args.top(aggregate_))
        exprs += args.expressions((), named, ())
        if not exprs:
            raise PlanError('agg needs an aggregate, for example agg(total=col("x").sum())')
        return self._frame._then(aggregate(self._frame._node, self._keys, exprs))

    def count(self) -> DataFrame:
        """How many rows each group has, as ``count``."""
        return self.agg(count=_counted())

    def sum(self, *columns: str) -> DataFrame:
        """The sums of `columns` (none given: of every number that is not a key)."""
        return self._each("sum", columns)

    def mean(self, *columns: str) -> DataFrame:
        """The means of `columns` (none given: of every number that is not a key)."""
        return self._each("mean", columns)

    def min(self, *columns: str) -> DataFrame:
        """The smallest values of `columns` (none given: of every number that is not a key)."""
        return self._each("min", columns)

    def max(self, *columns: str) -> DataFrame:
        """The largest values of `columns` (none given: of every number that is not a key)."""
        return self._each("max", columns)

    def _each(self, function: str, columns: tuple[str, ...]) -> DataFrame:
        names = args.flatten(columns) or self._numbers()
        return self.agg(*(_aggregate(function, plan.Column(name)) for name in names))

    def _numbers(self) -> list[str]:
        keys = {plan.output_name(key) for key in self._keys}
        fields = [field for field in self._frame.schema if field.name not in keys]
        return [f.name for f in fields if types.is_integer(f.type) or types.is_floating(f.type)
                or types.is_decimal(f.type)]  # fmt: skip

    def __repr__(self) -> str:
        from fabric.plan.printer import expr_text

        keys = ", ".join(expr_text(key) for key in self._keys)
        return f"GroupBy({keys}); .agg(...) makes one row of each group"

    avg = mean
    len = count


def _counted() -> Any:
    from fabric.clients.dataframe.functions import count

    return count()


def _aggregate(function: str, source: plan.Expr) -> Any:
    from fabric.clients.dataframe.expr import Expr

    return Expr(plan.Agg(function, source))


def _by_name(column: str, function: str) -> plan.Expr:
    """PySpark's ``{"x": "sum"}``; the output is called ``sum(x)`` as there."""
    if function not in _FUNCTIONS:
        known = ", ".join(sorted(_FUNCTIONS))
        raise PlanError(f'agg: {{"{column}": "{function}"}} names no aggregate; use one of {known}')
    source = None if column == "*" else plan.Column(column)
    return plan.Alias(plan.Agg(_FUNCTIONS[function], source), f"{function}({column})")
