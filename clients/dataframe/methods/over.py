"""Window functions as methods: ``col("x").cum_sum().over("k", order_by="t")``.

One job: what needs the rows around a row. Those that end with ``.over(...)`` stay open until then;
without an order where one is needed they are refused by the verb that takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

import pyarrow as pa

from fabric.clients.dataframe.expressions.over import Ends, TimeEnds, WindowSpec, over, window_spec
from fabric.clients.dataframe.expressions.types import (
    AnyExpression,
    Expression,
    IntoExpr,
    ManyColumns,
    ManyKeys,
    call,
    to_node,
)
from fabric.errors import PlanError
from fabric.plan import expr as plan

RankMethod = Literal["average", "min", "max", "dense", "ordinal"]
FillStrategy = Literal["forward", "backward", "min", "max", "mean", "zero", "one"]
_RUNNING = plan.Frame("rows", None, 0)
_IGNORE_NULLS = plan.Literal(True, pa.bool_())
_NULL = plan.Literal(None, pa.null())


class WindowMethods(Expression):
    """What an expression can say about the rows around its own.

    Examples
    --------
    >>> from fabric import DataFrame, col
    >>> df = DataFrame({"k": ["a", "a", "b"], "t": [1, 2, 1], "x": [1, 2, 5]})
    >>> both = df.with_columns(so_far=col("x").cum_sum().over("k", order_by="t"),
    ...                        off=col("x") - col("x").mean().over("k"))
    >>> both.sort("k", "t").collect().to_pydict()["so_far"]
    [1, 3, 5]
    """

    __slots__ = ()

    def over(
        self,
        *partition_by: ManyColumns | WindowSpec,
        order_by: ManyKeys | None = None,
        descending: bool | Sequence[bool] = False,
        nulls_last: bool | None = None,
        rows: Ends | None = None,
        range: Ends | TimeEnds | None = None,
    ) -> Self:
        """Every aggregate in the expression over the rows with equal `partition_by`.

        Parameters
        ----------
        partition_by
            Columns and expressions, or one `Window`; none: all rows.
        order_by
            A key of a sort or a list of them. An aggregate takes all rows of the partition in
            this order, as in Polars. A running one is ``cum_sum()`` and its siblings,
            ``range=(None, 0)``, or an order in a `Window`, as in SQL.
        rows, range
            The frame: the first and the last row counted from the current one (None: the end of
            the partition), or how far their order key may be from it: numbers, or of times
            ``("-1h", 0)`` and timedeltas.

        Examples
        --------
        >>> from fabric import col
        >>> (col("x") / col("x").sum()).over("k")
        col("x") / col("x").sum().over("k")
        >>> col("x").mean().over("k", order_by="t", rows=(-2, 0))
        col("x").mean().over("k", order_by="t", rows=(-2, 0))
        """
        spec = window_spec(
            partition_by, order_by=order_by, descending=descending, nulls_last=nulls_last,
            rows=rows, range_=range,
        )  # fmt: skip
        return self._of(over(self.node, spec))

    # ---- neighbours
    def lag(self, offset: int = 1, default: IntoExpr = None) -> Self:
        """The value `offset` rows before, null where that is; `default` where there is no such row.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"t": [1, 2, 3], "x": [5, None, 8]})
        >>> df.select("t", y=col("x").lag(1, 0).over(order_by="t")).sort("t").to_dicts()
        [{'t': 1, 'y': 0}, {'t': 2, 'y': 5}, {'t': 3, 'y': None}]
        """
        return _shifted("lag", self, offset, default)

    def lead(self, offset: int = 1, default: IntoExpr = None) -> Self:
        """The value `offset` rows after, null where that is; `default` where there is no such row.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"t": [1, 2, 3], "x": [5, None, 8]})
        >>> df.select("t", y=col("x").lead(1, 0).over(order_by="t")).sort("t").to_dicts()
        [{'t': 1, 'y': None}, {'t': 2, 'y': 8}, {'t': 3, 'y': 0}]
        """
        return _shifted("lead", self, offset, default)

    def shift(self, n: int = 1, *, fill_value: IntoExpr = None) -> Self:
        """The value `n` rows before (below 0: after), as in Polars.

        >>> from fabric import col
        >>> col("x").shift(-1).over(order_by="t")
        col("x").lead(1).over(order_by="t")
        """
        return self.lag(n, fill_value) if n >= 0 else self.lead(-n, fill_value)

    def diff(self, n: int = 1) -> Self:
        """The value minus the one `n` rows before; null where one of both is null or not there.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"t": [1, 2, 3], "x": [5, 6, 8]})
        >>> df.select("t", y=col("x").diff().over(order_by="t")).sort("t").to_dicts()
        [{'t': 1, 'y': None}, {'t': 2, 'y': 1}, {'t': 3, 'y': 2}]
        """
        return call("subtract", self, self.shift(n))

    def pct_change(self, n: int = 1) -> Self:
        """By which part the value is above the one `n` rows before: 0.5 is half as much more.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"t": [1, 2], "x": [4, 6]})
        >>> df.select(y=col("x").pct_change().over(order_by="t")).sort("y").to_dicts()
        [{'y': None}, {'y': 0.5}]
        """
        return call("subtract", call("divide", self, self.shift(n)), 1)

    def first_value(self, ignore_nulls: bool = False) -> Self:
        """The first value of the frame; with `ignore_nulls` the first that is not null.

        >>> from fabric import DataFrame, col
        >>> known = col("x").first_value(ignore_nulls=True).over(order_by="t")
        >>> DataFrame({"t": [1, 2, 3], "x": [None, 5, 6]}).select("t", y=known).sort("t").to_dicts()
        [{'t': 1, 'y': None}, {'t': 2, 'y': 5}, {'t': 3, 'y': 5}]
        """
        return _placed("first_value", self, (), ignore_nulls)

    def last_value(self, ignore_nulls: bool = False) -> Self:
        """The last value of the frame; by default a frame ends at the current row.

        With `ignore_nulls` it is the last that is not null.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"t": [1, 2], "x": [5, None]})
        >>> known = col("x").last_value(ignore_nulls=True).over(order_by="t")
        >>> df.with_columns(y=known).sort("t").collect()["y"].to_pylist()
        [5, 5]
        """
        return _placed("last_value", self, (), ignore_nulls)

    def nth_value(self, n: int, ignore_nulls: bool = False) -> Self:
        """Value number `n` of the frame, counted from 1; null where the frame has fewer rows.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"t": [1, 2, 3], "x": [5, 6, 8]})
        >>> df.select("t", y=col("x").nth_value(2).over(order_by="t")).sort("t").to_dicts()
        [{'t': 1, 'y': None}, {'t': 2, 'y': 6}, {'t': 3, 'y': 6}]
        """
        return _placed("nth_value", self, (plan.Literal(n, pa.int32()),), ignore_nulls)

    # ---- running
    def cum_sum(self) -> Self:
        """The sum of all values up to the row; null where the value is null, as in Polars.

        Rows with equal keys of the order are summed one after the other, in no promised order.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"t": [1, 2, 3], "x": [5, None, 8]})
        >>> df.select("t", y=col("x").cum_sum().over(order_by="t")).sort("t").to_dicts()
        [{'t': 1, 'y': 5}, {'t': 2, 'y': None}, {'t': 3, 'y': 13}]
        """
        return _running("sum", self)

    def cum_min(self) -> Self:
        """The smallest value up to the row; null where the value is null.

        >>> from fabric import DataFrame, col
        >>> y = col("x").cum_min().over(order_by="t")
        >>> DataFrame({"t": [1, 2, 3], "x": [5, None, 3]}).select("t", y=y).sort("t").to_dicts()
        [{'t': 1, 'y': 5}, {'t': 2, 'y': None}, {'t': 3, 'y': 3}]
        """
        return _running("min", self)

    def cum_max(self) -> Self:
        """The largest value up to the row, NaN above all numbers; null where the value is null."""
        return _running("max", self)

    def cum_mean(self) -> Self:
        """The mean of all values up to the row, a float64; null where the value is null."""
        return _running("mean", self)

    def cum_count(self) -> Self:
        """How many values up to the row are not null.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"t": [1, 2, 3], "x": [5, None, 8]})
        >>> df.select("t", y=col("x").cum_count().over(order_by="t")).sort("t").to_dicts()
        [{'t': 1, 'y': 1}, {'t': 2, 'y': 1}, {'t': 3, 'y': 2}]
        """
        return self._of(plan.Over(plan.Agg("count", to_node(self)), frame=_RUNNING))

    def rolling_sum(self, window_size: int, *, min_samples: int | None = None) -> Self:
        """The sum of the last `window_size` rows; null of fewer than `min_samples` values.

        `min_samples` None means all `window_size`, as in Polars; a null is no value.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"t": [1, 2, 3], "x": [5, 6, None]})
        >>> strict, some = col("x").rolling_sum(2), col("x").rolling_sum(2, min_samples=1)
        >>> both = df.select("t", a=strict.over(order_by="t"), b=some.over(order_by="t")).sort("t")
        >>> both.collect().to_pydict()
        {'t': [1, 2, 3], 'a': [None, 11, None], 'b': [5, 11, 6]}
        """
        return _rolling("sum", self, window_size, min_samples)

    def rolling_mean(self, window_size: int, *, min_samples: int | None = None) -> Self:
        """The mean of the last `window_size` rows, a float64; for nulls see `rolling_sum`."""
        return _rolling("mean", self, window_size, min_samples)

    def rolling_min(self, window_size: int, *, min_samples: int | None = None) -> Self:
        """The smallest of the last `window_size` rows; for nulls see `rolling_sum`."""
        return _rolling("min", self, window_size, min_samples)

    def rolling_max(self, window_size: int, *, min_samples: int | None = None) -> Self:
        """The largest of the last `window_size` rows; for nulls see `rolling_sum`."""
        return _rolling("max", self, window_size, min_samples)

    def rolling_std(self, window_size: int, *, min_samples: int | None = None) -> Self:
        """The sample standard deviation of the last `window_size` rows; null of one value."""
        return _rolling("std", self, window_size, min_samples)

    def rolling_var(self, window_size: int, *, min_samples: int | None = None) -> Self:
        """The sample variance of the last `window_size` rows; see `rolling_sum`.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"t": [1, 2], "x": [4, 6]})
        >>> df.select(y=col("x").rolling_var(2).over(order_by="t")).sort("y").to_dicts()
        [{'y': None}, {'y': 2.0}]
        """
        return _rolling("var", self, window_size, min_samples)

    # ---- places in an order
    def rank(self, method: RankMethod = "average", *, descending: bool = False) -> Self:
        """The place of the value among all of its group, from 1; null has none.

        Equal values get the mean of their places (``average``), the smallest (``min``), the largest
        (``max``), the number of different values up to them (``dense``), or each its own in no
        promised order (``ordinal``).

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": [10, 20, 20]})
        >>> df.select("x", place=col("x").rank("min").over()).sort("x").collect().to_pydict()
        {'x': [10, 20, 20], 'place': [1, 2, 2]}
        """
        return self._of(_rank(to_node(self), method, descending))

    # ---- nulls
    def fill_null(self, value: IntoExpr = None, strategy: FillStrategy | None = None) -> Self:
        """The value, or `value` where it is null; or by a `strategy`.

        ``forward`` and ``backward`` take the nearest value before or after the row and end with
        ``.over(..., order_by=...)``; ``min``, ``max`` and ``mean`` are over a window too.

        >>> from fabric import col
        >>> col("x").fill_null(0)
        coalesce(col("x"), lit(0))
        """
        if strategy is None:
            return call("coalesce", self, value)
        if value is not None:
            raise PlanError(
                f"fill_null takes a value or a strategy, got {value!r} and {strategy!r}"
            )
        return _filled(self, strategy)

    def forward_fill(self) -> Self:
        """The value, or where it is null the nearest before it; ends with ``.over(order_by=…)``.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"t": [1, 2, 3], "x": [None, 6, None]})
        >>> df.select("t", y=col("x").forward_fill().over(order_by="t")).sort("t").to_dicts()
        [{'t': 1, 'y': None}, {'t': 2, 'y': 6}, {'t': 3, 'y': 6}]
        """
        return _filled(self, "forward")

    def backward_fill(self) -> Self:
        """The value, or where it is null the nearest after it; ends with ``.over(order_by=…)``.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"t": [1, 2, 3], "x": [None, 6, None]})
        >>> df.select("t", y=col("x").backward_fill().over(order_by="t")).sort("t").to_dicts()
        [{'t': 1, 'y': 6}, {'t': 2, 'y': 6}, {'t': 3, 'y': None}]
        """
        return _filled(self, "backward")


def _shifted(function: str, source: AnyExpression, offset: int, default: IntoExpr) -> AnyExpression:
    if type(offset) is not int or offset < 0:
        other = "lead" if function == "lag" else "lag"
        way = f"; write: .{other}({-offset})" if type(offset) is int else ""
        raise PlanError(f"{function} takes a number of rows of at least 0, got {offset!r}{way}")
    args: tuple[plan.Expr, ...] = (plan.Literal(offset, pa.int32()),)
    if default is not None:
        args = (*args, to_node(default))
    return source._of(plan.Agg(function, to_node(source), args))


def _placed(
    function: str, source: AnyExpression, args: tuple[plan.Expr, ...], ignore_nulls: bool
) -> AnyExpression:
    if ignore_nulls:
        args = (*args, _IGNORE_NULLS)
    return source._of(plan.Agg(function, to_node(source), args))


def _unless_null(source: plan.Expr, value: plan.Expr) -> plan.Expr:
    """`value`, null where `source` is."""
    return plan.Case(((plan.Call("is_not_null", (source,)), value),), _NULL)


def _running(function: str, source: AnyExpression) -> AnyExpression:
    node = to_node(source)
    return source._of(_unless_null(node, plan.Over(plan.Agg(function, node), frame=_RUNNING)))


def _rolling(function: str, source: AnyExpression, size: int, least: int | None) -> AnyExpression:
    if type(size) is not int or size < 1:
        raise PlanError(f"rolling_{function} takes a window_size of at least 1, got {size!r}")
    least = size if least is None else least
    if type(least) is not int or not 1 <= least <= size:
        raise PlanError(
            f"rolling_{function} takes min_samples from 1 to window_size={size}, got {least!r}"
        )
    node, frame = to_node(source), plan.Frame("rows", 1 - size, 0)
    n_values = plan.Over(plan.Agg("count", node), frame=frame)
    enough = plan.Call("ge", (n_values, plan.Literal(least, pa.int32())))
    value = plan.Over(plan.Agg(function, node), frame=frame)
    return source._of(plan.Case(((enough, value),), _NULL))


def _rank(source: plan.Expr, method: str, descending: bool) -> plan.Expr:
    def place(function: str, down: bool) -> plan.Over:
        return plan.Over(plan.Agg(function, None), (), (plan.SortKey(source, down, True),))

    def largest() -> plan.Expr:
        n_values = plan.Over(plan.Agg("count", source))
        not_above = plan.Call("subtract", (n_values, place("rank", not descending)))
        return plan.Call("add", (not_above, to_node(1)))

    match method:
        case "min":
            answer: plan.Expr = place("rank", descending)
        case "dense":
            answer = place("dense_rank", descending)
        case "ordinal":
            answer = place("row_number", descending)
        case "max":
            answer = largest()
        case "average":
            both = plan.Call("add", (place("rank", descending), largest()))
            answer = plan.Call("divide", (both, to_node(2)))
        case _:
            raise PlanError(
                f"rank has no method {method!r}; use 'average', 'min', 'max', 'dense' or 'ordinal'"
            )
    return _unless_null(source, answer)


def _filled(source: AnyExpression, strategy: str) -> AnyExpression:
    node = to_node(source)
    match strategy:
        case "forward":
            agg = plan.Agg("last_value", node, (_IGNORE_NULLS,))
            value: IntoExpr = source._of(plan.Over(agg, frame=_RUNNING))
        case "backward":
            agg = plan.Agg("first_value", node, (_IGNORE_NULLS,))
            value = source._of(plan.Over(agg, frame=plan.Frame("rows", 0, None)))
        case "min" | "max" | "mean":
            value = source._of(plan.Over(plan.Agg(strategy, node)))
        case "zero" | "one":
            value = 0 if strategy == "zero" else 1
        case _:
            raise PlanError(
                f"fill_null has no strategy {strategy!r}; use 'forward', 'backward', 'min', 'max', "
                "'mean', 'zero' or 'one'"
            )
    return call("coalesce", source, value)
