"""The automaton of a row pattern: which positions may come first, and what may follow each.

    A (B | C)+?      positions  A₀ B₁ C₂      first  A₀      after B₁  match, B₁, C₂

One job: `automaton`. A *position* is one place of a variable in the pattern, with counted
repetitions written out. What may come next is in order of preference: of all matches that begin at
a row, the preferred one is the first that a search finds which tries each list from left to right.
That is the order of SQL's MATCH_RECOGNIZE: greedy quantifiers prefer more, reluctant ones less, and
an alternative is preferred to those on its right. A repetition ends with an iteration that takes no
row (Glushkov's automaton, 1961, with ordered transitions).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from fabric.errors import PlanError
from fabric.plan.row_pattern import (
    Alternation,
    Anchor,
    Concatenation,
    Exclude,
    Part,
    Repeat,
    Variable,
    is_unbounded,
    variables_of,
    walk_parts,
)

POSITIONS_MAX = 1_000
STEPS_MAX = 200_000
MATCH, MATCH_AT_END = -1, -2
"""What follows a position, besides positions: the match is complete, or is at the last row."""
_DONE = -3
_AT_START, _AT_END = 1, 2
_Entries: TypeAlias = list[tuple[int, int]]
"""What may come next, preferred first: a position, `_DONE` or `MATCH`, and what must be true."""


@dataclass(frozen=True, slots=True)
class Automaton:
    """What may follow what. Entries are positions, `MATCH` or `MATCH_AT_END`, preferred first.

    `names` are the variables as the pattern has them first; `variable` and `excluded` tell of each
    position which of them it is, and whether its row is left out. `first` is for a match that
    begins with the first row of its partition, `inside` for all others.
    """

    names: tuple[str, ...]
    variable: tuple[int, ...]
    excluded: tuple[bool, ...]
    first: tuple[int, ...]
    inside: tuple[int, ...]
    follow: tuple[tuple[int, ...], ...]
    is_unbounded: bool
    is_anchored: bool

    @property
    def may_be_empty(self) -> bool:
        """Whether there are matches of no row."""
        return MATCH in self.first or MATCH in self.inside

    def begins_with(self) -> frozenset[str]:
        """The variables that the first row of a match may be of."""
        return frozenset(
            self.names[self.variable[at]] for at in (*self.first, *self.inside) if at >= 0
        )


@dataclass(slots=True)
class _Piece:
    """What a part begins with, and the positions after which it may be done."""

    first: _Entries
    lasts: list[int] = field(default_factory=list)


def automaton(part: Part) -> Automaton:
    """The automaton of a pattern.

    Raises
    ------
    PlanError
        If it has more than `POSITIONS_MAX` positions, counted repetitions written out.

    Examples
    --------
    >>> from fabric.plan.row_pattern import parsed
    >>> automaton(parsed("A B+?")).follow
    ((1,), (-1,))
    >>> automaton(parsed("(A | B)*")).inside
    (0, 1, -1)
    """
    names = variables_of(part)
    builder = _Builder({name: number for number, name in enumerate(names)})
    piece = builder.build(part, excluded=False)
    whole = [(MATCH, 0)]
    builder.link(piece, whole)
    first = [
        (target, needs)
        for target, needs in _then(piece.first, whole)
        if not needs & _AT_END  # there is a row, with which the match would begin
    ]
    return Automaton(
        names,
        tuple(builder.variable),
        tuple(builder.excluded),
        _cut(target for target, _ in first),
        _cut(target for target, needs in first if not needs),
        tuple(_cut(map(_ending, entries)) for entries in builder.follow),
        is_unbounded(part),
        any(isinstance(each, Anchor) for each in walk_parts(part)),
    )


def _ending(entry: tuple[int, int]) -> int:
    target, needs = entry
    return MATCH_AT_END if target == MATCH and needs & _AT_END else target


def _cut(entries: Iterable[int]) -> tuple[int, ...]:
    """Entries up to a match, which is preferred to what comes behind it; each once."""
    found: dict[int, None] = {}
    for entry in entries:
        found.setdefault(entry)
        if entry == MATCH:
            break
    return tuple(found)


def _then(entries: Sequence[tuple[int, int]], rest: Sequence[tuple[int, int]]) -> _Entries:
    """`entries` with `rest` wherever they are done."""
    found: dict[tuple[int, int], None] = {}
    for target, needs in entries:
        for after, more in rest if target == _DONE else [(target, 0)]:
            asked = needs | more
            # what was there with fewer needs comes first anyway
            if not any((after, fewer) in found for fewer in range(4) if fewer & asked == fewer):
                found[after, asked] = None
    return list(found)


class _Builder:
    """Gives out positions, and links what follows them."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self._numbers = numbers
        self.variable: list[int] = []
        self.excluded: list[bool] = []
        self.follow: list[_Entries] = []
        self._n_steps = 0

    def build(self, part: Part, *, excluded: bool) -> _Piece:
        """A piece of its own for `part`."""
        self._count(1)
        match part:
            case Variable(name):
                return self._position(self._numbers[name], excluded)
            case Concatenation(parts):
                found = _Piece([(_DONE, 0)])
                for each in parts:
                    found = self._joined(found, self.build(each, excluded=excluded))
                return found
            case Alternation(options):
                pieces = [self.build(each, excluded=excluded) for each in options]
                first = _then([entry for piece in pieces for entry in piece.first], [(_DONE, 0)])
                return _Piece(first, [at for piece in pieces for at in piece.lasts])
            case Exclude(inner):
                return self.build(inner, excluded=True)
            case Anchor(at_start):
                return _Piece([(_DONE, _AT_START if at_start else _AT_END)])
            case Repeat():
                return self._repeated(part, excluded)

    def link(self, piece: _Piece, rest: Sequence[tuple[int, int]]) -> None:
        """Let `rest` follow wherever `piece` may be done after a row."""
        for at in piece.lasts:
            entries = _then(self.follow[at], rest)
            self._count(len(entries))
            # behind a row nothing is at the start any more, and no row is behind the last
            self.follow[at] = [
                (target, needs)
                for target, needs in entries
                if not needs & _AT_START and not (target >= 0 and needs & _AT_END)
            ]

    def _position(self, variable: int, excluded: bool) -> _Piece:
        at = len(self.variable)
        if at >= POSITIONS_MAX:
            raise PlanError(
                f"a pattern has at most {POSITIONS_MAX:,} variables with counted repetitions "
                'written out; write + or *, or check the number with count("A") in a condition'
            )
        self.variable.append(variable)
        self.excluded.append(excluded)
        self.follow.append([(_DONE, 0)])
        return _Piece([(at, 0)], [at])

    def _joined(self, left: _Piece, right: _Piece) -> _Piece:
        self.link(left, right.first)
        return _Piece(_then(left.first, right.first), self._still(left, right))

    def _still(self, left: _Piece, right: _Piece) -> list[int]:
        """The positions after which both, one behind the other, may be done."""
        ours = [at for at in left.lasts if any(target == _DONE for target, _ in self.follow[at])]
        return [*right.lasts, *ours]

    def _repeated(self, part: Repeat, excluded: bool) -> _Piece:
        rest = self._rest(part, excluded)
        n_before = part.least - (part.most is None and part.least > 0)
        found = _Piece([(_DONE, 0)])
        for _ in range(n_before):
            found = self._joined(found, self.build(part.part, excluded=excluded))
        return found if rest is None else self._joined(found, rest)

    def _rest(self, part: Repeat, excluded: bool) -> _Piece | None:
        """The iterations that need not be, and of those without a bound the last that must."""
        if part.most is None:
            body = self.build(part.part, excluded=excluded)
            again = self._optional(body.first, part.greedy)
            self.link(body, again)
            return _Piece(again if part.least == 0 else body.first, body.lasts)
        tail: _Piece | None = None
        for _ in range(part.most - part.least):
            body = self.build(part.part, excluded=excluded)
            lasts = body.lasts
            if tail is not None:  # an iteration without a row is the last one
                self.link(body, tail.first)
                lasts = self._still(body, tail)
            tail = _Piece(self._optional(body.first, part.greedy), lasts)
        return tail

    def _optional(self, entries: _Entries, greedy: bool) -> _Entries:
        done = [(_DONE, 0)]
        return _then([*entries, *done] if greedy else [*done, *entries], done)

    def _count(self, n: int) -> None:
        self._n_steps += n
        if self._n_steps > STEPS_MAX:
            raise PlanError(
                "the pattern is too large: counted repetitions inside of each other are written "
                "out; write + or * for some of them"
            )
