"""Functions of strings that are rarer: filled up, split, translated, compared by sound.

One job: initcap … soundex. The others are in `strings.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.bound import (
    Bound,
    Datum,
    Implementation,
    Request,
    arrays,
    by_row,
    each,
    simple,
)

_SOUNDS = {
    letter: digit
    for digit, letters in (("1", "BFPV"), ("2", "CGJKQSXZ"), ("3", "DT"), ("4", "L"), ("5", "MN"),
                           ("6", "R"))
    for letter in letters
}  # fmt: skip
_SILENT = "HW"
_SOUNDEX_LENGTH = 4


def _rows(function: Callable[..., Any]) -> Implementation:
    """A function of the values of a row; by different first values when the others are constant."""

    def implementation(request: Request) -> Bound:
        others = request.others
        if others is None:
            return Bound(by_row(function, request.result))
        return each(lambda text: function(text, *others))(request)

    return implementation


def initcap(text: str) -> str:
    """Words are what spaces part.

    >>> initcap("o'neil foo-BAR")
    "O'neil Foo-bar"
    """
    return " ".join(_capital(word) for word in text.split(" "))


def _capital(word: str) -> str:
    """The rest in lower case as part of the word: a sigma at its end is another one."""
    first = word[:1]
    return first.title() + word.lower()[len(first.lower()) :]


def lpad(text: str, n_characters: int, fill: str) -> str:
    """Filled up at the beginning, or cut at the end.

    >>> lpad("abc", 6, "xy"), lpad("abc", 2, "x")
    ('xyxabc', 'ab')
    """
    return (_fill(text, n_characters, fill) + text)[: max(n_characters, 0)]


def rpad(text: str, n_characters: int, fill: str) -> str:
    """Filled up at the end, or cut there."""
    return (text + _fill(text, n_characters, fill))[: max(n_characters, 0)]


def _fill(text: str, n_characters: int, fill: str) -> str:
    missing = n_characters - len(text)
    if missing <= 0 or not fill:
        return ""
    return (fill * (missing // len(fill) + 1))[:missing]


def split(text: str, by: str, limit: int = -1) -> list[str]:
    """The parts between every `by`; an empty `by` parts characters.

    >>> split("a,b,", ","), split("abc", "", 2)
    (['a', 'b', ''], ['a', 'bc'])
    """
    if by:
        return text.split(by, limit - 1 if limit > 0 else -1)
    n_single = len(text) if limit <= 0 else min(limit - 1, len(text))
    rest = text[n_single:]
    return [*text[:n_single], *([rest] if rest or not text else [])]


def split_part(text: str, by: str, number: int) -> str:
    """One part, counted from 1, below 0 from the end; empty when there is none.

    >>> split_part("a,b,c", ",", 2), split_part("a,b,c", ",", -1)
    ('b', 'c')
    """
    if number == 0:
        raise ExpressionError("split_part has no part 0; the first is 1, the last -1")
    parts = text.split(by) if by else [text]
    index = number - 1 if number > 0 else len(parts) + number
    return parts[index] if 0 <= index < len(parts) else ""


def translate(text: str, old: str, new: str) -> str:
    """Each character of `old` becomes the one at its place in `new`, or nothing.

    >>> translate("translate", "rnlt", "123")
    '1a2s3ae'
    """
    table: dict[int, str] = {}
    for place, character in enumerate(old):
        table.setdefault(ord(character), new[place : place + 1])
    return text.translate(table)


def instr(text: str, part: str) -> int:
    """Where `part` begins, from 1; 0 when it is not there."""
    return text.find(part) + 1


def to_chr(code: int) -> str:
    """Only the lower 8 bits count; nothing below 0."""
    return "" if code < 0 else chr(code % 256)


def levenshtein(left: str, right: str) -> int:
    """The edit distance.

    Notes
    -----
    Wagner and Fischer, The string-to-string correction problem, 1974; one row at a time.

    >>> levenshtein("kitten", "sitting")
    3
    """
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            changed = diagonal + (a != b)
            diagonal, row[j] = row[j], min(changed, row[j] + 1, row[j - 1] + 1)
    return row[-1]


def soundex(text: str) -> str:
    """A letter and three digits; a text that begins with no ASCII letter is itself.

    >>> soundex("Robert"), soundex("Tymczak"), soundex("1a")
    ('R163', 'T522', '1a')
    """
    if not (text[:1].isascii() and text[:1].isalpha()):
        return text
    found, last = text[0].upper(), _SOUNDS.get(text[0].upper(), "")
    for letter in text[1:]:
        upper = letter.upper() if letter.isascii() else letter
        if not (letter.isascii() and letter.isalpha()):
            last = ""
        elif upper not in _SILENT:
            sound = _SOUNDS.get(upper, "")
            found += sound if sound != last else ""
            last = sound
        if len(found) == _SOUNDEX_LENGTH:
            break
    return found.ljust(_SOUNDEX_LENGTH, "0")


def _concat_ws(separator: Datum, *parts: Datum) -> Datum:
    """Parts that are null are left out; null when the separator is."""
    if not parts:
        return pc.if_else(pc.is_valid(separator), "", separator)
    _, first, *others = arrays(separator, *parts)
    nothing = pc.is_null(pc.coalesce(first, *others))  # such a row Arrow 25 leaves out
    first = pc.if_else(nothing, "", first)
    return pc.binary_join_element_wise(first, *others, separator, null_handling="skip")


IMPLEMENTATIONS: dict[str, Implementation] = {
    "initcap": each(initcap),
    "lpad": _rows(lpad),
    "rpad": _rows(rpad),
    "repeat": _rows(lambda text, n_times: text * n_times),
    "split": _rows(split),
    "split_part": _rows(split_part),
    "translate": _rows(translate),
    "instr": _rows(instr),
    "concat_ws": simple(_concat_ws, order="all"),
    "ascii": each(lambda text: ord(text[0]) if text else 0),
    "chr": each(to_chr),
    "levenshtein": _rows(levenshtein),
    "soundex": each(soundex),
}
