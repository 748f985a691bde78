"""Durations as text: "1 hour 30 minutes".

One job: read what a user writes, and print what can be read again. Inside they are whole
microseconds. Months and years are none: they are not of one length.
"""

from __future__ import annotations

from fabric.errors import PlanError

DURATION_US_MAX = 2**60
_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_SHORT = {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000}


def duration_us(text: str) -> int:
    """Microseconds of a duration such as "5 seconds", "1 hour 30 minutes" or "250 ms".

    >>> duration_us("1 hour 30 minutes"), duration_us("250 ms")
    (5400000000, 250000)
    >>> duration_us("soon")
    Traceback (most recent call last):
    fabric.errors.PlanError: 'soon' is no duration; write for example "5 seconds" or "1 hour 30 \
minutes"; the units are us, ms, s, min, h, microseconds, milliseconds, seconds, minutes, hours, \
days, weeks
    """
    words = text.split()
    total = 0
    for number, unit in zip(words[::2], words[1::2], strict=False):
        scale = _scale(unit)
        if not (number.isascii() and number.isdigit()) or scale is None:
            raise _no_duration(text)
        total += int(number[:20]) * scale
    if not words or len(words) % 2:
        raise _no_duration(text)
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
    for unit, scale in reversed(_UNITS.items()):
        if unit == "week":
            continue
        n, rest = divmod(rest, scale)
        if n:
            parts.append(f"{n} {unit}{'s' * (n > 1)}")
    return ("-" if us < 0 else "") + (" ".join(parts) or "0 seconds")


def _scale(unit: str) -> int | None:
    name = unit.casefold()
    return _SHORT.get(name, _UNITS.get(name, _UNITS.get(name.removesuffix("s"))))


def _no_duration(text: str) -> PlanError:
    units = ", ".join([*_SHORT, *(f"{unit}s" for unit in _UNITS)])
    return PlanError(
        f'{text[:80]!r} is no duration; write for example "5 seconds" or "1 hour 30 minutes"; the '
        f"units are {units}"
    )
