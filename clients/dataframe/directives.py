"""``strftime`` directives as a Spark datetime pattern."""

from __future__ import annotations

import re

from fabric.errors import PlanError

_LETTERS = {
    "%Y": "yyyy", "%y": "yy", "%m": "MM", "%b": "MMM", "%B": "MMMM", "%d": "dd", "%e": "d",
    "%j": "DDD", "%a": "EEE", "%A": "EEEE", "%H": "HH", "%I": "hh", "%p": "a", "%M": "mm",
    "%S": "ss", "%3f": "SSS", "%6f": "SSSSSS", "%9f": "SSSSSSSSS", "%f": "SSSSSSSSS",
    "%F": "yyyy-MM-dd", "%T": "HH:mm:ss", "%R": "HH:mm", "%D": "MM/dd/yy",
}  # fmt: skip
_PART = re.compile(r"%\d?.|[^%]+|%", re.S)


def spark_pattern(format: str) -> str:
    """The Spark pattern that writes the same; text is quoted where it has letters.

    >>> spark_pattern("%d of %B %Y, %H:%M")
    "dd' of 'MMMM yyyy, HH:mm"
    """
    return "".join(map(_part, _PART.findall(format)))


def _part(part: str) -> str:
    if not part.startswith("%"):
        return _text(part)
    if part == "%%":
        return "%"
    if part not in _LETTERS:
        known = ", ".join(_LETTERS)
        raise PlanError(f"strftime knows no {part!r}; use one of {known}, %%")
    return _LETTERS[part]


def _text(text: str) -> str:
    plain = not re.search(r"[A-Za-z\[\]{}#']", text)
    return text if plain else "'" + text.replace("'", "''") + "'"
