"""Durations as people write them: ``"2h"``, ``"-1d"``, ``"3mo"``."""

from __future__ import annotations

import re

from fabric.errors import PlanError

UNITS = {
    "us": "microsecond", "ms": "millisecond", "s": "second", "m": "minute", "h": "hour", "d": "day",
    "w": "week", "mo": "month", "q": "quarter", "y": "year",
}  # fmt: skip
_DURATION = re.compile(r"(-?\d+)(us|ms|s|mo|m|h|d|w|q|y)")


def parse_duration(duration: str) -> tuple[int, str]:
    """A number and the unit it counts.

    >>> parse_duration("-2h")
    (-2, 'hour')
    """
    match = _DURATION.fullmatch(duration) if isinstance(duration, str) else None
    if match is None:
        units = ", ".join(f"{short} ({unit})" for short, unit in UNITS.items())
        raise PlanError(f"{duration!r} is no duration; write a number and a unit: {units}")
    return int(match[1]), UNITS[match[2]]
