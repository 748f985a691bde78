"""What ``df.group_by(...).pivot(...)`` gives: groups with a column for each value of another.

One job: PySpark's form of a pivot; `DataFrame.pivot` is Polars'. Both become one aggregate whose
arguments are null where the row belongs to another column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic

import pyarrow as pa

from fabric.clients.dataframe import arguments as args
from fabric.clients.dataframe.calls import helpful
from fabric.clients.dataframe.expressions.expr import Expr
from fabric.clients.dataframe.expressions.types import IntoExpr, ManyColumns
from fabric.clients.dataframe.lowering.checks import check_aggregates
from fabric.clients.dataframe.lowering.shapes import pivoted, value_name
from fabric.clients.dataframe.names import call_text, known_one, no_frame
from fabric.clients.dataframe.verbs.base import F, Verbs
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.python import column_text
from fabric.plan.stream_facts import stream_of

VALUES_MAX = 1_000


def pivot_values(frame: Verbs, on: str) -> list[Any]:
    """The different values of a column in order, found by a job that runs now."""
    column = plan.Column(on)
    chosen = frame._then(nodes.Select(frame._node, (column,)))
    once: nodes.Node = nodes.Distinct(chosen._node)
    if stream_of(chosen._node) is not None:
        once = nodes.Deduplicate(chosen._node, (column,))
    found = chosen._then(nodes.Limit(once, VALUES_MAX + 1)).collect()[0].to_pylist()
    if len(found) > VALUES_MAX:
        raise PlanError(
            f"pivot: {on!r} has more than {VALUES_MAX} different values; give those you need: "
            f'pivot(..., on_columns=["..."])'
        )
    return sorted(found, key=lambda value: (value is None, value))


class PivotedGroupBy(Generic[F]):
    """Groups of equal keys, split into columns; ``.agg(...)`` makes one row of each group.

    Examples
    --------
    >>> from fabric import DataFrame, col
    >>> df = DataFrame({"k": ["a", "a"], "m": ["x", "y"], "v": [1, 2]})
    >>> wide = df.group_by("k").pivot("m", ["x", "y"]).agg(lo=col("v").min(), hi=col("v").max())
    >>> wide.columns
    ['k', 'x_lo', 'x_hi', 'y_lo', 'y_hi']
    """

    __slots__ = ("_frame", "_keys", "_on", "_values")

    def __init__(
        self,
        frame: F,
        keys: tuple[plan.Expr, ...],
        on: str,
        values: Sequence[Any] | None,
    ) -> None:
        known_one(on, frame.columns, "pivot", on=on)
        self._frame = frame
        self._keys = keys
        self._on = on
        self._values = pivot_values(frame, on) if values is None else list(values)

    def agg(self, *aggregates: ManyColumns, **named: IntoExpr) -> F:
        """Each aggregate for each value; with several the columns are ``value_name``.

        Parameters
        ----------
        aggregates, named
            As in `GroupBy.agg`, but not in PySpark's form.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"k": ["a", "a"], "m": ["x", "x"], "v": [1, 2]})
        >>> df.group_by("k").pivot("m", ["x", "y"]).agg(col("v").sum()).to_dicts()
        [{'k': 'a', 'x': 3, 'y': None}]
        """
        exprs = [args.top(one) for one in args.flatten(aggregates)]
        exprs += args.expressions((), named, pa.schema([]))
        if not exprs:
            raise PlanError('agg needs an aggregate, for example agg(total=col("x").sum())')
        check_aggregates(exprs, self._frame.schema, "agg of a pivot", _agg_line)
        several = len(exprs) > 1
        columns = [
            (_named(value, expr, several), value, expr) for value in self._values for expr in exprs
        ]
        return self._frame._then(pivoted(self._frame._node, self._keys, self._on, columns))

    def sum(self, *columns: str) -> F:
        """The sums of `columns` for each value; null where a group has no such row, or only nulls.

        A `PlanError` without `columns`; of several the columns are ``value_name``.

        >>> from fabric import DataFrame
        >>> df = DataFrame({"k": ["a", "a"], "m": ["x", "x"], "v": [1, 4], "w": [0, 2]})
        >>> pivoted = df.group_by("k").pivot("m", ["x", "y"])
        >>> pivoted.sum("v").to_dicts(), pivoted.sum("v", "w").columns
        ([{'k': 'a', 'x': 5, 'y': None}], ['k', 'x_v', 'x_w', 'y_v', 'y_w'])
        """
        return self._each("sum", columns)

    def mean(self, *columns: str) -> F:
        """The means of `columns` for each value; see `sum`.

        >>> from fabric import DataFrame
        >>> df = DataFrame({"k": ["a", "a"], "m": ["x", "x"], "v": [1, 4]})
        >>> df.group_by("k").pivot("m", ["x", "y"]).mean("v").to_dicts()
        [{'k': 'a', 'x': 2.5, 'y': None}]
        """
        return self._each("mean", columns)

    def min(self, *columns: str) -> F:
        """The smallest of `columns` for each value; see `sum`.

        >>> from fabric import DataFrame
        >>> df = DataFrame({"k": ["a", "a"], "m": ["x", "x"], "v": [1, 4]})
        >>> df.group_by("k").pivot("m", ["x", "y"]).min("v").to_dicts()
        [{'k': 'a', 'x': 1, 'y': None}]
        """
        return self._each("min", columns)

    def max(self, *columns: str) -> F:
        """The largest of `columns` for each value; see `sum`.

        >>> from fabric import DataFrame
        >>> df = DataFrame({"k": ["a", "a"], "m": ["x", "x"], "v": [1, 4]})
        >>> df.group_by("k").pivot("m", ["x", "y"]).max("v").to_dicts()
        [{'k': 'a', 'x': 4, 'y': None}]
        """
        return self._each("max", columns)

    def count(self) -> F:
        """How many rows there are for each value; null for none.

        >>> from fabric import DataFrame
        >>> df = DataFrame({"k": ["a", "a"], "m": ["x", "x"]})
        >>> df.group_by("k").pivot("m", ["x", "y"]).count().to_dicts()
        [{'k': 'a', 'x': 2, 'y': None}]
        """
        return self.agg(Expr(plan.Agg("count", None)).alias("count"))

    def _each(self, function: str, columns: tuple[str, ...]) -> F:
        if not columns:
            line = call_text(function, "x")
            raise PlanError(f"{function} of a pivot needs a column, for example {line}")
        return self.agg(*(Expr(plan.Agg(function, plan.Column(name))) for name in columns))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Nothing; what frames have needs an aggregate first."""
            raise no_frame(self, name)

    avg = mean


helpful(PivotedGroupBy)


def _agg_line(exprs: tuple[plan.Expr, ...]) -> str:
    return f".agg({', '.join(map(column_text, exprs))})"


def _named(value: Any, expr: plan.Expr, several: bool) -> str:
    name = value_name(value)
    return f"{name}_{plan.output_name(expr)}" if several else name
