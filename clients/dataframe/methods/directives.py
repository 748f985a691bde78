"""``strftime`` directives as a Spark datetime pattern, to write and to read by.

One job: `spark_pattern` and `reading_pattern`.
"""

from __future__ import annotations

import re

from fabric.errors import PlanError

_LETTERS = {
    "%Y": "yyyy", "%y": "yy", "%m": "MM", "%b": "MMM", "%B": "MMMM", "%d": "dd", "%e": "d",
    "%j": "DDD", "%a": "EEE", "%A": "EEEE", "%H": "HH", "%I": "hh", "%p": "a", "%M": "mm",
    "%S": "ss", "%3f": "SSS", "%6f": "SSSSSS", "%9f": "SSSSSSSSS", "%f": "SSSSSSSSS",
    "%.3f": ".SSS", "%.6f": ".SSSSSS", "%.9f": ".SSSSSSSSS", "%z": "xx", "%:z": "xxx",
}  # fmt: skip
_READ = {
    "%Y": "yyyy", "%m": "MM", "%b": "MMM", "%d": "dd", "%e": "d", "%H": "HH",
    "%I": "hh", "%p": "a", "%M": "mm", "%S": "ss", "%.f": ".SSSSSSSSS", "%.3f": ".SSS",
    "%.6f": ".SSSSSS", "%.9f": ".SSSSSSSSS", "%3f": "SSS", "%6f": "SSSSSS", "%9f": "SSSSSSSSS",
    "%z": "XX", "%:z": "XXX",
}  # fmt: skip
"""Not %y: where Spark reads 99 as 2099, Polars reads 1999."""
_SHORT = {"%m": "M", "%d": "d", "%H": "H", "%I": "h", "%M": "m", "%S": "s"}
"""One digit is read too, where no other number follows."""
_WHOLE = {"%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%R": "%H:%M", "%D": "%m/%d/%y"}
_PART = re.compile(r"%\.\d?f|%:z|%\d?.|[^%]+|%", re.S)


def spark_pattern(format: str) -> str:
    """The Spark pattern that writes the same; text is quoted where it has letters.

    >>> spark_pattern("%d of %B %Y, %H:%M")
    "dd' of 'MMMM yyyy, HH:mm"
    """
    return "".join(_part(part, _LETTERS, "strftime") for part in _parts(format, "strftime"))


def reading_pattern(format: str, method: str) -> str:
    """The Spark pattern that reads the same.

    >>> reading_pattern("%d.%m.%Y", "to_date"), reading_pattern("%Y%m%d", "to_date")
    ('d.M.yyyy', 'yyyyMMdd')
    """
    found, parts = "", _parts(format, method)
    for part, after in zip(parts, [*parts[1:], ""], strict=True):
        is_alone = not after.startswith("%") and not after[:1].isdigit()
        is_alone = is_alone and not found[-1:].isalpha()
        found += _SHORT[part] if part in _SHORT and is_alone else _part(part, _READ, method)
    return found


def _parts(format: str, method: str) -> list[str]:
    if not isinstance(format, str):
        raise PlanError(f'{method} takes a format such as "%Y-%m-%d", got {format!r}')
    whole = "".join(_WHOLE.get(part, part) for part in _PART.findall(format))
    found = _PART.findall(whole)
    if not any(part.startswith("%") for part in found):
        raise PlanError(
            f'{method} takes a format such as "%Y-%m-%d", and {format!r} has no directive; for '
            "a pattern of Spark's use the functions to_date, to_timestamp and date_format"
        )
    return found


def _part(part: str, letters: dict[str, str], method: str) -> str:
    if not part.startswith("%"):
        return _text(part)
    if part == "%%":
        return "%"
    if part not in letters:
        known = ", ".join([*letters, *_WHOLE])
        raise PlanError(f"{method} knows no {part!r}; use one of {known}, %%")
    return letters[part]


def _text(text: str) -> str:
    plain = not re.search(r"[A-Za-z\[\]{}#']", text)
    return text if plain else "'" + text.replace("'", "''") + "'"
