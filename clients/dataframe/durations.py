"""Lengths of time that may be months: ``"2h"``, ``"-1 day"``, ``"3mo"``, a timedelta.

One job: one number of one unit, as the functions of a calendar take it. The grammar is
`fabric.plan.durations`'.
"""

from __future__ import annotations

from datetime import timedelta

from fabric.errors import PlanError
from fabric.plan.durations import SHORT, UNITS_US, duration_parts

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
