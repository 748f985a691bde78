"""Lengths of time as users give them, in whole microseconds.

One job: ``"5 seconds"`` or a timedelta; anything else is refused with the line to write.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias

from fabric.errors import PlanError
from fabric.plan.bounds import LATENCY_US_MAX
from fabric.plan.durations import duration_text, duration_us

Length: TypeAlias = str | timedelta

_MICROSECOND = timedelta(microseconds=1)


def us(length: Length, what: str, *, least: int = 0, way: str = "") -> int:
    """Microseconds of `length`, the argument called `what`; less than `least` is refused.

    >>> us("5 seconds", "bound"), us(timedelta(minutes=1), "bound")
    (5000000, 60000000)
    >>> us(5, "bound")
    Traceback (most recent call last):
    fabric.errors.PlanError: bound is a length of time, got 5; write: bound="5 seconds"
    """
    if not isinstance(length, str | timedelta):
        number = length if type(length) is int and length * 1_000_000 >= least else 1
        raise PlanError(
            f'{what} is a length of time, got {length!r}; write: {what}="{number} second'
            f'{"s" * (number != 1)}"'
        )
    try:
        found = duration_us(length) if isinstance(length, str) else length // _MICROSECOND
    except PlanError as error:
        raise PlanError(f"{what}: {error.message}") from None
    if found < least:
        raise PlanError(f"{what} must be at least {duration_text(least)}, got {length!r}{way}")
    return found


def maybe_us(length: Length | None, what: str, *, least: int = 0) -> int | None:
    """The same for what may be left out."""
    if length is None:
        return None
    return us(length, what, least=least, way=f"; leave {what} out for none")


def latency_us(latency: Length | None) -> int | None:
    """How long rows of a stream may be gathered; None: as the next one to ask says.

    >>> latency_us("20 ms"), latency_us("0 s"), latency_us(None)
    (20000, 0, None)
    """
    found = maybe_us(latency, "latency")
    if found is not None and found > LATENCY_US_MAX:
        raise PlanError(
            f"latency must be at most {duration_text(LATENCY_US_MAX)}, got {latency!r}; to bring "
            "rows of a longer time together, aggregate them in a window"
        )
    return found
