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
_CASED_MAX = 0x20000
"""No letter behind it has another case."""
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


@cache
def _cases() -> dict[int, tuple[int, ...]]:
    """Characters that are one when case is ignored, by Unicode's simple case folding."""
    same: dict[str, list[int]] = {}
    for code in range(_CASED_MAX):
        character = chr(code)
        whole, lower = character.casefold(), character.lower()
        folds_to = whole if len(whole) == 1 else lower if len(lower) == 1 else character
        same.setdefault(folds_to, []).append(code)
    return {code: tuple(codes) for codes in same.values() if len(codes) > 1 for code in codes}


def unicode_folded(wanted: Ranges) -> Ranges:
    """With the other cases of every letter: what Rust ignores of case.

    >>> unicode_folded(of("k")) == of("kK\u212a")
    True
    """
    known = _cases()
    inside = (code for low, high in wanted for code in known if low <= code <= high)
    return ranges(*wanted, *((other, other) for code in inside for other in known[code]))


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

RUST_LINE = complement(of("\n"))
"""What ``.`` is in Rust."""


_UNICODE_BLANKS = ranges(
    (9, 13), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A),
    (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000),
)  # fmt: skip
_WORD_SIGNS = ((0x200C, 0x200D), (0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169),
               (0x1F170, 0x1F189))  # fmt: skip
"""What joins letters, and circled letters: words of Unicode have them too."""


@cache
def unicode_escape(letter: str) -> Ranges | None:
    """``\\d``, ``\\w`` or ``\\s`` of Unicode, as Rust has them; None for other letters.

    >>> unicode_escape("d")[:2]
    ((48, 57), (1632, 1641))
    """
    match letter:
        case "d":
            return _category("Nd")
        case "s":
            return _UNICODE_BLANKS
        case "w":
            words = (part for name in ("L", "M", "Nd", "Nl", "Pc") for part in _category(name))
            return ranges(*words, *_WORD_SIGNS)
    return None


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


def posix(name: str) -> Ranges | None:
    """The set ``[:name:]``, of ASCII; None if unknown.

    >>> posix("digit")
    ((48, 57),)
    """
    if name == "word":
        return _WORD
    return next((found for key, found in _POSIX.items() if key.lower() == name), None)


def category(name: str) -> Ranges | None:
    """A general category of Unicode, None if unknown.

    >>> category("Greek") is None
    True
    """
    seconds = _CATEGORIES.get(name[:1])
    known = seconds is not None and len(name) <= 2 and name[1:] in seconds
    return _category(name) if known else None


def named(name: str) -> Ranges | None:
    """The set ``\\p{name}``: a class of POSIX (ASCII) or a category of Unicode, None if unknown.

    >>> named("Digit")
    ((48, 57),)
    """
    return _POSIX[name] if name in _POSIX else category(name)


@cache
def _category(name: str) -> Ranges:
    """Code points of a general category, of this Python's Unicode."""
    return ranges(*(run for group, run in _categories() if group.startswith(name)))


@cache
def _categories() -> tuple[tuple[str, tuple[int, int]], ...]:
    """All code points in runs of one category."""
    found: list[tuple[str, tuple[int, int]]] = []
    for group, codes in groupby(range(LAST + 1), lambda code: unicodedata.category(chr(code))):
        run = list(codes)
        found.append((group, (run[0], run[-1])))
    return tuple(found)
