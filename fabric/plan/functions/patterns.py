"""Spark's datetime patterns for writing: which letters there are, and a pattern cut into them.

One job: `tokens` and `check_pattern`. What a letter writes is in the evaluators; these are the ones
that all of them write alike, in English.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from fabric.plan.faults import ArgumentFault

_TOKEN = re.compile(
    r"'(?P<text>(?:[^']|'')+)'|(?P<quote>'')|(?P<letters>([A-Za-z])\4*)|(?P<sign>.)", re.S
)
_COUNTS = {
    "y": range(1, 7), "M": range(1, 5), "d": range(1, 3), "D": range(1, 4), "E": range(1, 5),
    "H": range(1, 3), "h": range(1, 3), "k": range(1, 3), "K": range(1, 3), "a": range(1, 2),
    "m": range(1, 3), "s": range(1, 3), "S": range(1, 10), "Q": range(1, 3), "X": range(1, 4),
}  # fmt: skip
RESERVED = "[]{}#'"
"""Signs that must be quoted; a quote that is not closed is one of them."""
LETTERS = frozenset(chain.from_iterable([letter * n for n in ns] for letter, ns in _COUNTS.items()))
"""All that can be written: year, month, day, day of year and week, hours, minute, second, fraction,
quarter, zone offset (always Z)."""


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
