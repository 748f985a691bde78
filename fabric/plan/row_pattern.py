"""Row patterns: their text, and the tree of parts that it means.

    "A B+ (C | D){2,3}"  ──►  Concatenation(A, Repeat(B), Repeat(Alternation(C, D)))

One job: `parsed`, and what can be said of a pattern without its rows. What may follow what is in
`row_automaton.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import TypeAlias

from fabric.errors import PlanError
from fabric.plan.faults import quoted

PATTERN_FUNCTIONS = ("prev", "next", "classifier", "match_number", "final", "running")
"""Functions that only conditions and measures of a pattern have."""
NESTING_MAX = 50
TEXT_MAX = 10_000
_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<sign>\{-|-\}|\{[^{}-]*\}|[()|*+?^$,]))")
_COUNTS = re.compile(r"\{\s*(\d{1,9})?\s*(,)?\s*(\d{1,9})?\s*\}")


@dataclass(frozen=True, slots=True)
class Variable:
    """A row for which the condition of `name` is true."""

    name: str


@dataclass(frozen=True, slots=True)
class Concatenation:
    """Parts one after the other; none take no row."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """One of `options`, of which the first are preferred."""

    options: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`part` from `least` to `most` (None: any number of) times; as often as can be if `greedy`."""

    part: Part
    least: int
    most: int | None
    greedy: bool = True


@dataclass(frozen=True, slots=True)
class Exclude:
    """Rows of `part` are matched, and left out where all rows of a match are put out."""

    part: Part


@dataclass(frozen=True, slots=True)
class Anchor:
    """No row: the first of its partition is next, or the last was before."""

    at_start: bool


Part: TypeAlias = Variable | Concatenation | Alternation | Repeat | Exclude | Anchor


def variables_of(part: Part) -> tuple[str, ...]:
    """The variables of a pattern, each once, from left to right.

    >>> variables_of(parsed("A (B | A)+ C"))
    ('A', 'B', 'C')
    """
    return tuple(
        dict.fromkeys(each.name for each in walk_parts(part) if isinstance(each, Variable))
    )


def is_unbounded(part: Part) -> bool:
    """Whether a match may have any number of rows.

    >>> is_unbounded(parsed("A B+")), is_unbounded(parsed("A B{2,9}"))
    (True, False)
    """
    return any(
        isinstance(each, Repeat) and each.most is None and bool(variables_of(each.part))
        for each in walk_parts(part)
    )


def walk_parts(part: Part) -> Iterator[Part]:
    """All parts, a part before those in it."""
    stack = [part]
    while stack:
        found = stack.pop()
        yield found
        match found:
            case Concatenation(below) | Alternation(below):
                stack.extend(reversed(below))
            case Repeat(part=inner) | Exclude(part=inner):
                stack.append(inner)


def parsed(text: str) -> Part:
    """The pattern of a text.

    Variables stand side by side, ``|`` between alternatives, brackets around groups. Quantifiers
    are ``*``, ``+``, ``?``, ``{3}``, ``{2,}``, ``{,4}`` and ``{2,4}``, reluctant with a ``?``
    behind. ``PERMUTE(A, B)`` is A and B in any order, ``{- A -}`` leaves rows out, ``^`` and ``$``
    are the ends of a partition, and ``()`` takes no row.

    Raises
    ------
    PlanError
        Says what is wrong, and at which character.

    Examples
    --------
    >>> parsed("A B??")
    Concatenation(parts=(Variable(name='A'), Repeat(part=Variable(name='B'), least=0, most=1, \
greedy=False)))
    """
    if len(text) > TEXT_MAX:
        raise PlanError(f"a pattern has at most {TEXT_MAX} characters, got {len(text)}")
    reader = _Reader(text)
    found = reader.choice(0)
    if reader.token is not None:
        raise reader.wrong(f"{quoted(reader.token)} closes nothing")
    if not variables_of(found):
        raise PlanError(
            f'the pattern {quoted(text)} has no variable; write for example pattern="A B+ C"'
        )
    return found


class _Reader:
    """Reads a pattern token by token; `token` is the next one, None at the end."""

    def __init__(self, text: str) -> None:
        self._text, self._end = text, 0
        self.token: str | None = None
        self._begin = 0
        self._next()

    def wrong(self, what: str) -> PlanError:
        """The error about the next token."""
        return PlanError(f"{what} at character {self._begin + 1} of the pattern {self._shown}")

    def choice(self, depth: int) -> Part:
        """Alternatives up to a closing token, or the end."""
        if depth > NESTING_MAX:
            raise self.wrong(f"groups are nested more than {NESTING_MAX} deep")
        options = [self._sequence(depth)]
        while self.token == "|":
            self._next()
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    @property
    def _shown(self) -> str:
        return quoted(self._text if len(self._text) < 200 else self._text[:200] + " ...")

    def _next(self) -> str | None:
        """Step to the next token; returns the one before."""
        before = self.token
        rest = self._text[self._end :]
        self._begin = self._end + len(rest) - len(rest.lstrip())
        if not rest.strip():
            self.token = None
            return before
        found = _TOKEN.match(self._text, self._end)
        if found is None:
            raise self.wrong(f"{quoted(self._text[self._begin])} has no meaning")
        self.token, self._end = found["name"] or found["sign"], found.end()
        return before

    def _take(self, token: str, what: str) -> None:
        if self.token != token:
            seen = "nothing" if self.token is None else quoted(self.token)
            raise self.wrong(f"{what} is not closed with {quoted(token)}, but there is {seen}")
        self._next()

    def _sequence(self, depth: int) -> Part:
        parts: list[Part] = []
        while self.token is not None and self.token not in ("|", ")", "-}", ","):
            parts.append(self._quantified(depth))
        if not parts:
            raise self.wrong("a variable or a group is missing")
        return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))

    def _quantified(self, depth: int) -> Part:
        part = self._primary(depth)
        counts = self._counts()
        if counts is None:
            return part
        greedy = self.token != "?"
        if not greedy:
            self._next()
        if self._counts() is not None:
            raise self.wrong("a quantifier follows a quantifier; put brackets around the first,")
        return Repeat(part, *counts, greedy)

    def _counts(self) -> tuple[int, int | None] | None:
        """The numbers of a quantifier, if one is next."""
        token = self.token
        simple: dict[str | None, tuple[int, int | None]] = {
            "*": (0, None), "+": (1, None), "?": (0, 1)
        }  # fmt: skip
        if token in simple:
            self._next()
            return simple[token]
        if token is None or not token.startswith("{") or token == "{-":
            return None
        found = _COUNTS.fullmatch(token)
        if found is None or not any(found.groups()):
            raise self.wrong(f"{quoted(token)} is no quantifier such as {{2}}, {{2,}} or {{2,4}}")
        least = int(found[1] or 0)
        most = int(found[3]) if found[3] else (None if found[2] else least)
        if most is not None and most < least:
            raise self.wrong(f"{quoted(token)} asks for at least {least} and at most {most},")
        self._next()
        return least, most

    def _primary(self, depth: int) -> Part:
        token = self.token
        match token:
            case "(":
                self._next()
                if self.token == ")":
                    self._next()
                    return Concatenation(())
                inner = self.choice(depth + 1)
                self._take(")", "a group")
                return inner
            case "{-":
                self._next()
                inner = self.choice(depth + 1)
                self._take("-}", "an exclusion")
                return Exclude(inner)
            case "^" | "$":
                self._next()
                return Anchor(token == "^")
        if token is None or not (token[0].isalpha() or token[0] == "_"):
            raise self.wrong("a variable or a group is missing")
        self._next()
        if token.upper() == "PERMUTE" and self.token == "(":
            return self._permuted(depth)
        return Variable(token)

    def _permuted(self, depth: int) -> Part:
        """All orders of the parts, of which the order as written is preferred."""
        self._next()
        parts = [self.choice(depth + 1)]
        while self.token == ",":
            self._next()
            parts.append(self.choice(depth + 1))
        self._take(")", "PERMUTE")
        if len(parts) > 6:
            raise PlanError(f"PERMUTE takes at most 6 parts, got {len(parts)}: each order of them "
                            "is an alternative")  # fmt: skip
        return Alternation(tuple(Concatenation(order) for order in permutations(parts)))
