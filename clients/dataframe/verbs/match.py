"""The verb for row patterns: ``match``.

One job: what users give, as a `Match` node. Its pattern, conditions and measures are checked by the
node; what they ask of a match is in `functions/patterns.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, get_args

from fabric.clients.dataframe import arguments as args
from fabric.clients.dataframe.durations import Length, maybe_us
from fabric.clients.dataframe.expressions.types import IntoExpr, ManyColumns, ManyKeys
from fabric.clients.dataframe.names import choice, text
from fabric.clients.dataframe.verbs.base import Verbs
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan.faults import quoted
from fabric.plan.nodes import Late, Match, MatchRows, Timeout
from fabric.plan.stream import Stream
from fabric.plan.stream_facts import stream_of


class MatchVerbs(Verbs):
    """``match``."""

    __slots__ = ()

    def match(
        self,
        pattern: str,
        *,
        define: Mapping[str, IntoExpr] | None = None,
        measures: Mapping[str, IntoExpr] | None = None,
        partition_by: ManyColumns = (),
        order_by: ManyKeys = (),
        within: Length | None = None,
        after: str = "skip_past",
        rows: MatchRows = "one",
        subsets: Mapping[str, Sequence[str]] | None = None,
        late: Late = "drop",
        timeout: Timeout = "drop",
    ) -> Self:
        """Rows that follow each other as `pattern` says: SQL's MATCH_RECOGNIZE; `docs/patterns.md`.

        Parameters
        ----------
        pattern
            Variables side by side with ``* + ? {2} {2,} {,4} {2,4}`` (reluctant with a ``?``), `|`,
            groups, ``PERMUTE(A, B)``, ``{- A -}``, ``^`` and ``$``.
        define, measures
            Conditions of variables, and what is put out, by name. ``col("A.price")`` is a column of
            the last row of A; `fabric.patterns` and aggregates read other rows.
        partition_by, order_by
            Columns whose values are searched alone; the order, which on streams is event time.
        within, after
            A match ends at most so long after its first row. Where the search goes on: at
            ``skip_past``, ``next_row``, ``to_first B`` or ``to_last B``.
        rows
            ``one`` of each match, or ``all``, each with the measures as of it; in tables, too:
            ``all_omit_empty``, ``all_with_unmatched``.
        subsets
            Names for several variables: ``{"MOVE": ["UP", "DOWN"]}``.
        late, timeout
            ``side``: late rows, and matches that are not complete `within` the time, are side
            outputs of these names; else they are dropped and counted.

        Examples
        --------
        >>> from fabric import DataFrame, col, count
        >>> from fabric.patterns import first, last, prev
        >>> prices = DataFrame({"day": [1, 2, 3, 4, 5], "price": [12, 17, 13, 15, 20]})
        >>> prices.match(
        ...     "A DOWN+ UP+", order_by="day",
        ...     define={"DOWN": col("price") < prev("price"), "UP": col("price") > prev("price")},
        ...     measures={"top": first("price"), "low": last("DOWN.price"), "n_up": count("UP")},
        ... ).to_dicts()
        [{'top': 17, 'low': 13, 'n_up': 2}]
        """
        keys = args.expressions(args.flatten([partition_by]), {}, self.schema)
        given = args.flatten([order_by])
        order = args.sort_keys(given, False, None) if given else ()
        within_us = maybe_us(within, "within", least=1) or 0
        choice(rows, get_args(MatchRows), "match", "rows")
        time = _time(order, stream_of(self._node), is_needed=within_us > 0)
        node = Match(
            self._node, text(pattern, "match", "pattern"), keys, order, _named("define", define),
            _named("measures", measures), _subsets(subsets), within_us,
            text(after, "match", "after"), rows, late, timeout, time,
        )  # fmt: skip
        return self._then(node)


def _time(order: Sequence[plan.SortKey], stream: Stream | None, *, is_needed: bool) -> str:
    """The column of times that rows are in order of; "": there is none, or none is asked for."""
    first = order[0] if order else None
    is_column = first is not None and isinstance(first.input, plan.Column) and not first.descending
    time = plan.output_name(first.input) if first is not None and is_column else ""
    if stream is None:
        return time if is_needed else ""
    stream.check_timed("match")
    return time if time in stream.ends else stream.time or min(stream.ends, default="")


def _named(what: str, given: Any) -> tuple[plan.Expr, ...]:
    """Conditions or measures under their names."""
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise PlanError(
            f"match: {what} are expressions by name, got {str(given)[:80]}; write for example "
            f'{what}={{"A": col("price") > 10}}'
        )
    found = []
    for name, value in given.items():
        if not isinstance(name, str):
            raise PlanError(f"match: {what} are expressions by name, got the name {name!r}")
        node = plan.Column(value) if isinstance(value, str) else args.top(value)
        found.append(plan.Alias(node.input if isinstance(node, plan.Alias) else node, name))
    return tuple(found)


def _subsets(given: Any) -> tuple[tuple[str, str], ...]:
    if given is None:
        return ()
    names = given.items() if isinstance(given, Mapping) else [("", given)]
    found = []
    for name, members in names:
        if isinstance(members, str) or not all(isinstance(each, str) for each in (name, *members)):
            raise PlanError(
                f"match: subsets are lists of variables by name, got {str(given)[:80]}; write for "
                f'example subsets={{{quoted(str(name) or "MOVE")}: ["UP", "DOWN"]}}'
            )
        found.append((name, " ".join(members)))
    return tuple(found)
