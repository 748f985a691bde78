"""Lengths of time as users give them, in whole microseconds.

One job: ``"5 seconds"`` or a timedelta; anything else is refused with the line to write.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias

from fabric.errors import PlanError
from fabric.plan.durations import duration_us

Length: TypeAlias = str | timedelta

_MICROSECOND = timedelta(microseconds=1)


def us(length: Length, what: str) -> int:
    """Microseconds of `length`, the argument called `what`.

    >>> us("5 seconds", "bound"), us(timedelta(minutes=1), "bound")
    (5000000, 60000000)
    >>> us(5, "bound")
    Traceback (most recent call last):
    fabric.errors.PlanError: bound is a length of time, got 5; write: bound="5 seconds"
    """
    if isinstance(length, timedelta):
        return length // _MICROSECOND
    if isinstance(length, str):
        return duration_us(length)
    number = length if isinstance(length, int) and not isinstance(length, bool) else 1
    raise PlanError(
        f'{what} is a length of time, got {length!r}; write: {what}="{number} second'
        f'{"s" * (number != 1)}"'
    )


def maybe_us(length: Length | None, what: str) -> int | None:
    """The same for what may be left out."""
    return None if length is None else us(length, what)
