"""Row patterns by brute force: an oracle for ``df.match``, written apart from it.

One job: `matches`, which tries every way to match a pattern from every row, in order of preference,
by plain backtracking over lists of Python values. Patterns are tuples, and `text_of` writes them;
conditions are functions of a `View`. `patterns` and `conditions` draw some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hypothesis import strategies as st

from fabric import col, count
from fabric.clients.dataframe.expressions.expr import Expr
from fabric.patterns import first, last, prev

Pattern = tuple[Any, ...]
"""("var", name), ("seq", parts), ("alt", parts), ("rep", part, least, most, greedy),
("excl", part), ("^",) or ("$",)."""
Labels = tuple[tuple[str, bool], ...]
"""The variable of each row of a match, and whether it is left out."""
NAMES = ("A", "B", "C")


class NoWay(Exception):
    """The search can't go on as it was asked to."""


@dataclass(frozen=True)
class View:
    """What a condition or measure sees: the rows of a partition, where the match began, and the
    labels of its rows, the one that is looked at as the last."""

    rows: Sequence[dict[str, Any]]
    start: int
    labels: Sequence[str]

    def values(self, names: str | None = None, column: str = "v") -> list[Any]:
        """Of the rows of the match that are of one of `names`."""
        return [
            self.rows[self.start + n][column]
            for n, label in enumerate(self.labels) if names is None or label in names
        ]  # fmt: skip

    def last(self, names: str | None = None, back: int = 0) -> Any:
        """Of a row counted from the last one."""
        values = self.values(names)
        return values[-1 - back] if back < len(values) else None

    def first(self, names: str | None = None, on: int = 0) -> Any:
        """Of a row counted from the first one."""
        values = self.values(names)
        return values[on] if on < len(values) else None

    def before(self, names: str | None, n: int) -> Any:
        """Of the row `n` rows before the last one of `names`, matched or not."""
        places = [
            self.start + i for i, label in enumerate(self.labels) if names is None or label in names
        ]
        if not places or places[-1] - n < 0:
            return None
        return self.rows[places[-1] - n]["v"]


Holds = Callable[[View], bool]
Condition = tuple[Expr, Holds]


class Found(NamedTuple):
    """A match: where it begins, and the labels of its rows."""

    begin: int
    labels: Labels


def text_of(pattern: Pattern) -> str:
    """The pattern as `df.match` takes it."""
    match pattern:
        case ("var", name):
            return str(name)
        case ("seq", parts):
            return "(" + " ".join(map(text_of, parts)) + ")"
        case ("alt", parts):
            return "(" + " | ".join(map(text_of, parts)) + ")"
        case ("rep", part, least, most, greedy):
            simple = {(0, None): "*", (1, None): "+", (0, 1): "?"}
            counts = simple.get((least, most), f"{{{least},{'' if most is None else most}}}")
            return f"({text_of(part)}){counts}{'' if greedy else '?'}"
        case ("excl", part):
            return "{- " + text_of(part) + " -}"
        case (anchor,):
            return str(anchor)
    raise AssertionError(pattern)


def matches(
    pattern: Pattern, define: dict[str, Holds], rows: Sequence[dict[str, Any]], *,
    after: str = "skip_past", within: int | None = None,
) -> list[Found]:  # fmt: skip
    """All matches among the rows of one partition, which have a time ``t``."""
    found, start = [], 0
    while start < len(rows):
        run = _Run(define, rows, start, within)
        labels = next((labels for _, labels in run.ways(pattern, start, ())), None)
        if labels is None:
            start += 1
            continue
        found.append(Found(start, labels))
        start = _next_start(start, [name for name, _ in labels], after)
    return found


def _next_start(start: int, labels: list[str], after: str) -> int:
    if not labels or after == "next_row":
        return start + 1
    if after == "skip_past":
        return start + len(labels)
    way, name = after.split()
    places = [n for n, label in enumerate(labels) if label == name]
    place = (places[0] if way == "to_first" else places[-1]) if places else 0
    if place == 0:
        raise NoWay
    return start + place


@dataclass
class _Run:
    define: dict[str, Holds]
    rows: Sequence[dict[str, Any]]
    start: int
    within: int | None

    def ways(self, pattern: Pattern, at: int, labels: Labels) -> Iterator[tuple[int, Labels]]:
        """Where `pattern` may end that begins at row `at`, preferred ones first."""
        match pattern:
            case ("var", name):
                if self._holds(name, at, labels):
                    yield at + 1, (*labels, (name, False))
            case ("seq", parts):
                yield from self._sequence(parts, at, labels)
            case ("alt", parts):
                for part in parts:
                    yield from self.ways(part, at, labels)
            case ("excl", part):
                for end, found in self.ways(part, at, labels):
                    mine = ((name, True) for name, _ in found[len(labels) :])
                    yield end, (*labels, *mine)
            case ("rep", *_):
                yield from self._repeated(pattern, at, labels)
            case ("^",):
                if at == 0:
                    yield at, labels
            case ("$",):
                if at == len(self.rows):
                    yield at, labels

    def _holds(self, name: str, at: int, labels: Labels) -> bool:
        if at >= len(self.rows):
            return False
        passed = self.rows[at]["t"] - self.rows[self.start]["t"]
        if self.within is not None and passed > self.within:
            return False
        condition = self.define.get(name)
        names = [*(label for label, _ in labels), name]
        return condition is None or condition(View(self.rows, self.start, names))

    def _sequence(
        self, parts: Sequence[Pattern], at: int, labels: Labels
    ) -> Iterator[tuple[int, Labels]]:
        if not parts:
            yield at, labels
            return
        for end, found in self.ways(parts[0], at, labels):
            yield from self._sequence(parts[1:], end, found)

    def _repeated(self, repeat: Pattern, at: int, labels: Labels) -> Iterator[tuple[int, Labels]]:
        _, part, least, most, greedy = repeat
        fewer = None if most is None else most - 1
        if least > (most is None and least > 0):  # iterations that must be
            rest = ("rep", part, least - 1, fewer, greedy)
            for end, found in self.ways(part, at, labels):
                yield from self._repeated(rest, end, found)
            return
        if not greedy and least == 0:
            yield at, labels
        if most is None or most > 0:
            rest = ("rep", part, 0, fewer, greedy)
            for end, found in self.ways(part, at, labels):
                if end == at:  # an iteration without a row is the last one
                    yield end, found
                else:
                    yield from self._repeated(rest, end, found)
        if greedy and least == 0:
            yield at, labels


# ---- drawn


def patterns(*, anchors: bool = True, empty: bool = True) -> st.SearchStrategy[Pattern]:
    """Patterns over A, B and C; without `empty` each begins with a row that must be."""
    leaves = [st.sampled_from([("var", name) for name in NAMES])] * 4
    if anchors:
        leaves.append(st.sampled_from([("^",), ("$",), ("seq", ())]))
    counts = st.sampled_from([(0, None), (1, None), (0, 1), (2, None), (0, 2), (1, 2), (2, 3)])

    def wider(parts: st.SearchStrategy[Pattern]) -> st.SearchStrategy[Pattern]:
        some = st.lists(parts, min_size=1, max_size=3).map(tuple)
        repeated = st.tuples(parts, counts, st.booleans()).map(
            lambda drawn: ("rep", drawn[0], *drawn[1], drawn[2])
        )
        return st.one_of(
            st.tuples(st.just("seq"), some), st.tuples(st.just("seq"), some),
            st.tuples(st.just("alt"), some), repeated, repeated,
            st.tuples(st.just("excl"), parts),
        )  # fmt: skip

    found = st.recursive(st.one_of(leaves), wider, max_leaves=6)
    if empty:
        return found.map(lambda pattern: ("seq", (pattern, ("rep", ("var", "A"), 0, 0, True))))
    return found.map(lambda pattern: ("seq", (("var", "A"), pattern)))


def _and(one: bool | None, other: bool | None) -> bool:
    return bool(one) and bool(other)


def _compared(left: Any, right: Any, test: Callable[[Any, Any], bool]) -> bool:
    return left is not None and right is not None and test(left, right)


def _sum(values: list[Any]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def own_conditions() -> list[Condition]:
    """Conditions that look at their own row and those around."""
    return [
        (col("v") > 1, lambda view: _compared(view.last(), 1, lambda a, b: a > b)),
        (col("v") < 2, lambda view: _compared(view.last(), 2, lambda a, b: a < b)),
        (col("v") > prev("v"),
         lambda view: _compared(view.last(), view.before(None, 1), lambda a, b: a > b)),
        (prev("v", 2).is_null() | (col("v") == prev("v", 2)),
         lambda view: view.before(None, 2) is None or view.last() == view.before(None, 2)),
    ]  # fmt: skip


def match_conditions() -> list[Condition]:
    """Conditions that read what was matched before."""
    return [
        (col("v") >= last("A.v"),
         lambda view: _compared(view.last(), view.last("A"), lambda a, b: a >= b)),
        (col("v") != col("B.v"),
         lambda view: _compared(view.last(), view.last("B"), lambda a, b: a != b)),
        (col("v") <= first("v"),
         lambda view: _compared(view.last(), view.first(), lambda a, b: a <= b)),
        (last("B.v", 1).is_null() | (col("v") > last("B.v", 1)),
         lambda view: view.last("B", 1) is None
         or _compared(view.last(), view.last("B", 1), lambda a, b: a > b)),
        (count("A") <= 2, lambda view: len(view.values("A")) <= 2),
        (col("B.v").sum() < 4,
         lambda view: _compared(_sum(view.values("B")), 4, lambda a, b: a < b)),
        (count() < 4, lambda view: len(view.values()) < 4),
        (prev(last("A.v"), 1) == first("C.v"),
         lambda view: _compared(view.before("A", 1), view.first("C"), lambda a, b: a == b)),
        (last("v", 2).is_null() | (first("A.v", 1) == col("v")),
         lambda view: view.last(None, 2) is None
         or _compared(view.first("A", 1), view.last(), lambda a, b: a == b)),
        ((col("v") > 0) & (col("v") < 1 + last("A.v")),
         lambda view: _and(_compared(view.last(), 0, lambda a, b: a > b),
                           _compared(view.last(), view.last("A"), lambda a, b: a < b + 1))),
    ]  # fmt: skip


def defines() -> st.SearchStrategy[dict[str, Condition]]:
    """Conditions of some of A, B and C."""
    own, of_match = own_conditions(), match_conditions()
    one = st.one_of(st.sampled_from(own), st.sampled_from(of_match))
    return st.dictionaries(st.sampled_from(NAMES), one, max_size=3)
