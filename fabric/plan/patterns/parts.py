"""What a checked pattern is made of, and its text for Java and for RE2.

One job: `Regex`, its parts, and the fault of what is no such pattern.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cache

from fabric.plan.patterns import charset


class PatternFault(ValueError):
    """A pattern that not all engines read alike; the message names what is wrong with it."""


class Edge(Enum):
    """A place between two characters: at the beginning or end of a word, or not there."""

    WORD = r"\b"
    NO_WORD = r"\B"
    UNICODE_WORD = "an edge of a word of Unicode"
    NO_UNICODE_WORD = "no edge of a word of Unicode"

    @property
    def is_unicode(self) -> bool:
        """Whether RE2 can't find it."""
        return self in (Edge.UNICODE_WORD, Edge.NO_UNICODE_WORD)


@cache
def _looked_around(edge: Edge) -> str:
    """For Java and for Python, by what is before and behind."""
    word = charset.unicode_escape("w") if edge.is_unicode else charset.ESCAPES["w"]
    assert word is not None
    one = charset.text(word)
    if edge in (Edge.WORD, Edge.UNICODE_WORD):
        return f"(?:(?<!{one})(?={one})|(?<={one})(?!{one}))"
    return f"(?:(?<!{one})(?!{one})|(?<={one})(?={one}))"


@dataclass(frozen=True, slots=True)
class Open:
    """The beginning of a capturing group."""

    number: int


Part = str | Edge | Open


@dataclass(frozen=True, slots=True)
class Regex:
    """A checked pattern. `empty`: it may match without a character; `names`: numbers of groups.

    `is_re2` says that RE2 can find it; what it can't (words of Unicode, large sets often repeated)
    is found by Python's own `re`.
    """

    parts: tuple[Part, ...]
    n_groups: int
    empty: bool
    names: dict[str, int] = field(default_factory=dict)
    is_re2: bool = True

    def java(self) -> str:
        """The normal form for Java."""
        return "".join(_text(part, java=True) for part in self.parts)

    def python(self) -> str:
        """The normal form for Python's `re`."""
        parts = (r"\Z" if part == r"\z" else _text(part, java=True) for part in self.parts)
        return "".join(parts)

    def re2(self) -> str:
        """The normal form for RE2."""
        return "".join(_text(part, java=False) for part in self.parts)

    def re2_of_group(self, number: int) -> str:
        """For RE2, with group `number` (0: all) as the only one, named ``g``."""
        parts = (
            part if not isinstance(part, Open) else "(?P<g>" if part.number == number else "(?:"
            for part in self.parts
        )
        text = "".join(_text(part, java=False) for part in parts)
        return f"(?P<g>{text})" if number == 0 else text


def _text(part: Part, *, java: bool) -> str:
    if isinstance(part, Edge):
        return _looked_around(part) if java else part.value
    return "(" if isinstance(part, Open) else part
