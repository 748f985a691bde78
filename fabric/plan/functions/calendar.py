"""Days and months to count with: last_day … make_timestamp.

One job: their types. A timestamp counts as its day where a day is wanted, a date as its midnight
where a time is; months and days are int32, as in Spark.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.functions.dates import CLOCK_UNITS, STAMP, UNITS, WALL, time_type
from fabric.plan.functions.registry import (
    Arguments,
    Function,
    Rule,
    Signature,
    check_unit,
    takes,
    wrong_type,
)
from fabric.plan.types import is_boolean, is_string, numeric, plain
from fabric.plan.zones import local_zone

DAY, I = pa.date32(), pa.int32()  # noqa: E741
DAY_UNITS = ("week", "month", "quarter", "year")
DAY_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SECONDS = pa.decimal128(16, 6)


def _of_names(names: tuple[str, ...]) -> Rule:
    """A day and a constant that is one of `names`."""

    def rule(args: Arguments) -> Signature:
        takes((DAY,), DAY)(args)
        if not is_string(args.types[1]):
            raise wrong_type(args.name, 1, args.types[1], f"a text such as {names[0]!r}", None)
        check_unit(args.name, args.literals[1], 1, names)
        return Signature((DAY, pa.string()), DAY)

    return rule


def _months_between(args: Arguments) -> Signature:
    stamp = _both(args, 0, 1)
    if not is_boolean(args.types[2]):
        raise wrong_type("months_between", 2, args.types[2], "true or false", None)
    return Signature((stamp, stamp, pa.bool_()), pa.float64())


def _both(args: Arguments, *places: int) -> pa.DataType:
    """What clocks show when both are of one zone, else the time in UTC."""
    stamps = {time_type(args.name, index, args.types[index]) for index in places}
    zones = {local_zone(stamp) for stamp in stamps}
    return WALL if len(zones) == 1 and None not in zones else STAMP


def _timestamp_diff(args: Arguments) -> Signature:
    unit = args.types[0]
    if not is_string(unit):
        raise wrong_type("timestamp_diff", 0, unit, "a unit such as 'hour'", None)
    check_unit("timestamp_diff", args.literals[0], 0, UNITS)
    stamp = _both(args, 1, 2)
    if args.literals[0] is None or args.literals[0].value not in CLOCK_UNITS:
        stamp = STAMP  # hours that went by, also where clocks were changed between
    return Signature((pa.string(), stamp, stamp), pa.int64())


def _coarse(args: Arguments) -> bool:
    """The longest time there is has more microseconds than an int64 counts."""
    unit = args.literals[0]
    return unit is not None and unit.value != "microsecond"


def _make_timestamp(args: Arguments) -> Signature:
    takes((I,) * 5, STAMP)(args)
    if numeric(args.types[5]) is None and not t.is_null(plain(args.types[5])):
        raise wrong_type("make_timestamp", 5, args.types[5], "a number of seconds", _SECONDS)
    return Signature((I, I, I, I, I, _SECONDS), STAMP)


FUNCTIONS = (
    Function("last_day", (1, 1), takes((DAY,), DAY), "the last day of the month", total=True,
             text=".dt.last_day", spark="last_day"),
    Function("trunc", (2, 2), _of_names(DAY_UNITS),
             "the first day of the week, month, quarter or year (constant)", (1,), total=True,
             text=".dt.trunc", spark="trunc"),
    Function("next_day", (2, 2), _of_names(DAY_NAMES),
             "the first day after a that is called b (constant)", (1,), total=True,
             text=".dt.next_day", spark="next_day"),
    Function("date_add", (2, 2), takes((DAY, I), DAY), "b days after a", total=True,
             text=".dt.date_add", spark="date_add"),
    Function("add_months", (2, 2), takes((DAY, I), DAY),
             "b months after a, the day cut to the month's length; overflow is an error",
             text=".dt.add_months", spark="add_months"),
    Function("date_diff", (2, 2), takes((DAY, DAY), I), "the days from b to a", total=True,
             text=".dt.date_diff", spark="datediff"),
    Function("months_between", (3, 3), _months_between,
             "the months from b to a, of 31 days where they are not whole, to 8 digits if c",
             total=True, text=".dt.months_between", spark="months_between"),
    Function("timestamp_diff", (3, 3), _timestamp_diff,
             "whole units a (constant) from b to c, truncated", (0,), total=_coarse,
             text=".dt.timestamp_diff", subject=2),
    Function("make_date", (3, 3), takes((I, I, I), DAY), "the day of a year, month and day",
             spark="make_date"),
    Function("make_timestamp", (6, 6), _make_timestamp,
             "the time of a year, month, day, hour, minute and seconds", spark="make_timestamp"),
)  # fmt: skip
