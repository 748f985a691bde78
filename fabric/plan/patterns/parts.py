"""What a checked pattern is made of, and its text for Java and for RE2.

One job: `Regex`, its parts, and the fault of what is no such pattern.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class PatternFault(ValueError):
    """A pattern that not all engines read alike; the message names what is wrong with it."""


class Edge(Enum):
    """A place between two characters, in RE2 and in Java."""

    WORD = (r"\b", r"(?:(?<![0-9A-Za-z_])(?=[0-9A-Za-z_])|(?<=[0-9A-Za-z_])(?![0-9A-Za-z_]))")
    NO_WORD = (r"\B", r"(?:(?<![0-9A-Za-z_])(?![0-9A-Za-z_])|(?<=[0-9A-Za-z_])(?=[0-9A-Za-z_]))")


@dataclass(frozen=True, slots=True)
class Open:
    """The beginning of a capturing group."""

    number: int


Part = str | Edge | Open


@dataclass(frozen=True, slots=True)
class Regex:
    """A checked pattern. `empty`: it may match without a character; `names`: numbers of groups."""

    parts: tuple[Part, ...]
    n_groups: int
    empty: bool
    names: dict[str, int] = field(default_factory=dict)

    def java(self) -> str:
        """The normal form for Java."""
        return "".join(_text(part, java=True) for part in self.parts)

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
        return part.value[java]
    return "(" if isinstance(part, Open) else part
