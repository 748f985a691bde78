"""What a match is replaced by: text, with ``$1``, ``${1}`` or ``${name}`` for the match's groups.

One job: `parse`, and its text for RE2 and for Java. ``$0`` is the whole match; a backslash makes
the sign after it plain text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fabric.plan.patterns.regex import PatternFault, Regex

_PART = re.compile(
    r"\\(?P<plain>.)|\$(?P<digits>\d+)|\$\{(?P<name>\w+)\}|(?P<wrong>[\\$])|(?P<text>[^\\$]+)", re.S
)
_GROUP_MAX = 9


@dataclass(frozen=True, slots=True)
class Replacement:
    """Pieces of text and numbers of groups."""

    parts: tuple[str | int, ...]

    def re2(self) -> str:
        """For RE2's rewrite: ``\\1``."""
        return "".join(
            f"\\{part}" if isinstance(part, int) else part.replace("\\", "\\\\")
            for part in self.parts
        )

    def of(self, match: re.Match[str]) -> str:
        """What stands for a match of Python's `re`."""
        return "".join(
            (match[part] or "") if isinstance(part, int) else part for part in self.parts
        )

    def java(self, shift: int = 0) -> str:
        """For Java's ``appendReplacement``: ``$1``; a digit after a group is escaped.

        With `shift` the groups have later numbers.
        """
        found = ""
        for part in self.parts:
            if isinstance(part, int):
                found += f"${part + shift}"
                continue
            text = part.replace("\\", "\\\\").replace("$", "\\$")
            digit = found[-1:].isdigit() and text[0].isdigit()
            found += f"\\{text}" if digit else text
        return found


def parse(text: str, regex: Regex) -> Replacement:
    """The parts of a replacement; raises `PatternFault` for a group that `regex` has not.

    >>> from fabric.plan.patterns.regex import parse as regex
    >>> parse("<$1>", regex("(a)b")).parts
    ('<', 1, '>')
    """
    parts: list[str | int] = []
    for found in _PART.finditer(text):
        if found["wrong"]:
            raise PatternFault(f"a {found['wrong']} alone in the replacement; write \\{found[0]}")
        if found["digits"]:
            number, rest = _number(found["digits"], regex)
            parts += [number, rest] if rest else [number]
        elif found["name"]:
            parts.append(_named(found["name"], regex))
        else:
            parts.append(found["plain"] or found["text"])
    return Replacement(tuple(parts))


_RUST_PART = re.compile(
    r"(?P<dollar>\$\$)|\$(?P<name>\w+)|\$\{(?P<braced>[^}]*)\}|(?P<text>\$|[^$]+)", re.ASCII
)


def parse_rust(text: str, regex: Regex) -> Replacement:
    """The parts of a replacement as Rust writes it: ``$1``, ``${name}``, ``$$`` for a dollar.

    >>> from fabric.plan.patterns.regex import parse as regex
    >>> parse_rust("<${1}1>$$", regex("(a)b")).parts
    ('<', 1, '1>', '$')
    """
    parts: list[str | int] = []
    for found in _RUST_PART.finditer(text):
        name = found["name"] or found["braced"]
        if name is None:
            parts.append("$" if found["dollar"] else found["text"])
        elif name.isdigit() or name in regex.names:
            parts.append(_named(name, regex))
        else:
            raise PatternFault(
                f"a replacement by the group {name!r}, which is not in the pattern; write ${{1}} "
                "for a group before other letters, $$ for a dollar,"
            )
    return Replacement(tuple(parts))


def _number(digits: str, regex: Regex) -> tuple[int, str]:
    """As many digits as make a group that there is, at least one, and the digits after them."""
    n_used = 1
    while n_used < len(digits) and int(digits[: n_used + 1]) <= regex.n_groups:
        n_used += 1
    return _checked(int(digits[:n_used]), regex), digits[n_used:]


def _named(name: str, regex: Regex) -> int:
    if name.isdigit():
        return _checked(int(name), regex)
    if name not in regex.names:
        raise PatternFault(f"a replacement by the group {name!r}, which is not in the pattern")
    return regex.names[name]


def _checked(number: int, regex: Regex) -> int:
    if number > regex.n_groups:
        raise PatternFault(f"a replacement by group {number} of {regex.n_groups}")
    if number > _GROUP_MAX:
        raise PatternFault(f"a replacement by group {number}; it takes at most {_GROUP_MAX}")
    return number
