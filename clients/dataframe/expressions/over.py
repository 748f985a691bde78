"""Windows as users write them: ``.over("k", order_by="t", rows=(-2, 0))`` and PySpark's `Window`.

One job: put partition, order and frame on the aggregates of an expression. That each then becomes
a column of a node below is the work of `lowering/over.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pyarrow as pa

from fabric.clients.dataframe.arguments import flatten, sort_keys
from fabric.clients.dataframe.durations import parse_duration
from fabric.clients.dataframe.expressions.types import ManyColumns, ManyKeys, column_node
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan.durations import UNITS_US
from fabric.plan.functions import AGGREGATES
from fabric.plan.mend import moved_call
from fabric.plan.printer import expr_text
from fabric.plan.walk import fold, with_expr_children

Ends = tuple[int | None, int | None]
TimeEnds = tuple[int | str | timedelta | None, int | str | timedelta | None]
"""The first and the last row of a frame, counted from the current one; None is the partition's."""

_FAR = 1 << 31
_WHOLE = plan.Frame("rows", None, None)
_SO_FAR = plan.Frame("range", None, 0)


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """A partition, an order and a frame, to give to ``.over(...)``; made by `Window`."""

    partition_by: tuple[plan.Expr, ...] = ()
    order_by: tuple[plan.SortKey, ...] = ()
    frame: plan.Frame | None = None
    runs: bool = True
    """Without a frame: whether an order makes aggregates run, as in Spark, or not, as in Polars."""

    def partitionBy(self, *columns: ManyColumns) -> WindowSpec:
        """The same window with the rows grouped by `columns`; without any, all rows are one group.

        >>> from fabric import Window, sum
        >>> sum("x").over(Window.orderBy("t").partitionBy("k"))
        col("x").sum().over("k", order_by="t", range=(None, 0))
        """
        return replace(self, partition_by=_partition(columns))

    def orderBy(self, *columns: ManyKeys) -> WindowSpec:
        """The same window with the rows of a group in the order of `columns`.

        An aggregate then covers the rows from the first of the group to the current one, with all
        rows of an equal key, until `rowsBetween` or `rangeBetween` says otherwise.

        >>> from fabric import DataFrame, Window, sum
        >>> running = Window.partitionBy("k").orderBy("t")
        >>> df = DataFrame({"k": ["a", "a", "b"], "t": [1, 2, 1], "x": [1, 2, 4]})
        >>> df.select("k", y=sum("x").over(running)).sort("k", "y").collect().to_pydict()
        {'k': ['a', 'a', 'b'], 'y': [1, 3, 4]}
        """
        return replace(self, order_by=_order(columns, False, None))

    def rowsBetween(self, start: int, end: int) -> WindowSpec:
        """The same over so many rows around each row: below 0 before it, above 0 after it.

        >>> from fabric import DataFrame, Window, sum
        >>> last2 = Window.orderBy("t").rowsBetween(-1, Window.currentRow)
        >>> df = DataFrame({"t": [1, 2, 3], "x": [1, 2, 4]})
        >>> df.select("t", y=sum("x").over(last2)).sort("t").collect().to_pydict()
        {'t': [1, 2, 3], 'y': [1, 3, 6]}
        """
        return replace(self, frame=_frame("rows", (_end(start), _end(end))))

    def rangeBetween(self, start: int, end: int) -> WindowSpec:
        """The same over the rows whose order key is so far from each row's; equal keys are in it.

        >>> from fabric import DataFrame, Window, sum
        >>> near = Window.orderBy("t").rangeBetween(-1, 0)
        >>> df = DataFrame({"t": [1, 2, 9], "x": [1, 2, 4]})
        >>> df.select("t", y=sum("x").over(near)).sort("t").collect().to_pydict()
        {'t': [1, 2, 9], 'y': [1, 3, 4]}
        """
        return replace(self, frame=_frame("range", (_end(start), _end(end))))

    rows_between = rowsBetween
    range_between = rangeBetween


class Window:
    """PySpark's way to write a window; as in PySpark, an order without a frame makes a sum run.

    Examples
    --------
    >>> from fabric import Window, col, sum
    >>> last3 = Window.partitionBy("carrier").orderBy("day").rowsBetween(-2, Window.currentRow)
    >>> sum("delay").over(last3)
    col("delay").sum().over("carrier", order_by="day", rows=(-2, 0))
    """

    unboundedPreceding = -sys.maxsize - 1
    unboundedFollowing = sys.maxsize
    currentRow = 0

    @staticmethod
    def partitionBy(*columns: ManyColumns) -> WindowSpec:
        """Rows grouped by `columns`; without an order an aggregate covers the whole group.

        >>> from fabric import DataFrame, Window, sum
        >>> df = DataFrame({"k": ["a", "a", "b"], "x": [1, 2, 4]})
        >>> df.select("k", y=sum("x").over(Window.partitionBy("k"))).sort("k").collect().to_pydict()
        {'k': ['a', 'a', 'b'], 'y': [3, 3, 4]}
        """
        return WindowSpec().partitionBy(*columns)

    @staticmethod
    def orderBy(*columns: ManyKeys) -> WindowSpec:
        """All rows in the order of `columns`, as one group; see `WindowSpec.orderBy`."""
        return WindowSpec().orderBy(*columns)

    @staticmethod
    def rowsBetween(start: int, end: int) -> WindowSpec:
        """So many rows around each row, of all rows; see `WindowSpec.rowsBetween`."""
        return WindowSpec().rowsBetween(start, end)

    @staticmethod
    def rangeBetween(start: int, end: int) -> WindowSpec:
        """The rows whose order key is so far from each row's; see `WindowSpec.rangeBetween`."""
        return WindowSpec().rangeBetween(start, end)

    partition_by = partitionBy
    order_by = orderBy
    rows_between = rowsBetween
    range_between = rangeBetween
    unbounded_preceding = unboundedPreceding
    unbounded_following = unboundedFollowing
    current_row = currentRow


def window_spec(
    partition_by: Sequence[Any],
    *,
    order_by: ManyKeys,
    descending: bool | Sequence[bool],
    nulls_last: bool | None,
    rows: Ends | None,
    range_: Ends | TimeEnds | None,
) -> WindowSpec:
    """What the arguments of ``over`` say."""
    given = [one for one in partition_by if isinstance(one, WindowSpec)]
    if given:
        if len(partition_by) > 1 or order_by is not None or rows or range_:
            raise PlanError("over takes a Window alone, or columns with order_by, rows and range")
        return given[0]
    if rows is not None and range_ is not None:
        raise PlanError(f"over takes one frame, got rows={rows} and range={range_}; leave one out")
    frame = None
    if rows is not None:
        frame = _frame("rows", rows)
    order = () if order_by is None else _order([order_by], descending, nulls_last)
    if range_ is not None:
        order, ends = _in_time(order, range_)
        frame = _frame("range", ends)
    return WindowSpec(_partition(partition_by), order, frame, runs=False)


def over(expr: plan.Expr, spec: WindowSpec) -> plan.Expr:
    """`expr` with every aggregate in it over the window of `spec`."""

    def one(part: plan.Expr, below: tuple[_Pair, ...]) -> _Pair:
        if isinstance(part, plan.Over):
            agg, *rest = below
            whole = with_expr_children(part, (agg.bare, *(b.whole for b in rest)))
            assert isinstance(whole, plan.Over)
            return _Pair(whole, moved_call(part, _filled(whole, spec)))
        whole = moved_call(part, with_expr_children(part, tuple(b.whole for b in below)))
        if isinstance(whole, plan.Agg):
            frame = _frame_of(whole, spec)
            return _Pair(whole, plan.Over(whole, spec.partition_by, spec.order_by, frame))
        return _Pair(whole, whole)

    done = fold(expr, one).whole
    if done is expr:
        text = expr_text(expr)
        raise PlanError(
            f"over needs an aggregate or a window function, and {text} has none that still "
            f"needs a window; write for example: {text}.sum().over(...)"
        )
    return done


@dataclass(frozen=True, slots=True)
class _Pair:
    """A part as it is inside a window function, and as it is elsewhere."""

    bare: plan.Expr
    whole: plan.Expr


def _filled(open_: plan.Over, spec: WindowSpec) -> plan.Over:
    """A window function such as ``cum_sum`` with what it has left open; a closed one as it is."""
    if open_.partition_by:
        return open_
    order = open_.order_by or spec.order_by
    return plan.Over(
        open_.input, spec.partition_by, order, open_.frame or _frame_of(open_.input, spec)
    )


def _frame_of(agg: plan.Agg, spec: WindowSpec) -> plan.Frame | None:
    """The frame of `agg`; None is what an order means in a plan, as in SQL: it runs."""
    if not spec.order_by or agg.function not in AGGREGATES:
        return spec.frame
    if spec.frame is None:
        return None if spec.runs else _WHOLE
    return None if spec.frame == _SO_FAR else spec.frame


def _partition(columns: Sequence[Any]) -> tuple[plan.Expr, ...]:
    return tuple(column_node(column) for column in flatten(columns) if column is not None)


def _order(
    columns: Sequence[Any], descending: bool | Sequence[bool], nulls_last: bool | None
) -> tuple[plan.SortKey, ...]:
    return sort_keys(columns, descending, nulls_last)


def _frame(unit: plan.FrameUnit, ends: Ends) -> plan.Frame:
    good = isinstance(ends, tuple) and len(ends) == 2
    if not good or any(end is not None and type(end) is not int for end in ends):
        raise PlanError(
            f"{unit}={ends!r} is not a valid frame; write {unit}=(first, last), counted from the "
            f"current row, None for the end of the partition: {unit}=(-2, 0)"
        )
    return plan.Frame(unit, *ends)


def _in_time(order: tuple[plan.SortKey, ...], ends: Any) -> tuple[tuple[plan.SortKey, ...], Any]:
    """A range whose ends are lengths of time, over the microseconds of its one key."""
    times = isinstance(ends, tuple) and any(isinstance(end, str | timedelta) for end in ends)
    if not times:
        return order, ends
    if len(order) != 1:
        raise PlanError(f'range={ends!r} needs one key, a time: .over(..., order_by="time")')
    time = plan.Call("as_time_of", (order[0].input, order[0].input))  # takes times only
    stamp = plan.Cast(time, pa.timestamp("us", "UTC"))
    key = replace(order[0], input=plan.Call("unix_micros", (stamp,)))
    return (key,), tuple(_micros(end) for end in ends)


def _micros(end: Any) -> int | None:
    """An end of a range in microseconds; 0 and None are themselves."""
    if end is None or (type(end) is int and end == 0):
        return None if end is None else 0
    number, unit = parse_duration(end)
    if unit not in UNITS_US:
        raise PlanError(f"a range can't end {end!r} away: a {unit} is not always as long")
    return number * UNITS_US[unit]


def _end(value: int) -> int | None:
    """PySpark's unbounded ends as None."""
    return None if abs(value) >= _FAR else value
