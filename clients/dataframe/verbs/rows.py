"""Verbs that choose and order rows; of equal rows `distinct` finds one by numbering them.

Select(all but the place)
  Filter(place == 1)
    Window(row_number() over keys, in order, as place)     for "none": count() over keys
      X
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace as with_
from typing import Any, Literal, Self

import pyarrow as pa

from fabric.clients.dataframe import arguments as args
from fabric.clients.dataframe.expressions.types import IntoExpr, ManyKeys, ManyNames, Predicates
from fabric.clients.dataframe.lowering.sample import sampled
from fabric.clients.dataframe.names import call_text, choice
from fabric.clients.dataframe.verbs.base import Verbs
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.faults import quoted
from fabric.plan.mend import free_name
from fabric.plan.nodes import Deduplicate
from fabric.plan.schema import schema_of
from fabric.plan.stream_facts import stream_of

Keep = Literal["any", "first", "last", "none"]


class RowVerbs(Verbs):
    """``filter``, ``sort``, ``limit``, ``distinct``, ``sample`` and their like."""

    __slots__ = ()

    def filter(self, *predicates: Predicates, **equal: IntoExpr) -> Self:
        """The rows for which every predicate is true; ``carrier="AA"`` means equality.

        Parameters
        ----------
        predicates
            Expressions, one by one or as lists, or names of columns of booleans.
        equal
            Values that columns of these names must have.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"a": [1, 2, None]}).filter(col("a") > 1).collect().to_pydict()
        {'a': [2]}
        """
        given = (args.predicate(predicates, equal),)
        below = self._windowed(given, "filter")
        predicate = below.exprs[0]
        if isinstance(predicate, plan.Alias):
            predicate = predicate.input
        node: nodes.Node = nodes.Filter(below.node, predicate)
        return self._after(given, below, self._kept(node) if below.added else node)

    def sort(
        self,
        *keys: ManyKeys,
        descending: bool | Sequence[bool] = False,
        nulls_last: bool | None = None,
    ) -> Self:
        """All rows in order: ``sort("a", col("b").desc())``.

        Parameters
        ----------
        keys
            Names and expressions, either with a direction of its own: ``.asc()``, ``.desc()``.
        descending
            For all keys without one, or a flag for each key.
        nulls_last
            None: ascending keys have nulls first, descending ones last.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [2, None, 3]}).sort("a", descending=True).collect().to_pydict()
        {'a': [3, 2, None]}
        """
        given = args.sort_keys(keys, descending, nulls_last)
        exprs = tuple(key.input for key in given)
        below = self._windowed(exprs, "sort")
        plain = (expr.input if isinstance(expr, plan.Alias) else expr for expr in below.exprs)
        order = tuple(with_(key, input=e) for key, e in zip(given, plain, strict=True))
        node: nodes.Node = nodes.Sort(below.node, order)
        return self._after(exprs, below, self._kept(node) if below.added else node)

    def limit(self, n: int = 5, offset: int = 0) -> Self:
        """At most `n` rows after `offset`; which ones is open unless the rows are sorted.

        Parameters
        ----------
        n
            How many rows at most.
        offset
            How many rows to leave out before them.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [3, 1, 2]}).sort("a").limit(1, offset=1).collect().to_pydict()
        {'a': [2]}
        """
        for name, value in (("n", n), ("offset", offset)):
            if not isinstance(value, int) or value < 0:
                raise PlanError(f"limit needs {name} of at least 0, got {value!r}")
        return self._then(nodes.Limit(self._node, n, offset))

    def head(self, n: int = 5) -> Self:
        """At most `n` rows, the same as ``limit(n)``.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [3, 1, 2]}).sort("a").head(2).collect().to_pydict()
        {'a': [1, 2]}
        """
        return self.limit(n)

    def top_k(
        self, k: int, *keys: ManyKeys, by: ManyKeys = None, reverse: bool | Sequence[bool] = False
    ) -> Self:
        """The `k` rows with the largest `keys`, or `by`, the largest first; nulls last.

        Parameters
        ----------
        k
            How many rows at most.
        keys, by
            Names and expressions, as positional arguments or as ``by=``.
        reverse
            Whether the smallest come first: one flag, or one for each key.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1, None, 3]}).top_k(2, "a").collect().to_pydict()
        {'a': [3, 1]}
        """
        return self._extreme("top_k", k, [keys, [] if by is None else by], reverse, largest=True)

    def bottom_k(
        self, k: int, *keys: ManyKeys, by: ManyKeys = None, reverse: bool | Sequence[bool] = False
    ) -> Self:
        """The `k` rows with the smallest `keys`, or `by`, the smallest first; nulls last.

        See `top_k`.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [3, None, 1, 2]}).bottom_k(2, "a").collect().to_pydict()
        {'a': [1, 2]}
        """
        return self._extreme(
            "bottom_k", k, [keys, [] if by is None else by], reverse, largest=False
        )

    def _extreme(
        self, verb: str, k: int, by: Sequence[Any], reverse: bool | Sequence[bool], *, largest: bool
    ) -> Self:
        keys = args.flatten(args.flatten(by))
        if type(k) is not int or k < 0:
            raise PlanError(f"{verb} needs a number of rows of at least 0, got {k!r}")
        if not keys:
            raise PlanError(f'{verb} needs a column to order by, for example {verb}({k}, "x")')
        flags = [reverse] * len(keys) if isinstance(reverse, bool) else list(reverse)
        if len(flags) != len(keys):
            raise PlanError(f"{verb} got {len(keys)} keys and {len(flags)} reverse flags")
        self._order(keys, lambda text: f".{verb}({k}, {text})")
        down = [flag != largest for flag in flags]
        return self.sort(*keys, descending=down, nulls_last=True).limit(k)

    def distinct(
        self,
        *on: ManyNames,
        subset: ManyNames | None = None,
        keep: Keep = "any",
        order_by: ManyKeys = None,
    ) -> Self:
        """Each different row once, or one row for each different `on`.

        Nulls are equal and so are NaNs.

        Parameters
        ----------
        on, subset
            The columns to compare; none: all of them.
        keep
            Which of the equal rows stays: ``any``, the ``first`` or the ``last`` in `order_by`, or
            ``none`` of them when there are several.
        order_by
            What ``first`` and ``last`` mean; rows have no order by themselves.

        Examples
        --------
        >>> from fabric import DataFrame
        >>> df = DataFrame({"k": ["a", "a", "b"], "t": [1, 2, 3]})
        >>> df.distinct("k", keep="last", order_by="t").sort("k").collect().to_pylist()
        [{'k': 'a', 't': 2}, {'k': 'b', 't': 3}]
        """
        choice(keep, ("any", "first", "last", "none"), "distinct", "keep")
        names = self._names([on, [] if subset is None else subset], "distinct")
        if keep in ("first", "last") and order_by is None:
            line = call_text("distinct", *names, keep=keep)[:-1]
            raise PlanError(
                f"distinct can't know the {keep} row without an order; write: {line}, "
                'order_by="...") with the column to order by, or keep="any"'
            )
        if keep == "any" and stream_of(self._node) is not None:
            keys = tuple(plan.Column(name) for name in names or self.columns)
            return self._then(Deduplicate(self._node, keys))
        if not names and keep == "any":
            return self._then(nodes.Distinct(self._node))
        order: tuple[plan.SortKey, ...] = ()
        if order_by is not None:
            start = call_text("distinct", *names, keep=keep)[:-1]
            order = self._order([order_by], lambda text: f"{start}, order_by={text})")
        return self._then(distinct_rows(self._node, names or self.columns, keep, order))

    def sample(
        self,
        fraction: float | None = None,
        *,
        n: int | None = None,
        seed: int | None = None,
        with_replacement: bool = False,
    ) -> Self:
        """A random sample of the rows: each with probability `fraction`, or exactly `n` of them.

        Parameters
        ----------
        fraction
            From 0 to 1; with replacement how often each row comes on the average, so it may be
            more. How many rows come differs from sample to sample.
        n
            How many rows; all of them, without replacement, where there are fewer.
        seed
            None: another sample in each run, drawn where the rows lie. A whole number: the same
            rows in every run and every place. Equal rows are numbered for that, which sends all
            rows to the task of their hash.
        with_replacement
            Whether a row may come several times.

        Raises
        ------
        PlanError
            Of a stream only ``sample(fraction)`` can be taken: no `n`, no `seed`.

        Examples
        --------
        >>> from fabric import DataFrame
        >>> df = DataFrame({"a": list(range(1000))})
        >>> df.sample(n=3).count(), 50 < df.sample(0.1).count() < 150
        (3, True)
        >>> some = df.sample(0.1, seed=1)
        >>> sorted(some.collect()["a"].to_pylist()) == sorted(some.collect()["a"].to_pylist())
        True
        """
        given = sampled(self._node, fraction, n, seed, with_replacement=with_replacement)
        return self._then(given)

    def with_row_index(
        self, name: str = "index", offset: int = 0, *, order_by: ManyKeys = None
    ) -> Self:
        """The rows numbered from `offset` in `order_by`, as the first column.

        Parameters
        ----------
        name
            The name of the new column, an int64.
        offset
            The number of the first row.
        order_by
            Names and expressions. Without them the call is refused: rows have no order.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [5, 3]}).with_row_index(order_by="a").sort("a").collect().to_pydict()
        {'index': [0, 1], 'a': [3, 5]}
        """
        if order_by is None:
            line = call_text("with_row_index", name)[:-1]
            raise PlanError(
                f"with_row_index needs an order, rows have none by themselves; write: {line}, "
                'order_by="...") with the column to order by'
            )
        if name in self.columns:
            free = call_text("with_row_index", free_name(name, self.columns), order_by=order_by)
            raise PlanError(f"there is a column {quoted(name)} already; write: {free}")
        start = call_text("with_row_index", name)[:-1]
        order = self._order([order_by], lambda text: f"{start}, order_by={text})")
        over = plan.Over(plan.Agg("row_number", None), (), order)
        node = nodes.Window(self._node, (plan.Alias(over, name),), path="with_row_index_*/window")
        wide = plan.Cast(plan.Column(name), pa.int64())
        index = plan.Call("add", (wide, plan.Literal(offset - 1, pa.int64())))
        rest = tuple(plan.Column(column) for column in self.columns)
        exprs: tuple[plan.Expr, ...] = (plan.Alias(index, name), *rest)
        return self._then(nodes.Select(node, exprs, path="with_row_index_*"))

    def is_empty(self) -> bool:
        """Whether there is no row; runs as far as needed, and waits for the first row of a stream.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"a": [1, 2]}).filter(col("a") > 2).is_empty()
        True
        """
        first: pa.Table = self._first(1)
        return len(first) == 0

    def drop_duplicates(self, subset: str | Iterable[str] | None = None) -> Self:
        """One row for each different `subset` (None: all columns), as in PySpark.

        Which of the rows stays is open; `distinct` can choose. Nulls are equal and so are NaNs.

        >>> from fabric import DataFrame
        >>> df = DataFrame({"a": [1, 1, None, None]})
        >>> df.drop_duplicates("a").sort("a").collect().to_pydict()
        {'a': [None, 1]}
        """
        return self.distinct(subset=subset)

    where = filter
    order_by = sort
    orderBy = sort
    unique = distinct


def distinct_rows(
    source: nodes.Node, on: Sequence[str], keep: str, order: tuple[plan.SortKey, ...]
) -> nodes.Node:
    """The rows of `source` that `keep` says, one or none for each different `on`."""
    names = schema_of(source).names
    keys = tuple(plan.Column(name) for name in on)
    if keep == "none":
        over = plan.Over(plan.Agg("count", None), keys)
    else:
        chosen = tuple(map(_reversed, order)) if keep == "last" else order
        over = plan.Over(plan.Agg("row_number", None), keys, chosen or _any_order())
    place = free_name("__place", names)
    numbered = nodes.Window(source, (plan.Alias(over, place),), path="distinct_*/window")
    first = plan.Call("eq", (plan.Column(place), plan.Literal(1, pa.int32())))
    kept = nodes.Filter(numbered, first, path="distinct_*/filter")
    return nodes.Select(kept, tuple(plan.Column(name) for name in names), path="distinct_*")


def _reversed(key: plan.SortKey) -> plan.SortKey:
    return with_(key, descending=not key.descending, nulls_last=not key.nulls_last)


def _any_order() -> tuple[plan.SortKey, ...]:
    """An order in which all rows are equal."""
    return (plan.SortKey(plan.Literal(0, pa.int32())),)
