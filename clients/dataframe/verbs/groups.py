"""Verbs that make groups: group_by, rollup, cube, grouping sets, counts and summaries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

from fabric.clients.dataframe import arguments as args
from fabric.clients.dataframe.durations import Length
from fabric.clients.dataframe.expressions.expr import Expr
from fabric.clients.dataframe.expressions.types import Aggregates, IntoExpr, ManyColumns, ManyNames
from fabric.clients.dataframe.lowering.buckets import dynamic_windows
from fabric.clients.dataframe.lowering.describe import described
from fabric.clients.dataframe.names import call_text, choice, known_one
from fabric.clients.dataframe.verbs.group_by import GroupBy
from fabric.clients.dataframe.verbs.rows import RowVerbs
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan.faults import quoted
from fabric.plan.mend import free_name
from fabric.plan.stream_facts import stream_of


class GroupVerbs(RowVerbs):
    """``group_by`` and what is built on it."""

    __slots__ = ()

    def group_by(self, *keys: ManyColumns, **named: IntoExpr) -> GroupBy[Self]:
        """Groups of equal keys; ``.agg(...)`` makes one row of each. Nulls are equal.

        Parameters
        ----------
        keys
            Names of columns and expressions, one by one or as lists; none: all rows.
        named
            Keys under other names; a text is the column of that name.

        >>> from fabric import DataFrame, count, sum
        >>> df = DataFrame({"k": ["a", "b", "a"], "v": [1, 2, 3]})
        >>> df.group_by("k").agg(count().alias("n"), total=sum("v")).sort("k").collect().to_pylist()
        [{'k': 'a', 'n': 2, 'total': 4}, {'k': 'b', 'n': 1, 'total': 2}]
        """
        for name, value in named.items():
            if value is None or isinstance(value, bool):
                raise PlanError(_no_key(name, value))
        return GroupBy(self, args.expressions(keys, named, self.schema))

    def groupby(self, *keys: ManyColumns, **named: IntoExpr) -> GroupBy[Self]:
        """`group_by` as pandas calls it: ``by=`` are keys, too.

        >>> from fabric import DataFrame
        >>> DataFrame({"k": ["a", "a"], "v": [1, 2]}).groupby(by="k").sum("v").collect().to_pylist()
        [{'k': 'a', 'v': 3}]
        """
        by: Any = named.pop("by", ())
        return self.group_by(*keys, *args.flatten([by]), **named)

    def group_by_dynamic(
        self,
        index_column: str,
        *,
        every: Length,
        period: Length | None = None,
        offset: Length | None = None,
        group_by: ManyColumns = (),
        closed: Literal["left", "right"] = "left",
        label: Literal["left", "right"] = "left",
    ) -> GroupBy[Self]:
        """Groups of rows in the same window of time, as in Polars; the key is its beginning.

        Parameters
        ----------
        index_column
            A date or a time; null is a group of its own.
        every, period, offset
            A window begins so often, is so long (None: as `every`), and is moved by so much:
            ``"15 minutes"``, ``"15m"``, a timedelta. Fixed lengths are counted from 1970-01-01 by
            the clocks of the column's zone, weeks begin on Mondays. A row is in every window that
            it lies in, also in those that begin before the first row (Polars leaves some out).
        group_by
            More keys, which come first.
        closed
            Whether a time on the border belongs to the window that begins there, or ends there.
        label
            Whether a window is called by its beginning or its end.

        Examples
        --------
        >>> from datetime import datetime
        >>> from fabric import DataFrame, count
        >>> df = DataFrame({"t": [datetime(2024, 5, 1, 10, minute) for minute in (1, 14, 20)]})
        >>> quarters = df.group_by_dynamic("t", every="15m").agg(n=count())
        >>> quarters.sort("t").collect()["n"].to_pylist()
        [2, 1]
        """
        choice(closed, ("left", "right"), "group_by_dynamic", "closed")
        choice(label, ("left", "right"), "group_by_dynamic", "label")
        known_one(index_column, self.columns, "group_by_dynamic", index_column=index_column)
        if stream_of(self._node) is not None:
            raise PlanError(
                "windows of a stream go by its watermark; write: .with_watermark("
                f'{quoted(index_column)}, "5 seconds").group_by(...).window({quoted(str(every))})'
            )
        node, start = dynamic_windows(
            self._node, index_column, every=every, period=period, offset=offset, closed=closed,
            label=label,
        )  # fmt: skip
        keys = args.expressions(args.flatten([group_by]), {}, self.schema)
        return GroupBy(self._then(node), (*keys, plan.Alias(start, index_column)))

    def rollup(self, *keys: ManyColumns, **named: IntoExpr) -> GroupBy[Self]:
        """Groups of all keys, of all but the last, …, and of none: subtotals and the total.

        >>> from fabric import DataFrame, sum
        >>> df = DataFrame({"k": ["a", "b"], "v": [1, 2]})
        >>> df.rollup("k").agg(sum("v")).sort("k").collect().to_pylist()
        [{'k': None, 'v': 3}, {'k': 'a', 'v': 1}, {'k': 'b', 'v': 2}]
        """
        return self.group_by(*keys, **named).rollup()

    def cube(self, *keys: ManyColumns, **named: IntoExpr) -> GroupBy[Self]:
        """Groups of every subset of the keys; a key that is not in the subset is null.

        >>> from fabric import DataFrame, count
        >>> df = DataFrame({"a": ["x"], "b": ["y"]})
        >>> df.cube("a", "b").agg(n=count()).sort("a", "b").collect().to_pydict()
        {'a': [None, None, 'x', 'x'], 'b': [None, 'y', None, 'y'], 'n': [1, 1, 1, 1]}
        """
        return self.group_by(*keys, **named).cube()

    def grouping_sets(
        self, sets: Sequence[Sequence[str] | str], *keys: ManyColumns
    ) -> GroupBy[Self]:
        """Groups of each of the `sets` of keys; a key that is not in the set is null.

        Parameters
        ----------
        sets
            Names of keys: ``[["a", "b"], ["a"], []]``; the empty set is all rows.
        keys
            All keys, where some are expressions; none: those in `sets`.

        >>> from fabric import DataFrame, sum
        >>> df = DataFrame({"k": ["a", "b"], "v": [1, 2]})
        >>> df.grouping_sets([["k"], []]).agg(sum("v")).sort("k").collect().to_pylist()
        [{'k': None, 'v': 3}, {'k': 'a', 'v': 1}, {'k': 'b', 'v': 2}]
        """
        chosen = [name for one in sets for name in ([one] if isinstance(one, str) else one)]
        return self.group_by(*(keys or dict.fromkeys(chosen))).grouping_sets(sets)

    def agg(self, *aggregates: Aggregates, **named: IntoExpr) -> Self:
        """One row of aggregates over all rows, also where there are none.

        Parameters
        ----------
        aggregates, named
            As in `GroupBy.agg`.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"a": [1, 2, None]}).agg(col("a").sum(), n=col("a").count()).to_dicts()
        [{'a': 3, 'n': 2}]
        """
        return GroupBy(self, ()).agg(*aggregates, **named)

    def value_counts(self, *columns: ManyNames, name: str = "count", sort: bool = False) -> Self:
        """How often each value of `columns` (none given: each row) is there, nulls too.

        Parameters
        ----------
        columns
            The columns whose values are counted together.
        name
            The name of the column with the count.
        sort
            Whether the most frequent come first.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": ["x", "y", "x"]}).value_counts("a", sort=True).collect().to_pylist()
        [{'a': 'x', 'count': 2}, {'a': 'y', 'count': 1}]
        """
        names = self._names(columns, "value_counts") or self.columns
        if name in names:
            line = call_text("value_counts", *names, name=free_name(name, names))
            raise PlanError(f"value_counts: there is a column {quoted(name)}; write: {line}")
        counted = self.group_by(*names).agg(Expr(plan.Agg("count", None)).alias(name))
        return counted.sort(name, descending=True) if sort else counted

    def describe(self) -> Self:
        """Count, nulls, mean, deviation, extremes and quartiles of each column, a row each, in
        that order, extremes and quartiles by size.

        Numbers are summarised as float64, what can be compared otherwise as text.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1, 2, 3]}).describe().filter(statistic="mean").collect().to_pylist()
        [{'statistic': 'mean', 'a': 2.0}]
        """
        return self._then(described(self._node))

    summary = describe


def _no_key(name: str, value: bool | None) -> str:
    """What is said to an option of another library."""
    if name == "maintain_order" and value:
        return (
            "group_by has no maintain_order=, rows have no order by themselves; write: "
            ".group_by(...).agg(...).sort(...)"
        )
    return (
        f"group_by takes columns as keys, got {name}={value!r}; leave it out, or write "
        f"{name}=lit({value!r}) for a key that is the same in every row"
    )
