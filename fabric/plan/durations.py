"""Lengths of time as text: "1 hour 30 minutes", "15m", "-3mo".

One job: the grammar, which is the same wherever a length of time is asked for, and text that it
reads back. Lengths that are always the same are whole microseconds; months, quarters and years are
counted as such.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import NamedTuple

from fabric.errors import PlanError

DURATION_US_MAX = 2**60
UNITS_US = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
"""Units that are always as long."""
UNITS_MONTHS = {"month": 1, "quarter": 3, "year": 12}
SHORT = {
    "us": "microsecond", "ms": "millisecond", "s": "second", "m": "minute", "h": "hour", "d": "day",
    "w": "week", "mo": "month", "q": "quarter", "y": "year", "sec": "second", "min": "minute",
}  # fmt: skip
_PART = re.compile(r"\s*(\d{1,19})\s*([A-Za-z]+)", re.ASCII)
_MICROSECOND = timedelta(microseconds=1)


class Part(NamedTuple):
    """A number and the unit it counts."""

    number: int
    unit: str


def duration_parts(given: str | timedelta) -> list[Part]:
    """What a length of time is made of, in the order of the text.

    >>> duration_parts("1 hour 30 minutes"), duration_parts("-3mo")
    ([Part(number=1, unit='hour'), Part(number=30, unit='minute')], [Part(number=-3, unit='month')])
    """
    if isinstance(given, timedelta):
        return [Part(given // _MICROSECOND, "microsecond")]
    text = given.strip()
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text)
    parts, place = [], 0
    while found := _PART.match(rest, place):
        parts.append(Part(sign * int(found[1]), _unit(given, found[2])))
        place = found.end()
    if not parts or rest[place:].strip():
        raise _no_duration(given)
    return parts


def duration_us(text: str) -> int:
    """Microseconds of a duration such as "5 seconds", "1 hour 30 minutes", "15m" or "250 ms".

    >>> duration_us("1 hour 30 minutes"), duration_us("1h30m"), duration_us("250 ms")
    (5400000000, 5400000000, 250000)
    >>> duration_us("soon")
    Traceback (most recent call last):
    fabric.errors.PlanError: 'soon' is not a valid duration; write for example "5 seconds", "15m" \
or "1 hour 30 minutes"; the units are us, ms, s, m, h, d, w, microseconds, milliseconds, seconds, \
minutes, hours, days, weeks
    """
    parts = duration_parts(text)
    if any(part.number < 0 for part in parts):
        raise PlanError(f"{text!r} is below 0; a length of time is not")
    for part in parts:
        if part.unit in UNITS_MONTHS:
            raise PlanError(
                f"{text!r} is not always as long, since a {part.unit} is not; write for example "
                '"30 days"'
            )
    total = sum(part.number * UNITS_US[part.unit] for part in parts)
    if total > DURATION_US_MAX:
        raise PlanError(f"{text!r} is longer than any window can be (36,000 years)")
    return total


def duration_text(us: int) -> str:
    """A duration in words that `duration_us` reads back.

    >>> duration_text(5_400_000_000), duration_text(0), duration_text(1)
    ('1 hour 30 minutes', '0 seconds', '1 microsecond')
    """
    parts = []
    rest = abs(us)
    for unit, scale in reversed(UNITS_US.items()):
        if unit == "week":
            continue
        n, rest = divmod(rest, scale)
        if n:
            parts.append(f"{n} {unit}{'s' * (n > 1)}")
    return ("-" if us < 0 else "") + (" ".join(parts) or "0 seconds")


def lengths_text(*lengths_us: int) -> str:
    """Durations as arguments of a step.

    >>> print(lengths_text(1_000_000, 60_000_000))
    "1 second", "1 minute"
    """
    return ", ".join(f'"{duration_text(us)}"' for us in lengths_us)


def _unit(given: str, word: str) -> str:
    if word == "M":
        raise PlanError(f"{given!r}: M could be minutes or months; write m or mo")
    name = word.casefold()
    name = SHORT.get(name, name.removesuffix("s"))
    if name not in UNITS_US and name not in UNITS_MONTHS:
        raise _no_duration(given)
    return name


def _no_duration(text: str) -> PlanError:
    short = [name for name, unit in SHORT.items() if unit in UNITS_US and len(name) < 3]
    units = ", ".join([*short, *(f"{unit}s" for unit in UNITS_US)])
    return PlanError(
        f'{text[:80]!r} is not a valid duration; write for example "5 seconds", "15m" or "1 hour '
        f'30 minutes"; the units are {units}'
    )
