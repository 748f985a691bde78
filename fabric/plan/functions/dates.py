"""Functions of dates and timestamps: year … add_interval, and their text: to_date … date_format.

One job: their types. Fields are int32. A timestamp with a zone is read as clocks of its zone show
it: it is cast to a timestamp without a zone first, where no zone is needed for the answer. A date
becomes a UTC timestamp where a time is needed, as in Spark.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.durations import UNITS_MONTHS, UNITS_US
from fabric.plan.expr import Literal
from fabric.plan.faults import ArgumentFault
from fabric.plan.functions.datetime_patterns import check_pattern, read_by, tokens
from fabric.plan.functions.registry import (
    Arguments,
    Function,
    Rule,
    Signature,
    check_unit,
    wrong_type,
)
from fabric.plan.types import is_date, is_string, is_timestamp, plain
from fabric.plan.zones import local_zone, no_zone

UNITS = (*UNITS_US, *UNITS_MONTHS)
CLOCK_UNITS = UNITS[5:]
"""Those that clocks of a zone count: a day may have 23 hours."""
STAMP = pa.timestamp("us", "UTC")
WALL = pa.timestamp("us")
_OFFSETS = frozenset("Xx")


def time_type(name: str, index: int, dtype: pa.DataType) -> pa.DataType:
    """The argument as a timestamp of microseconds."""
    if is_date(dtype) or t.is_null(plain(dtype)):
        return STAMP
    if is_timestamp(dtype):
        zone = plain(dtype).tz
        if zone is not None and (fault := no_zone(zone)) is not None:
            raise ArgumentFault(f"{name} takes no {dtype}: {fault[0]}", index)
        return pa.timestamp("us", zone)
    raise wrong_type(name, index, dtype, "a timestamp or date", STAMP)


def clock_type(name: str, index: int, dtype: pa.DataType) -> pa.DataType:
    """The argument as what clocks show: without its zone, unless that is UTC."""
    stamp = time_type(name, index, dtype)
    return WALL if local_zone(stamp) else stamp


def _field(*, of_time: bool) -> Rule:
    """One field; of a date too, whose time is midnight."""

    def rule(args: Arguments) -> Signature:
        (dtype,) = args.types
        taken = pa.date32() if is_date(dtype) and not of_time else clock_type(args.name, 0, dtype)
        return Signature((taken,), pa.int32())

    return rule


def _date_trunc(args: Arguments) -> Signature:
    unit, dtype = args.types
    if not is_string(unit):
        raise wrong_type("date_trunc", 0, unit, "a unit such as 'hour'", None)
    check_unit("date_trunc", args.literals[0], 0, UNITS)
    stamp = time_type("date_trunc", 1, dtype)
    return Signature((pa.string(), stamp), stamp)


def _as_time_of(args: Arguments) -> Signature:
    given, like = args.types
    time_type("as_time_of", 0, given)
    time_type("as_time_of", 1, like)
    wanted = plain(like) if not t.is_null(plain(like)) else plain(given)
    wanted = pa.date32() if is_date(wanted) else time_type("as_time_of", 1, wanted)
    return Signature((wanted, wanted), wanted)


def _add_interval(args: Arguments) -> Signature:
    dtype, number, unit = args.types
    stamp = time_type("add_interval", 0, dtype)
    if not (t.is_integer(plain(number)) or t.is_null(plain(number))):
        raise wrong_type("add_interval", 1, number, "a whole number", pa.int64())
    if not is_string(unit):
        raise wrong_type("add_interval", 2, unit, "a unit such as 'hour'", None)
    check_unit("add_interval", args.literals[2], 2, UNITS)
    return Signature((stamp, pa.int64(), pa.string()), stamp)


def _to_date(args: Arguments) -> Signature:
    if len(args.types) == 2:
        _strings(args)
        return Signature((pa.string(), pa.string()), pa.date32())
    (dtype,) = args.types
    if is_string(dtype):
        raise wrong_type("to_date", 0, dtype, "a timestamp or date", pa.date32())
    taken = pa.date32() if is_date(dtype) else clock_type("to_date", 0, dtype)
    return Signature((taken,), pa.date32())


def _strings(args: Arguments) -> None:
    """All are strings, the first may be null, the second is a pattern to read by."""
    pattern = args.literals[1] if len(args.literals) == 2 else None
    if pattern is not None and isinstance(pattern.value, str):
        read_by(pattern.value, args.name)
    for index, dtype in enumerate(args.types):
        if not (is_string(dtype) or (index == 0 and t.is_null(plain(dtype)))):
            raise wrong_type(args.name, index, dtype, "a string", pa.string())


def _date_format(args: Arguments) -> Signature:
    stamp = time_type("date_format", 0, args.types[0])
    if not is_string(args.types[1]):
        raise wrong_type("date_format", 1, args.types[1], "a pattern such as 'yyyy-MM-dd'", None)
    if args.literals[1] is not None and args.literals[1].value is not None:
        check_pattern(str(args.literals[1].value))
    if local_zone(stamp) is None:
        stamp = STAMP
    elif not _writes_offset(args.literals[1]):
        stamp = WALL
    return Signature((stamp, pa.string()), pa.string())


def _writes_offset(pattern: Literal | None) -> bool:
    if pattern is None or pattern.value is None:
        return False
    parts = tokens(str(pattern.value))
    return any(kind == "letters" and text[0] in _OFFSETS for kind, text in parts)


def _to_timestamp(args: Arguments) -> Signature:
    _strings(args)
    return Signature((pa.string(),) * len(args.types), STAMP)


def _of_time(args: Arguments) -> bool:
    return len(args.types) == 1


FUNCTIONS = (
    Function("year", (1, 1), _field(of_time=False), "the year", total=True,
             text=".dt.year", spark="year"),
    Function("month", (1, 1), _field(of_time=False), "the month, 1 to 12", total=True,
             text=".dt.month", spark="month"),
    Function("day", (1, 1), _field(of_time=False), "the day of the month, 1 to 31",
             total=True, text=".dt.day", spark="day"),
    Function("hour", (1, 1), _field(of_time=True), "the hour, 0 to 23",
             total=True, text=".dt.hour", spark="hour"),
    Function("minute", (1, 1), _field(of_time=True), "the minute, 0 to 59",
             total=True, text=".dt.minute", spark="minute"),
    Function("second", (1, 1), _field(of_time=True), "the whole second, 0 to 59",
             total=True, text=".dt.second", spark="second"),
    Function("day_of_week", (1, 1), _field(of_time=False),
             "the day of the week, 1 (Sunday) to 7", total=True,
             text=".dt.day_of_week", spark="dayofweek"),
    Function("date_trunc", (2, 2), _date_trunc, "the beginning of the unit that b lies in", (0,),
             total=True, text=".dt.date_trunc", subject=1),
    Function("quarter", (1, 1), _field(of_time=False), "the quarter, 1 to 4",
             total=True, text=".dt.quarter", spark="quarter"),
    Function("week", (1, 1), _field(of_time=False), "the week of the ISO year, 1 to 53",
             total=True, text=".dt.week", spark="weekofyear"),
    Function("weekday", (1, 1), _field(of_time=False),
             "the day of the ISO week, 1 (Monday) to 7", total=True, text=".dt.weekday"),
    Function("day_of_year", (1, 1), _field(of_time=False),
             "the day of the year, 1 to 366", total=True,
             text=".dt.day_of_year", spark="dayofyear"),
    Function("date_format", (2, 2), _date_format, "written by a Spark pattern (constant)", (1,),
             total=True, text=".dt.date_format", spark="date_format"),
    Function("to_date", (1, 2), _to_date,
             "the day of a timestamp, or of a string by a Spark pattern (constant)", (1,),
             total=_of_time, text=".dt.date"),
    Function("to_timestamp", (1, 2), _to_timestamp,
             "a string as a timestamp, by a Spark pattern (constant) when given", (1,)),
    Function("try_to_timestamp", (2, 2), _to_timestamp,
             "as to_timestamp; null where the string does not fit the pattern", (1,), total=True),
    Function("add_interval", (3, 3), _add_interval, "b units (constant c) after a", (2,),
             text=".dt.add"),
    Function("as_time_of", (2, 2), _as_time_of, "a as the date or the timestamp that b is",
             total=True, text=".dt.as_time_of"),
)  # fmt: skip
