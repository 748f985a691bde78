"""Lengths of time that may be months: ``"2h"``, ``"-1 day"``, ``"3mo"``, a timedelta.

One job: one number of one unit, as the functions of a calendar take it. The grammar is
`fabric.plan.durations`'.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias

from fabric.errors import PlanError
from fabric.plan.bounds import LATENCY_US_MAX
from fabric.plan.durations import SHORT, UNITS_US, duration_parts, duration_text, duration_us

UNITS = {short: unit for short, unit in SHORT.items() if len(short) < 3}


def parse_duration(duration: str | timedelta) -> tuple[int, str]:
    """A number and the unit it counts; several units become the largest that counts them whole.

    >>> parse_duration("-2h"), parse_duration("15 minutes"), parse_duration("1h30m")
    ((-2, 'hour'), (15, 'minute'), (90, 'minute'))
    """
    if not isinstance(duration, str | timedelta):
        raise _no_duration(duration)
    try:
        parts = duration_parts(duration)
    except PlanError as error:
        raise _no_duration(duration) if "valid" in error.message else error from None
    if len(parts) == 1 and isinstance(duration, str):
        return parts[0].number, parts[0].unit
    if any(part.unit not in UNITS_US for part in parts):
        raise PlanError(
            f"{duration!r} mixes units, of which months are not always as long; write one of them"
        )
    total = sum(part.number * UNITS_US[part.unit] for part in parts)
    whole = [unit for unit, us in UNITS_US.items() if total % us == 0 and unit != "week"]
    return total // UNITS_US[whole[-1]], whole[-1]


def days_and_rest(duration: str | timedelta) -> tuple[int, int] | None:
    """Days, which clocks may make longer or shorter, and microseconds; None where it has months.

    >>> days_and_rest("1d2h"), days_and_rest("24h"), days_and_rest("1mo")
    ((1, 7200000000), (0, 86400000000), None)
    """
    parse_duration(duration)
    if isinstance(duration, timedelta):
        return duration.days, (duration - timedelta(duration.days)) // timedelta(microseconds=1)
    days = rest = 0
    for number, unit in duration_parts(duration):
        if unit not in UNITS_US:
            return None
        if unit in ("day", "week"):
            days += number * UNITS_US[unit] // UNITS_US["day"]
        else:
            rest += number * UNITS_US[unit]
    return days, rest


def _no_duration(duration: object) -> PlanError:
    units = ", ".join(f"{short} ({unit})" for short, unit in UNITS.items())
    return PlanError(
        f"{duration!r} is not a valid duration; write a number and a unit, for example "
        f'"15 minutes" or "15m", or a timedelta; the units are {units}'
    )


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
