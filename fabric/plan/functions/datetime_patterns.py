"""Spark's datetime patterns: which letters there are to write and to read, and a pattern cut up.

One job: `tokens`, `check_pattern` for writing and `read_by` for reading. What a letter writes is in
the evaluators; these are the ones that all of them write alike, in English. To read there are::

    yyyy year (4 digits)   yy year (2 digits, 2000 and later)
    M MM month   MMM month's English short name   d dd day
    H HH hour 0-23   h hh hour 1-12, with a   a AM or PM   m mm minute   s ss second
    S.. fraction of a second, up to as many digits as letters
    X XX XXX zone offset, Z for UTC   '...' text   '' a quote   other signs themselves
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from fabric.plan.faults import ArgumentFault

_TOKEN = re.compile(
    r"'(?P<text>(?:[^']|'')+)'|(?P<quote>'')|(?P<letters>([A-Za-z])\4*)|(?P<sign>.)", re.S
)
_COUNTS = {
    "y": range(1, 7), "M": range(1, 5), "d": range(1, 3), "D": range(1, 4), "E": range(1, 5),
    "H": range(1, 3), "h": range(1, 3), "k": range(1, 3), "K": range(1, 3), "a": range(1, 2),
    "m": range(1, 3), "s": range(1, 3), "S": range(1, 10), "Q": range(1, 3), "X": range(1, 4),
    "x": range(1, 4),
}  # fmt: skip
RESERVED = "[]{}#'"
"""Signs that must be quoted; a quote that is not closed is one of them."""
LETTERS = frozenset(chain.from_iterable([letter * n for n in ns] for letter, ns in _COUNTS.items()))
"""All that can be written: year, month, day, day of year and week, hours, minute, second, fraction,
quarter, zone offset (X: Z for UTC, x: +00)."""


def tokens(pattern: str) -> Iterator[tuple[str, str]]:
    """The parts of a pattern: ("letters", "yyyy"), ("text", "at") or ("sign", "-").

    >>> list(tokens("d'th of' MMM"))
    [('letters', 'd'), ('text', 'th of'), ('sign', ' '), ('letters', 'MMM')]
    """
    for token in _TOKEN.finditer(pattern):
        if token["letters"] is not None:
            yield "letters", token["letters"]
        elif token["text"] is not None:
            yield "text", token["text"].replace("''", "'")
        else:
            yield ("text", "'") if token["quote"] else ("sign", token["sign"])


def check_pattern(pattern: str) -> None:
    """Refuse letters that have no meaning here, and signs that have one in Spark."""
    for kind, text in tokens(pattern):
        if kind == "letters" and text not in LETTERS:
            known = ", ".join(letter * max(counts) for letter, counts in _COUNTS.items())
            raise ArgumentFault(
                f"date_format knows no {text!r} in the pattern {pattern!r}; use up to {known}, "
                "and quotes around text"
            )
        if kind == "sign" and text in RESERVED:
            raise ArgumentFault(f"date_format: quote {text!r} in the pattern {pattern!r}")


MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_READ = {
    "yyyy": ("year", r"[0-9]{4}"),
    "yy": ("short_year", r"[0-9]{2}"),
    "M": ("month", r"[0-9]{1,2}"),
    "MM": ("month", r"[0-9]{2}"),
    "MMM": ("month_name", "|".join(MONTHS)),
    "d": ("day", r"[0-9]{1,2}"),
    "dd": ("day", r"[0-9]{2}"),
    "H": ("hour", r"[0-9]{1,2}"),
    "HH": ("hour", r"[0-9]{2}"),
    "h": ("clock_hour", r"[0-9]{1,2}"),
    "hh": ("clock_hour", r"[0-9]{2}"),
    "a": ("half", r"(?i:AM|PM)"),
    "m": ("minute", r"[0-9]{1,2}"),
    "mm": ("minute", r"[0-9]{2}"),
    "s": ("second", r"[0-9]{1,2}"),
    "ss": ("second", r"[0-9]{2}"),
    "X": ("zone", r"Z|[+-][0-9]{2}(?:[0-9]{2})?"),
    "XX": ("zone", r"Z|[+-][0-9]{4}"),
    "XXX": ("zone", r"Z|[+-][0-9]{2}:[0-9]{2}"),
}


@dataclass(frozen=True, slots=True)
class Reading:
    """How a pattern is read: a regular expression with a named group per field."""

    regex: str
    fields: tuple[str, ...]


def read_by(pattern: str, verb: str = "to_timestamp") -> Reading:
    """What `pattern`, an argument of `verb`, reads; raises `ArgumentFault`.

    >>> read_by("d.M.yyyy").fields
    ('day', 'month', 'year')
    """
    regex: list[str] = []
    fields: list[str] = []
    for kind, text in tokens(pattern):
        if kind == "letters":
            name, expression = _field(text, pattern, verb)
            if name in fields:
                raise ArgumentFault(f"{verb}: the pattern {pattern!r} names the {name} twice")
            fields.append(name)
            regex.append(f"(?P<{name}>{expression})")
        elif kind == "sign" and text in RESERVED:
            raise ArgumentFault(f"{verb}: {text!r} is not supported in {pattern!r}")
        else:
            regex.append(re.escape(text))
    if ("clock_hour" in fields) != ("half" in fields):
        raise ArgumentFault(f"{verb}: h and a need each other in the pattern {pattern!r}")
    return Reading(f"^{''.join(regex)}$", tuple(fields))


def _field(letters: str, pattern: str, verb: str) -> tuple[str, str]:
    if set(letters) == {"S"} and len(letters) <= 9:
        return "fraction", f"[0-9]{{1,{len(letters)}}}"
    if letters not in _READ:
        raise ArgumentFault(
            f"{verb} knows no {letters!r} in the pattern {pattern!r}; use {', '.join(_READ)},"
            " S, and quotes around text"
        )
    return _READ[letters]
