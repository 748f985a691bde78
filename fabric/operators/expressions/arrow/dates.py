"""Functions of dates and timestamps of microseconds, as clocks of their zone show them.

One job: year quarter month week day weekday day_of_week day_of_year hour minute second date_trunc
to_date to_timestamp try_to_timestamp date_format add_interval.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.bound import (
    Bound,
    Datum,
    Implementation,
    Request,
    Values,
    all_null,
    arrays,
    from_numpy,
    to_numpy,
)
from fabric.operators.expressions.arrow.calendar import weekday
from fabric.operators.expressions.arrow.casts import cast_kernel
from fabric.operators.expressions.arrow.civil import (
    DAY_US,
    civil_from_days,
    day_in_year,
    days_of,
    first_of_months,
    months_later,
)
from fabric.operators.expressions.arrow.datetime_patterns import parser, writer
from fabric.operators.expressions.arrow.zones import to_wall
from fabric.plan.durations import UNITS_MONTHS, UNITS_US
from fabric.plan.functions.dates import CLOCK_UNITS
from fabric.plan.zones import local_zone, zone_rules

_Add = Callable[[pa.Array, pa.Array, str], pa.Array]
_NO_UNITS = pa.scalar(None, pa.int64())
_MONTHS_MAX = 178_956_970
"""Spark keeps months in an int32; years times twelve must fit too."""


def _whole(
    compute: Callable[[pa.Array], Values], dtype: pa.DataType | None = None
) -> Implementation:
    """A function of one date or timestamp from numbers to numbers; nulls stay."""

    def implementation(request: Request) -> Bound:
        result = dtype or request.result

        def kernel(value: pa.Array) -> pa.Array:
            valid = pc.is_valid(value) if value.null_count else None
            return from_numpy(compute(value), result, valid)

        return Bound(kernel)

    return implementation


def _part(index: int) -> Callable[[pa.Array], Values]:
    return lambda value: civil_from_days(days_of(value))[index]


def _clock(unit: str, modulus: int) -> Callable[[pa.Array], Values]:
    return lambda value: to_numpy(value) // UNITS_US[unit] % modulus


def _day_of_week(value: pa.Array) -> Values:
    """1 is Sunday; 1970-01-01 was a Thursday."""
    return (days_of(value) + 4) % 7 + 1


def _weekday(value: pa.Array) -> Values:
    """1 is Monday."""
    return weekday(days_of(value)) + 1


def _week(value: pa.Array) -> Values:
    """A week belongs to the year its Thursday is in."""
    days = days_of(value).astype(np.int64)
    return day_in_year(days - weekday(days) + 3) // 7 + 1


def _date_trunc(request: Request) -> Bound:
    unit = request.constant(0)
    zone = local_zone(request.operands[1])

    def start_of(micros: Values) -> Values:
        if unit in UNITS_MONTHS:
            return first_of_months(micros // DAY_US, UNITS_MONTHS[unit]) * DAY_US
        return _unit_start(micros, unit)

    def by_clocks(micros: Values) -> Values:
        """The beginning of an hour is so long ago as clocks say; a day begins when they first show
        it, should they show midnight twice."""
        rules = zone_rules(zone or "")
        shown = rules.from_utc(micros)
        if unit in CLOCK_UNITS:
            return rules.to_utc(start_of(shown))
        start: Values = micros - (shown - start_of(shown))
        return start

    def kernel(_: Datum, value: pa.Array) -> pa.Array:
        valid = pc.is_valid(value) if value.null_count else None
        raw = to_numpy(value)
        start = start_of(raw) if zone is None else by_clocks(raw)
        return from_numpy(start, request.result, valid)

    return Bound(kernel, array=1)


def _unit_start(micros: Values, unit: str) -> Values:
    """Weeks begin on Monday; day 4 was the first one."""
    size = UNITS_US[unit]
    shift = 4 * DAY_US if unit == "week" else 0
    return (micros - shift) // size * size + shift


def _add_interval(request: Request) -> Bound:
    """Quantity first: Spark looks at it before the timestamp."""
    unit = request.constant(2)
    zone = local_zone(request.operands[0])
    add: _Add = _add_months if unit in UNITS_MONTHS else _add_fixed
    if zone is not None and unit in CLOCK_UNITS:
        add = _by_clocks(add, zone)

    def kernel(value: Datum, number: Datum, _: Datum) -> Datum:
        start, n_units = arrays(value, number)
        return add(start, pc.if_else(pc.is_valid(start), n_units, _NO_UNITS), unit)

    return Bound(kernel, order="right")


def _by_clocks(add: _Add, zone: str) -> _Add:
    """A day later clocks show the same time, whatever was done to them between."""

    def added(value: pa.Array, number: pa.Array, unit: str) -> pa.Array:
        moved = add(to_wall(value, zone), number, unit)
        instants = zone_rules(zone).beside(to_numpy(moved), to_numpy(value))
        return from_numpy(instants, value.type, pc.is_valid(moved))

    return added


def _add_fixed(value: pa.Array, number: pa.Array, unit: str) -> pa.Array:
    shift = pc.multiply_checked(number, pa.scalar(UNITS_US[unit]))
    return pc.add_checked(value.view(pa.int64()), shift).view(value.type)


def _add_months(value: pa.Array, number: pa.Array, unit: str) -> pa.Array:
    """The day is cut to the length of the month it ends in. Where `value` is null `number` is."""
    months = to_numpy(pc.fill_null(number, 0))
    limit = _MONTHS_MAX * 12 // UNITS_MONTHS[unit] + 1
    if np.any(np.abs(months) > limit):
        raise ExpressionError(f"overflow: too many {unit}s")
    micros = to_numpy(value)
    days = micros // DAY_US
    later = months_later(days, months * UNITS_MONTHS[unit])
    moved = from_numpy(later, pa.int64(), pc.is_valid(number))
    time = from_numpy(micros - days * DAY_US, pa.int64())
    start = pc.multiply_checked(moved, pa.scalar(DAY_US))
    return pc.add_checked(start, time).view(value.type)


def _to_date(request: Request) -> Bound:
    if len(request.operands) == 2:
        return _parsed(request, lambda stamps: stamps.cast(pa.date32(), safe=False))
    return Bound(cast_kernel(request.operands[0], pa.date32())[0])


def _to_timestamp(request: Request) -> Bound:
    if len(request.operands) == 1:
        return Bound(cast_kernel(pa.string(), request.result)[0])
    return _parsed(request, lambda stamps: stamps)


def _parsed(request: Request, finish: Callable[[pa.Array], pa.Array]) -> Bound:
    """A string read by a pattern; null by a pattern that is null."""
    pattern = request.constant(1)
    try_ = request.name == "try_to_timestamp"
    if pattern is None:
        return all_null(request)
    parse = parser(pattern, try_=try_)
    return Bound(lambda value, _: finish(parse(value)), array=0)


def _date_format(request: Request) -> Bound:
    pattern = request.constant(1)
    if pattern is None:
        return all_null(request)
    write = writer(pattern, local_zone(request.operands[0]))
    return Bound(lambda value, _: write(value), array=0)


IMPLEMENTATIONS: dict[str, Implementation] = {
    "year": _whole(_part(0)),
    "month": _whole(_part(1)),
    "day": _whole(_part(2)),
    "quarter": _whole(lambda value: (civil_from_days(days_of(value))[1] + 2) // 3),
    "week": _whole(_week),
    "weekday": _whole(_weekday),
    "day_of_year": _whole(lambda value: day_in_year(days_of(value).astype(np.int64)) + 1),
    "hour": _whole(_clock("hour", 24)),
    "minute": _whole(_clock("minute", 60)),
    "second": _whole(_clock("second", 60)),
    "day_of_week": _whole(_day_of_week),
    "date_trunc": _date_trunc,
    "as_time_of": lambda _: Bound(lambda value, _: value, array=0),
    "to_date": _to_date,
    "to_timestamp": _to_timestamp,
    "try_to_timestamp": _to_timestamp,
    "date_format": _date_format,
    "add_interval": _add_interval,
}
