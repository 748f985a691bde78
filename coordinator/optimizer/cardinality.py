"""How many rows each node will have: guesses for the order of joins.

One job: `Cardinality`. From facts of the sources, with the usual guesses: a filter by equality
keeps one value of those there are, a range the share of the range, others a quarter; a join of keys
keeps the product by the larger number of different keys. Where nothing is known of keys, the
smaller source is thought to have each of its keys once. (Selinger et al., SIGMOD 1979.)
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fabric.coordinator.optimizer.expressions import conjuncts, passed_through
from fabric.plan.expr import Call, Column, Expr, IsIn, Literal
from fabric.plan.nodes import (
    Aggregate,
    Explode,
    Filter,
    Join,
    Limit,
    Node,
    Scan,
    Select,
    Union,
    WithColumns,
)
from fabric.plan.statistics import ColumnFacts, Statistics
from fabric.plan.walk import walk

_EQUAL, _RANGE, _OTHER, _GROUPED, _EXPLODED = 0.1, 0.3, 0.25, 0.1, 3.0
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}


@dataclass(frozen=True, slots=True)
class Guess:
    """Rows that come out, rows of the largest source below, and what columns are like."""

    rows: float
    base: float
    columns: dict[str, ColumnFacts]


class Cardinality:
    """Guesses for the nodes of one plan, each made once."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self._known: dict[int, tuple[Node, Guess | None]] = {}

    def of(self, root: Node) -> Guess | None:
        """The guess for `root`; None when a source below is not known."""
        for node in walk(root):
            if id(node) not in self._known:
                below = [self._known[id(child)][1] for child in node.children]
                self._known[id(node)] = node, self._guess(node, below)
        return self._known[id(root)][1]

    def rows(self, root: Node) -> float | None:
        """How many rows `root` likely puts out."""
        guess = self.of(root)
        return None if guess is None else guess.rows

    def _guess(self, node: Node, below: Sequence[Guess | None]) -> Guess | None:
        if isinstance(node, Scan):
            return self._scan(node)
        known = [guess for guess in below if guess is not None]
        if not known or len(known) < len(below):
            return None
        first = known[0]
        match node:
            case Filter(predicate=predicate):
                return _less(first, first.rows * kept_share(predicate, first))
            case Select(exprs=exprs):
                passed = passed_through(exprs).items()
                columns = {new: first.columns.get(old.name) for new, old in passed}
                return Guess(first.rows, first.base, _present(columns))
            case WithColumns():
                return first
            case Aggregate(keys=keys):
                return Guess(_groups(keys, first), first.base, {})
            case Limit(n=n):
                return _less(first, min(first.rows, n))
            case Explode():
                return Guess(first.rows * _EXPLODED, first.base * _EXPLODED, first.columns)
            case Join():
                return _join(node, *known)
            case Union():
                return Guess(sum(g.rows for g in known), sum(g.base for g in known), {})
            case _:
                return first

    def _scan(self, node: Scan) -> Guess | None:
        facts = self._statistics.get(node.path)
        if facts is None:
            return None
        whole = Guess(facts.n_rows, facts.n_rows, dict(facts.columns))
        if node.predicate is None:
            return whole
        return _less(whole, whole.rows * kept_share(node.predicate, whole))


def _present(columns: dict[str, ColumnFacts | None]) -> dict[str, ColumnFacts]:
    return {name: facts for name, facts in columns.items() if facts is not None}


def _less(guess: Guess, rows: float) -> Guess:
    return Guess(max(1.0, rows), guess.base, guess.columns)


def kept_share(predicate: Expr, guess: Guess) -> float:
    """The share of rows for which `predicate` is thought to be true."""
    share = 1.0
    for part in conjuncts(predicate):
        share *= _part_share(part, guess)
    return share


def _part_share(part: Expr, guess: Guess) -> float:
    match part:
        case Call(function="or", args=(left, right)):
            return min(1.0, kept_share(left, guess) + kept_share(right, guess))
        case Call(function="is_not_null"):
            return 1.0
        case Call(function=name, args=(Column(name=column), Literal(value=value))):
            return _compared(name, column, value, guess)
        case Call(function=name, args=(Literal(value=value), Column(name=column))):
            return _compared(_MIRRORED.get(name, name), column, value, guess)
        case IsIn(input=Column(name=column), values=values):
            return min(1.0, len(values) * _compared("eq", column, None, guess))
        case _:
            return _OTHER


def _compared(name: str, column: str, value: Any, guess: Guess) -> float:
    facts = guess.columns.get(column)
    if name == "eq":
        n_different = None if facts is None else different(facts, guess.base)
        return _EQUAL if n_different is None else 1 / n_different
    if name == "ne":
        return 1.0
    if name not in ("lt", "le", "gt", "ge"):
        return _OTHER
    share = None if facts is None else _below(facts, value)
    if share is None:
        return _RANGE
    return max(0.0, min(1.0, share if name in ("lt", "le") else 1 - share))


def _below(facts: ColumnFacts, value: Any) -> float | None:
    """The share of values below `value`, if they lie evenly."""
    low, most, at = (_number(x) for x in (facts.least, facts.most, value))
    if low is None or most is None or at is None:
        return None
    return (at - low) / (most - low) if most > low else float(at >= low)


def _number(value: Any) -> float | None:
    if isinstance(value, datetime.datetime):
        return value.timestamp()
    if isinstance(value, datetime.date):
        return float(value.toordinal())
    return float(value) if isinstance(value, int | float) else None


def different(facts: ColumnFacts, n_rows: float) -> float | None:
    """How many different values a column has at most: whole numbers and days lie in a range."""
    if isinstance(facts.least, datetime.datetime):
        return None
    low, most = _number(facts.least), _number(facts.most)
    if low is None or most is None or isinstance(facts.least, float):
        return None
    return max(1.0, min(n_rows, most - low + 1))


def _groups(keys: Sequence[Expr], guess: Guess) -> float:
    """Groups of rows: as many as keys can be, where that is known of all; else a share of rows."""
    n_groups = 1.0
    for key in keys:
        found = _of_key(key, guess)
        if found is None:
            return guess.rows * _GROUPED
        n_groups *= found
    return min(guess.rows, n_groups)


def joined_rows(keys: Sequence[tuple[Expr, Expr]], left: Guess, right: Guess) -> float:
    """Rows of an inner join of two inputs by pairs of keys."""
    if not keys:
        return left.rows * right.rows
    smaller = max(1.0, min(left.base, right.base))
    divisor = 1.0
    for one, other in keys:
        found = [n for n in (_of_key(one, left), _of_key(other, right)) if n is not None]
        divisor *= max(found) if found else smaller
    if len(keys) > 1:
        divisor = min(divisor, smaller)
    return max(1.0, left.rows * right.rows / divisor)


def _of_key(key: Expr, guess: Guess) -> float | None:
    facts = guess.columns.get(key.name) if isinstance(key, Column) else None
    return None if facts is None else different(facts, guess.base)


def together(left: Guess, right: Guess, rows: float) -> Guess:
    """The guess for a join whose columns have names that differ."""
    return Guess(rows, max(left.base, right.base), {**right.columns, **left.columns})


def _join(node: Join, left: Guess, right: Guess) -> Guess:
    if node.how in ("semi", "anti"):
        return _less(left, left.rows / 2)
    keys = list(zip(node.left_keys, node.right_keys, strict=True))
    rows = joined_rows(keys, left, right)
    if node.condition is not None:
        rows *= _OTHER
    least = {"left": left.rows, "right": right.rows, "full": left.rows + right.rows}
    return together(left, right, max(rows, least.get(node.how, 1.0)))
