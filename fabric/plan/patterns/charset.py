"""Sets of characters: the classes of a regular expression, written out.

One job: ranges of code points and their text in a pattern. Classes such as ``\\w`` differ between
engines (Unicode or ASCII, with the vertical tab or without), ranges do not.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from itertools import groupby

Ranges = tuple[tuple[int, int], ...]
"""Sorted, apart from each other, both ends in."""

LAST = 0x10FFFF
_SURROGATES = ((0xD800, 0xDFFF),)
_CASE_STEP = ord("a") - ord("A")
_SPECIAL = frozenset("\\.+*?()|[]{}^$-&~#")


def ranges(*parts: tuple[int, int]) -> Ranges:
    """The union of ranges.

    >>> ranges((97, 99), (98, 110), (111, 111))
    ((97, 111),)
    """
    found: list[tuple[int, int]] = []
    for low, high in sorted(parts):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def of(characters: str) -> Ranges:
    """The set of these characters."""
    return ranges(*((ord(c), ord(c)) for c in characters))


def complement(wanted: Ranges) -> Ranges:
    """All other code points.

    >>> complement(((0, 96), (98, 0x10FFFF)))
    ((97, 97),)
    """
    found, start = [], 0
    for low, high in wanted:
        if start < low:
            found.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        found.append((start, LAST))
    return tuple(found)


def folded(wanted: Ranges) -> Ranges:
    """With the other case of each ASCII letter: what Java ignores of case by itself.

    >>> folded(of("k")) == of("kK")
    True
    """
    both = list(wanted)
    for first, step in (("a", -_CASE_STEP), ("A", _CASE_STEP)):
        cut = [(max(low, ord(first)), min(high, ord(first) + 25)) for low, high in wanted]
        both += [(low + step, high + step) for low, high in cut if low <= high]
    return ranges(*both)


def text(wanted: Ranges) -> str:
    """The set as a part of a pattern.

    >>> text(of("a")), text(ranges((97, 102))), text(complement(of("]")))
    ('a', '[a-f]', '[^\\\\]]')
    """
    if len(wanted) == 1 and wanted[0][0] == wanted[0][1]:
        return escaped(chr(wanted[0][0]))
    if wanted and wanted[-1][1] == LAST:
        rest = _listed(complement(wanted))
        return f"[^{rest}]" if rest else f"[{chr(0)}-{chr(LAST)}]"
    return f"[{_listed(wanted)}]"


def escaped(character: str) -> str:
    """One character as itself.

    >>> escaped("a"), escaped("."), escaped("é")
    ('a', '\\\\.', 'é')
    """
    return f"\\{character}" if character in _SPECIAL else character


def _listed(wanted: Ranges) -> str:
    """The inside of a class; surrogates are no characters of a text."""
    kept = complement(ranges(*complement(wanted), *_SURROGATES))
    return "".join(
        escaped(chr(low)) if low == high else f"{escaped(chr(low))}-{escaped(chr(high))}"
        for low, high in kept
    )


_DIGIT = ranges((48, 57))
_UPPER = ranges((65, 90))
_LOWER = ranges((97, 122))
_WORD = ranges(*_DIGIT, *_UPPER, *_LOWER, *of("_"))
_GRAPH = ranges((33, 126))
_BLANKS = " \t\xa0\u1680\u180e\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"

_LINE_ENDS = of("\n\r\x85\u2028\u2029")
ANY: Ranges = ((0, LAST),)
IN_LINE = complement(_LINE_ENDS)
"""What ``.`` is."""
ESCAPES: dict[str, Ranges] = {
    "d": _DIGIT,
    "w": _WORD,
    "s": of(" \t\n\x0b\f\r"),
    "h": of(f"{_BLANKS}\u202f\u205f\u3000"),
    "v": ranges(*_LINE_ENDS, *of("\x0b\f")),
}
"""``\\d`` and the like as Java has them; the capital letter is the complement."""

_POSIX: dict[str, Ranges] = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": ranges((0, 127)),
    "Alpha": ranges(*_LOWER, *_UPPER),
    "Digit": _DIGIT,
    "Alnum": ranges(*_LOWER, *_UPPER, *_DIGIT),
    "Punct": complement(ranges(*complement(_GRAPH), *_LOWER, *_UPPER, *_DIGIT)),
    "Graph": _GRAPH,
    "Print": ranges((32, 126)),
    "Blank": of(" \t"),
    "Cntrl": ranges((0, 31), (127, 127)),
    "XDigit": ranges(*_DIGIT, *of("abcdefABCDEF")),
    "Space": ESCAPES["s"],
}
_CATEGORIES = {
    "L": "utlmo", "M": "nce", "N": "dlo", "P": "cdseifo", "S": "mcko", "Z": "slp"
}  # fmt: skip
"""Unicode's categories: their letters, and the second letters that each may have."""


def named(name: str) -> Ranges | None:
    """The set ``\\p{name}``: a class of POSIX (ASCII) or a category of Unicode, None if unknown.

    >>> named("Digit")
    ((48, 57),)
    >>> named("Greek") is None
    True
    """
    if name in _POSIX:
        return _POSIX[name]
    seconds = _CATEGORIES.get(name[:1])
    known = seconds is not None and len(name) <= 2 and name[1:] in seconds
    return _category(name) if known else None


@cache
def _category(name: str) -> Ranges:
    """Code points of a general category, of this Python's Unicode."""
    found: list[tuple[int, int]] = []
    for category, codes in groupby(range(LAST + 1), lambda code: unicodedata.category(chr(code))):
        if category.startswith(name):
            run = list(codes)
            found.append((run[0], run[-1]))
    return ranges(*found)
