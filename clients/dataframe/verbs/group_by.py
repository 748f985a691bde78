"""What ``df.group_by(...)`` gives: groups that wait for ``.agg(...)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import pyarrow as pa

from fabric.clients.dataframe import arguments as args
from fabric.clients.dataframe.calls import helpful
from fabric.clients.dataframe.durations import Length, maybe_us, us
from fabric.clients.dataframe.expressions.literal import SchemaLike
from fabric.clients.dataframe.expressions.types import Aggregates, IntoExpr
from fabric.clients.dataframe.functions.aggregates import registry_name
from fabric.clients.dataframe.lowering.aggregates import (
    DOMAINS,
    Windows,
    aggregate,
    refuse_windows,
    stream_aggregate,
)
from fabric.clients.dataframe.lowering.checks import check_aggregates, checked_types
from fabric.clients.dataframe.lowering.grouping_sets import (
    KeySet,
    aggregate_sets,
    cube_sets,
    rollup_sets,
)
from fabric.clients.dataframe.lowering.map import map_groups
from fabric.clients.dataframe.methods.aggregates import n_unique_of
from fabric.clients.dataframe.names import call_text, choice, known_names, no_frame, whole
from fabric.clients.dataframe.verbs.base import F
from fabric.clients.dataframe.verbs.group_aggregates import GroupAggregates
from fabric.clients.dataframe.verbs.pivot import PivotedGroupBy
from fabric.clients.dataframe.windows import window_of
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan.event_windows import Trigger, Window
from fabric.plan.faults import quoted
from fabric.plan.nodes import Domain, Late
from fabric.plan.printer import expr_text
from fabric.plan.python import column_text
from fabric.plan.schema import schema_of
from fabric.plan.stream_facts import stream_of


class WindowOptions(TypedDict, total=False):
    """The options of `GroupBy.window`."""

    slide: Length | None
    step: Length | None
    offset: Length | None
    time: Domain
    lateness: Length | None
    late: Late
    updates: bool
    early: Length | None
    early_rows: int | None


class GroupBy(GroupAggregates[F]):
    """Groups of rows with equal keys.

    Examples
    --------
    >>> from fabric import DataFrame, col
    >>> groups = DataFrame({"k": ["a", "a"], "v": [1, 2]}).group_by("k")
    >>> groups.agg(share=col("v").max() / col("v").sum()).collect().to_pylist()
    [{'k': 'a', 'share': 0.6666666666666666}]
    """

    __slots__ = ("_sets", "_window")

    def __init__(
        self,
        frame: F,
        keys: tuple[plan.Expr, ...],
        sets: tuple[KeySet, ...] | None = None,
        window: Windows | None = None,
    ) -> None:
        super().__init__(frame, keys)
        self._sets = sets
        self._window = window

    def window(
        self,
        window: Length | Window,
        *,
        slide: Length | None = None,
        step: Length | None = None,
        offset: Length | None = None,
        time: Domain = "event",
        lateness: Length | None = None,
        late: Late = "drop",
        updates: bool = False,
        early: Length | None = None,
        early_rows: int | None = None,
    ) -> GroupBy[F]:
        """Groups of equal keys and the same window of a stream: ``window_start``, ``window_end``.

        Parameters
        ----------
        window
            How long: "1 hour" side by side, with `slide` overlapping, with `step` growing; or what
            `fabric.session`, `fabric.tumbling` … make.
        time
            ``event`` is the column of `with_watermark`, ``processing`` the clock of the tasks.
        lateness
            For how long after its end a window still takes rows.
        late
            Rows after that are counted and dropped, or (``side``) put aside: see `side_output`.
        updates
            A result at the window's end already, and one for each change until it closes. By
            default there is one, when no row can change it any more.
        early, early_rows
            Results of what is there so often, and after so many rows. They and `updates` make
            results change: `changes` makes each change a row.

        Examples
        --------
        >>> from fabric import streams
        >>> bids = streams.nexmark("bid", n_events=100).with_watermark("dateTime", "1 second")
        >>> bids.group_by("auction").window("10 seconds", slide="2 seconds").count().columns
        ['auction', 'window_start', 'window_end', 'count']
        """
        if self._sets is not None:
            raise PlanError("a window needs plain groups: write .group_by(...).window(...)")
        if early_rows is not None:
            whole(early_rows, 1, "window", "early_rows")
        chosen = Windows(
            window_of(window, slide, step, offset), choice(time, DOMAINS, "window", "time"),
            0 if lateness is None else us(lateness, "lateness"), late,
            Trigger(maybe_us(early, "early"), early_rows, "each" if updates else "close"),
        )  # fmt: skip
        return GroupBy(self._frame, self._keys, window=chosen)

    def agg(self, *aggregates: Aggregates, **named: IntoExpr) -> F:
        """One row a group: aggregates, ``name=aggregate``, or PySpark's ``{"column": "sum"}``.

        Parameters
        ----------
        aggregates
            Expressions of aggregates, one by one or as lists, or a dict of PySpark's form.
        named
            Aggregates under names of their own.

        >>> from fabric import DataFrame, col
        >>> groups = DataFrame({"k": ["a", "a"], "v": [1, None]}).group_by("k")
        >>> groups.agg(col("v").sum(), n=col("v").count()).to_dicts()
        [{'k': 'a', 'v': 1, 'n': 1}]
        >>> groups.agg({"v": "max"}).to_dicts()
        [{'k': 'a', 'max(v)': 1}]
        """
        exprs: list[plan.Expr] = []
        for aggregate_ in args.flatten(aggregates):
            if isinstance(aggregate_, Mapping):
                exprs += [_by_name(column, name) for column, name in aggregate_.items()]
            else:
                exprs += args.expressions([aggregate_], {}, self._no_keys())
        exprs += args.expressions((), named, self._frame.schema)
        if not exprs:
            raise PlanError('agg needs an aggregate, for example agg(total=col("x").sum())')
        return self._aggregated(exprs)

    def map_groups(self, function: Callable[[pa.Table], Any], schema: SchemaLike) -> F:
        """The rows that `function` gives for the rows of each group: Arrow in, Arrow out.

        A group lies with one task as a whole, as one table with all columns of the frame, keys
        too; its rows are in any order. See `DataFrame.map_batches` for the parameters.

        >>> from fabric import DataFrame
        >>> df = DataFrame({"k": ["a", "a", "b"], "t": [2, 1, 5]})
        >>> def gaps(rows):
        ...     times = rows.sort_by("t")["t"].to_pylist()
        ...     return {"k": [rows["k"][0].as_py()], "span": [times[-1] - times[0]]}
        >>> spans = df.group_by("k").map_groups(gaps, {"k": "string", "span": "int64"})
        >>> spans.sort("k").to_dicts()
        [{'k': 'a', 'span': 1}, {'k': 'b', 'span': 0}]
        """
        if self._sets is not None or self._window is not None or not self._keys:
            raise PlanError("map_groups needs plain groups: write .group_by(...).map_groups(...)")
        return self._frame._then(map_groups(self._frame._node, self._keys, function, schema))

    def _no_keys(self) -> pa.Schema:
        """What a selection of columns chooses from."""
        keys = {plan.output_name(key) for key in self._keys}
        return pa.schema([field for field in self._frame.schema if field.name not in keys])

    def _aggregated(self, exprs: Sequence[plan.Expr]) -> F:
        n_keys = len(self._keys)
        refuse_windows(exprs)
        below = self._frame._windowed((*self._keys, *exprs), "group_by")
        keys, aggs = below.exprs[:n_keys], below.exprs[n_keys:]
        if self._window is not None or stream_of(below.node) is not None:
            node = stream_aggregate(below.node, keys, aggs, self._window, self._sets)
        elif self._sets is None:
            node = aggregate(below.node, keys, aggs)
        else:
            self._check_sets(keys, aggs, schema_of(below.node))
            node = aggregate_sets(below.node, keys, aggs, self._sets)
        return self._frame._after((*self._keys, *exprs), below, node)

    def _check_sets(
        self, keys: Sequence[plan.Expr], aggs: Sequence[plan.Expr], schema: pa.Schema
    ) -> None:
        """Refuse wrong keys and aggregates before the sets become one aggregate each."""
        checked_types([key.input if isinstance(key, plan.Alias) else key for key in keys], schema,
                      "group_by", lambda given: f".group_by({_listed(given)})")  # fmt: skip
        check_aggregates(aggs, schema, "agg", lambda given: f".agg({_listed(given)})")

    # ---- sets of keys
    def rollup(self) -> GroupBy[F]:
        """All keys, all but the last, …, and none: subtotals and the total.

        >>> from fabric import DataFrame, count, grouping_id
        >>> groups = DataFrame({"a": [1, 1], "b": [2, 3]}).group_by("a", "b").rollup()
        >>> totals = groups.agg(count().alias("n"), level=grouping_id()).sort("level", "b")
        >>> totals.collect().to_pydict()["n"]
        [1, 1, 2, 2]
        """
        return GroupBy(self._frame, self._keys, rollup_sets(len(self._keys)))

    def cube(self) -> GroupBy[F]:
        """Every subset of the keys; a key that is not in the subset is null.

        >>> from fabric import DataFrame, sum
        >>> groups = DataFrame({"k": ["a", "b"], "v": [1, 2]}).group_by("k").cube()
        >>> groups.agg(sum("v")).sort("k").collect().to_pydict()
        {'k': [None, 'a', 'b'], 'v': [3, 1, 2]}
        """
        return GroupBy(self._frame, self._keys, cube_sets(len(self._keys)))

    def grouping_sets(self, sets: Sequence[Sequence[str] | str]) -> GroupBy[F]:
        """Each of the `sets` of keys, by their names: ``[["a", "b"], ["a"], []]``.

        >>> from fabric import DataFrame, sum
        >>> groups = DataFrame({"a": [1], "b": [2], "v": [3]}).group_by("a", "b")
        >>> groups.grouping_sets([["a"], ["b"]]).agg(sum("v")).sort("a").to_dicts()
        [{'a': None, 'b': 2, 'v': 3}, {'a': 1, 'b': None, 'v': 3}]
        """
        names = [plan.output_name(key) for key in self._keys]
        given = [[one] if isinstance(one, str) else list(one) for one in sets]
        if not given:
            raise PlanError("grouping_sets needs a set of keys, for example [[]] for the total")
        for index, one in enumerate(given):
            known_names(
                one, names, "grouping_sets",
                lambda mended, at=index: call_text(  # type: ignore[misc]
                    "grouping_sets", [*given[:at], mended, *given[at + 1 :]]
                ),
            )  # fmt: skip
        return GroupBy(self._frame, self._keys,
                       tuple(tuple(name in one for name in names) for one in given))  # fmt: skip

    def pivot(self, on: str, values: Sequence[Any] | None = None) -> PivotedGroupBy[F]:
        """A column for each of `values` of the column `on`, as in PySpark.

        Without `values` a first job finds them.

        >>> from fabric import DataFrame
        >>> df = DataFrame({"k": ["a", "a"], "m": ["x", "y"], "v": [1, 2]})
        >>> df.group_by("k").pivot("m", ["x", "y"]).sum("v").collect().to_pylist()
        [{'k': 'a', 'x': 1, 'y': 2}]
        """
        if self._sets is not None:
            raise PlanError("a pivot needs plain groups: write .group_by(...).pivot(...)")
        return PivotedGroupBy(self._frame, self._keys, on, values)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Nothing; what frames have needs an aggregate first."""
            raise no_frame(self, name)

    def __getitem__(self, item: object) -> Any:
        name = quoted(str(item))
        raise PlanError(f"groups have no columns; write: .agg(col({name}).sum())")

    def __repr__(self) -> str:
        keys = ", ".join(expr_text(key) for key in self._keys)
        return f"GroupBy({keys}); .agg(...) makes one row of each group"


helpful(GroupBy)


def _listed(exprs: Sequence[plan.Expr]) -> str:
    return ", ".join(map(column_text, exprs))


def _by_name(column: str, function: str) -> plan.Expr:
    """PySpark's ``{"x": "sum"}``; the output is called ``sum(x)`` as there."""
    if not isinstance(function, str):
        raise PlanError(
            f"agg: {quoted(column)} needs the name of one aggregate, got {function!r}; for several "
            f"write: .agg(col({quoted(column)}).sum(), high=col({quoted(column)}).max())"
        )
    if function in ("n_unique", "nunique"):
        return plan.Alias(n_unique_of(plan.Column(column)), f"{function}({column})")
    name = registry_name(
        function, f'agg: {{"{column}": "{function}"}}',
        lambda near: f"{{{quoted(column)}: {quoted(near)}}}",
    )  # fmt: skip
    source = None if column == "*" else plan.Column(column)
    return plan.Alias(plan.Agg(name, source), f"{function}({column})")
