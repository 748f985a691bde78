"""Verbs that put frames together: the columns of two side by side, and set operations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self

from fabric.clients.dataframe import arguments as args
from fabric.clients.dataframe.durations import Length
from fabric.clients.dataframe.expressions.types import (
    KeyColumns,
    PointOrRange,
    Predicates,
    Tolerance,
    all_of,
)
from fabric.clients.dataframe.lowering.asof import Asof, asof
from fabric.clients.dataframe.lowering.joins import interval_condition, null_safe
from fabric.clients.dataframe.lowering.sets import by_name, compared, numbered
from fabric.clients.dataframe.lowering.stream_joins import (
    are_streams,
    as_of,
    by_interval,
    check_salt,
    check_tables,
    of_streams,
    temporal,
)
from fabric.clients.dataframe.names import choice, text
from fabric.clients.dataframe.verbs.base import Verbs
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.stream_facts import stream_of

Keys = tuple[plan.Expr, ...]
Closed = Literal["both", "left", "right", "none"]


class JoinVerbs(Verbs):
    """``join``, ``join_asof``, ``join_temporal``, ``join_interval`` and ``cross_join``."""

    __slots__ = ()

    def join(
        self,
        other: Self,
        on: KeyColumns | None = None,
        how: args.JoinName = "inner",
        *,
        left_on: KeyColumns | None = None,
        right_on: KeyColumns | None = None,
        where: Predicates | None = None,
        suffix: str = "_right",
        strategy: nodes.JoinStrategy = "auto",
        nulls_equal: bool = False,
        late: nodes.Late = "drop",
        ttl: Length | None = None,
        salt: int | None = None,
    ) -> Self:
        """Rows of both sides with equal keys; null keys match nothing.

        Parameters
        ----------
        on, left_on, right_on
            A name, an expression or a list of them; `on` for both sides alike, or as in PySpark
            ``col("a") == col("b")``. A key that both sides name alike is put out once.
        how
            ``inner``, ``left``, ``right``, ``full``, ``semi``, ``anti`` or ``cross`` (PySpark's
            ``left_semi``, ``full_outer`` … too).
        where
            What must be true of a pair of rows too; it reads columns by the names they have after
            the join. Without keys it is all that decides.
        suffix
            Put behind a right column that the left side also has.
        strategy
            ``broadcast`` sends all of `other` everywhere, ``hash`` partitions both sides.
        nulls_equal
            True lets null keys match each other.

        A stream joins a table (inner, left, semi, anti), which is read whole first. Two streams
        need the end of a window as a key, or a `ttl`: see `docs/joins.md`, also for a `salt`.

        Examples
        --------
        >>> from fabric import DataFrame, col
        >>> flights = DataFrame({"carrier": ["AA", "ZZ"], "delay": [5, 20]})
        >>> names = DataFrame({"carrier": ["AA"], "name": ["American"]})
        >>> flights.join(names, on="carrier", how="left").sort("carrier").collect().to_pylist()[1]
        {'carrier': 'ZZ', 'delay': 20, 'name': None}
        >>> codes = DataFrame({"code": ["AA"], "limit": [10]})
        >>> flights.join(codes, col("carrier") == col("code")).collect().to_pylist()
        [{'carrier': 'AA', 'delay': 5, 'code': 'AA', 'limit': 10}]
        >>> flights.join(codes, where=col("delay") > col("limit")).count()
        1
        """
        self._other(other, "join")
        kind = args.join_how(how)
        text(suffix, "join", "suffix")
        condition = None if where is None else args.predicate([where], {}, "join")
        left = right = Keys()
        pairs = args.pairs_of(on, self.columns, other.columns) if on is not None else None
        if pairs is not None and left_on is None and right_on is None:
            left, right, more = pairs
            condition = _both(condition, more)
        elif (condition is None and kind != "cross") or _is_given(on, left_on, right_on):
            left, right = args.join_keys(on, left_on, right_on)
        node = nodes.Join(self._node, other._node, left, right, kind, suffix, strategy, condition)
        if (streaming := of_streams(node, late, ttl, salt)) is not None:
            if nulls_equal:
                raise PlanError("join: a stream finds no rows by null keys; leave nulls_equal out")
            return self._with((other,), streaming)
        return self._with((other,), null_safe(node) if nulls_equal and left else node)

    def join_where(self, other: Self, *predicates: Predicates, suffix: str = "_right") -> Self:
        """The pairs of rows for which every predicate is true, as in Polars; see `join`.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"a": [1, 3]}).join_where(DataFrame({"b": [2]}), col("a") > col("b")).count()
        1
        """
        return self.join(other, where=[*args.flatten(predicates)], suffix=suffix)

    def cross_join(self, other: Self, *, suffix: str = "_right") -> Self:
        """Every row with every row of `other`; `suffix` goes behind a right column both sides have.

        >>> from fabric import DataFrame
        >>> pairs = DataFrame({"a": [1, 2]}).cross_join(DataFrame({"a": [3], "b": ["x"]}))
        >>> pairs.sort("a").collect().to_pydict()
        {'a': [1, 2], 'a_right': [3, 3], 'b': ['x', 'x']}
        """
        return self.join(other, how="cross", suffix=suffix)

    def join_asof(
        self,
        other: Self,
        on: KeyColumns | None = None,
        *,
        left_on: KeyColumns | None = None,
        right_on: KeyColumns | None = None,
        by: KeyColumns | None = None,
        left_by: KeyColumns | None = None,
        right_by: KeyColumns | None = None,
        strategy: nodes.AsofStrategy = "backward",
        tolerance: Tolerance | None = None,
        allow_exact_matches: bool = True,
        suffix: str = "_right",
        late: nodes.Late = "drop",
        salt: int | None = None,
    ) -> Self:
        """Each row with the row of `other` whose key is nearest; rows without one stay.

        Of several rows of `other` with the same keys it is any one.

        Parameters
        ----------
        on, left_on, right_on
            The key: a number, a date or a time; null matches nothing.
        by, left_by, right_by
            Keys that must be equal.
        strategy
            The last key that is not above (``backward``), the first that is not below
            (``forward``), or the one with the smallest distance (``nearest``; of two alike the
            later).
        tolerance
            How far the keys may be apart: a number, or for times ``"10m"``, ``"2h"``, ``"1d"`` or a
            timedelta.
        allow_exact_matches
            False leaves equal keys out.

        Of two streams the key is event time, `by` is needed, and but for ``backward`` a tolerance.
        `docs/joins.md` says when a row comes out, and what `late` and `salt` are.

        Examples
        --------
        >>> from fabric import DataFrame
        >>> trades = DataFrame({"t": [3, 7], "n": [10, 20]})
        >>> quotes = DataFrame({"t": [2, 5, 6], "price": [1.0, 1.5, 1.6]})
        >>> trades.join_asof(quotes, on="t").sort("t").collect().to_pydict()["price"]
        [1.0, 1.6]
        """
        self._other(other, "join_asof")
        streams = [stream_of(one._node) is not None for one in (self, other)]
        if any(streams) and not all(streams):
            raise PlanError(
                "join_asof is of two streams, or of two tables; a stream finds rows of a table by "
                'equal keys: stream.join(table, on="id")'
            )
        choice(strategy, ("backward", "forward", "nearest"), "join_asof", "strategy")
        left, right = args.join_keys(on, left_on, right_on, "join_asof")
        if len(left) != 1:
            raise PlanError(
                f"join_asof takes one key to be near by, got {len(left)}; give those that must be "
                'equal as by="..."'
            )
        mine, theirs = _equal_keys(by, left_by, right_by, "join_asof")
        join = Asof(
            left[0], right[0], mine, theirs, strategy, tolerance, allow_exact_matches, suffix
        )
        if all(streams):
            return self._with((other,), as_of(self._node, other._node, join, late, salt))
        check_tables(late, salt)
        return self._with((other,), asof(self._node, other._node, join))

    def join_temporal(
        self,
        other: Self,
        on: KeyColumns | None = None,
        how: args.JoinName = "inner",
        *,
        left_on: KeyColumns | None = None,
        right_on: KeyColumns | None = None,
        left_time: str | None = None,
        right_time: str | None = None,
        deleted: Predicates | None = None,
        suffix: str = "_right",
        late: nodes.Late = "drop",
        salt: int | None = None,
    ) -> Self:
        """Each row with the version of `other` as of its time: the last one at or before it.

        `other` has rows of what changes, such as a price or an address: each is the version of its
        key from its time on, until the next.

        Parameters
        ----------
        on, left_on, right_on
            Keys that must be equal; null matches nothing.
        how
            ``inner``, or ``left``, which keeps rows without a version.
        left_time, right_time
            The columns of time; of streams it is event time unless one is given, which then must
            be that or the end of a window.
        deleted
            What is true of rows of `other` that end their key: from then on there is no version.
        suffix
            Put behind a right column that the left side also has.
        late, salt
            Of two streams: ``side`` puts late rows aside, and a salt is for keys of very many rows:
            see `docs/joins.md`.

        Of two streams a row waits until the watermark has passed its time. Of versions that no row
        can see any more the newest of each key is kept. Of versions of one time the one that came
        last counts; in tables it is any one.

        Examples
        --------
        >>> from datetime import datetime
        >>> from fabric import DataFrame
        >>> day = lambda n: datetime(2024, 5, n)
        >>> sales = DataFrame({"item": ["a", "a"], "at": [day(2), day(9)]})
        >>> prices = DataFrame({"item": ["a", "a"], "since": [day(1), day(5)], "price": [10, 12]})
        >>> seen = sales.join_temporal(prices, on="item", left_time="at", right_time="since")
        >>> seen.sort("at").collect().to_pydict()["price"]
        [10, 12]
        """
        self._other(other, "join_temporal")
        text(suffix, "join_temporal", "suffix")
        left, right = args.join_keys(on, left_on, right_on, "join_temporal")
        gone = None if deleted is None else args.predicate([deleted], {}, "join_temporal")
        node = nodes.Join(
            self._node, other._node, left, right, args.join_how(how), suffix,
            path="join_temporal_*",
        )  # fmt: skip
        parts = check_salt(salt, "join_temporal")
        return self._with((other,), temporal(node, (left_time, right_time), gone, late, parts))

    def join_interval(
        self,
        other: Self,
        left: PointOrRange,
        right: PointOrRange,
        *,
        by: KeyColumns | None = None,
        left_by: KeyColumns | None = None,
        right_by: KeyColumns | None = None,
        closed: Closed = "both",
        how: args.JoinName = "inner",
        where: Predicates | None = None,
        suffix: str = "_right",
        late: nodes.Late = "drop",
        salt: int | None = None,
    ) -> Self:
        """Rows whose point lies in the other's range, or whose ranges overlap.

        Parameters
        ----------
        left, right
            A column (a point) or a pair of columns (a range) on each side; at least one is a pair.
        by, left_by, right_by
            Keys that must be equal.
        closed
            Which ends belong to a range: ``both``, ``left``, ``right`` or ``none``.
        where
            What must be true of a pair of rows too, by the names of columns after the join.

        Of two streams one side is event time, and the other a pair of the other's event time with
        durations added: ``("ts", (col("at"), col("at") + timedelta(minutes=5)))``. Rows wait as
        long as partners may come. Late rows are counted, and with ``late="side"`` are those of
        ``.side_output("late_left")`` and ``.side_output("late_right")``. A `salt` is for keys of
        very many rows, see `docs/joins.md`.

        Examples
        --------
        >>> from fabric import DataFrame
        >>> events = DataFrame({"at": [1, 5, 9]})
        >>> shifts = DataFrame({"who": ["a", "b"], "start": [0, 5], "end": [4, 8]})
        >>> both = events.join_interval(shifts, "at", ("start", "end"))
        >>> both.select("at", "who").sort("at").collect().to_pylist()
        [{'at': 1, 'who': 'a'}, {'at': 5, 'who': 'b'}]
        """
        self._other(other, "join_interval")
        choice(closed, ("both", "left", "right", "none"), "join_interval", "closed")
        mine, theirs = _equal_keys(by, left_by, right_by, "join_interval")
        more = None if where is None else args.predicate([where], {}, "join_interval")
        node = nodes.Join(
            self._node, other._node, mine, theirs, args.join_how(how), suffix, condition=more,
            path="join_interval_*",
        )  # fmt: skip
        parts = check_salt(salt, "join_interval")
        if are_streams(node, late, parts):
            return self._with((other,), by_interval(node, left, right, closed, late, salt=parts))
        condition = _both(interval_condition(node, left, right, closed), more)
        return self._with((other,), replace(node, condition=condition))


def _equal_keys(by: Any, left_by: Any, right_by: Any, verb: str) -> tuple[Keys, Keys]:
    """The keys that must be equal; none when none are given."""
    if not _is_given(by, left_by, right_by):
        return (), ()
    return args.join_keys(by, left_by, right_by, f"{verb} by")


def _both(a: plan.Expr | None, b: plan.Expr | None) -> plan.Expr | None:
    """What is true where both are; None where there is neither."""
    given = [one for one in (a, b) if one is not None]
    return all_of(given) if given else None


def _is_given(*keys: KeyColumns | None) -> bool:
    return any(key is not None for key in keys)


class SetVerbs(Verbs):
    """``union``, ``intersect``, ``except_`` and their like."""

    __slots__ = ()

    def union(self, *others: Self, by_name: bool = False) -> Self:
        """All rows of all, doubles kept; columns are matched by position, or `by_name`.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1]}).union(DataFrame({"a": [2]})).count()
        2
        """
        wrong = [type(other).__name__ for other in others if not isinstance(other, Verbs)]
        if wrong or not others:
            raise PlanError(f"union takes DataFrames, got {', '.join(wrong) or 'none'}")
        if by_name:
            return self.union_by_name(*others)
        return self._with(others, nodes.Union((self._node, *(o._node for o in others))))

    def union_by_name(self, *others: Self, allow_missing: bool = False) -> Self:
        """All rows of all, columns matched by name.

        With `allow_missing` a column that one side lacks is null there; the columns only others
        have come last.

        >>> from fabric import DataFrame
        >>> left, right = DataFrame({"a": [1]}), DataFrame({"b": ["x"]})
        >>> left.union_by_name(right, allow_missing=True).sort("a").collect().to_pylist()
        [{'a': None, 'b': 'x'}, {'a': 1, 'b': None}]
        """
        frames = [self, *(self._other(other, "union_by_name") for other in others)]
        if len(frames) == 1:
            raise PlanError("union_by_name takes DataFrames, got none")
        inputs = by_name([frame._node for frame in frames], allow_missing)
        return self._with(others, nodes.Union(inputs))

    def intersect(self, other: Self) -> Self:
        """The different rows that both have; nulls are equal, and so are NaNs.

        >>> from fabric import DataFrame
        >>> df = DataFrame({"a": [1, 1, None]})
        >>> df.intersect(DataFrame({"a": [1, None]})).sort("a").collect().to_pydict()
        {'a': [None, 1]}
        """
        return self._compared(other, "intersect", both=True, all_=False)

    def intersect_all(self, other: Self) -> Self:
        """The rows that both have, each as often as in the side with fewer of it; nulls are equal.

        >>> from fabric import DataFrame
        >>> df = DataFrame({"a": [1, 1, 1, 2, None]})
        >>> df.intersect_all(DataFrame({"a": [1, 1, None]})).sort("a").collect().to_pydict()
        {'a': [None, 1, 1]}
        """
        return self._compared(other, "intersect_all", both=True, all_=True)

    def except_(self, other: Self) -> Self:
        """The different rows that `other` does not have; nulls are equal.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1, 1, 2]}).except_(DataFrame({"a": [2]})).collect().to_pydict()
        {'a': [1]}
        """
        return self._compared(other, "except_", both=False, all_=False)

    def except_all(self, other: Self) -> Self:
        """The rows, each as often as it is here more often than in `other`; nulls are equal.

        >>> from fabric import DataFrame
        >>> df = DataFrame({"a": [1, 1, 2, None]})
        >>> df.except_all(DataFrame({"a": [1, None]})).sort("a").collect().to_pydict()
        {'a': [1, 2]}
        """
        return self._compared(other, "except_all", both=False, all_=True)

    def _compared(self, other: Self, verb: str, *, both: bool, all_: bool) -> Self:
        self._other(other, verb)
        mine, theirs = self._node, other._node
        self._with((other,), nodes.Union((mine, theirs)))  # refuses what can't be compared
        name = verb.strip("_")
        if all_:
            mine, theirs = numbered(mine, name), numbered(theirs, name)
        return self._with((other,), compared(mine, theirs, self.columns, name, both=both))

    union_all = union
    vstack = union
    subtract = except_
