"""Times and durations as numbers: unix_seconds … timestamp_micros, parts of a second, total_days ….

Here are their types. Numbers since 1970 are int64, those of days int32; parts are int32. A duration
is what timestamps are apart, counted in microseconds, like Spark's day-time interval;
`arithmetic.py` asks `with_times` before it looks for numbers.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.functions.dates import STAMP, clock_type, time_type
from fabric.plan.functions.registry import Arguments, Function, Rule, Signature, takes, wrong_type
from fabric.plan.types import is_date, is_timestamp, plain
from fabric.plan.zones import local_zone

SPAN = pa.duration("us")
TOTALS = ("days", "hours", "minutes", "seconds", "milliseconds", "microseconds")


def _part(args: Arguments) -> Signature:
    return Signature((clock_type(args.name, 0, args.types[0]),), pa.int32())


def _since(args: Arguments) -> Signature:
    time_type(args.name, 0, args.types[0])
    return Signature((STAMP,), pa.int64())


def _whole(taken: pa.DataType, result: pa.DataType) -> Rule:
    def rule(args: Arguments) -> Signature:
        dtype = plain(args.types[0])
        if not (t.is_integer(dtype) or t.is_null(dtype)):
            raise wrong_type(args.name, 0, dtype, "a whole number", taken)
        return Signature((taken,), result)

    return rule


def is_duration(dtype: pa.DataType) -> bool:
    """A duration in any unit."""
    return bool(t.is_duration(plain(dtype)))


def _is_time(dtype: pa.DataType) -> bool:
    return is_date(dtype) or is_timestamp(dtype)


def with_times(args: Arguments) -> Signature | None:
    """The signature when times or durations are added, subtracted, multiplied or negated, or None.

    timestamp - timestamp   duration        duration + duration   duration
    timestamp + duration    timestamp       duration * integer    duration
    date + duration         date, as in Python: hours that make no whole day are dropped
    """
    types = args.types
    if not any(is_duration(d) or is_timestamp(d) for d in types) and not _dates(args.name, types):
        return None
    if len(types) == 1:
        return Signature((SPAN,), SPAN) if is_duration(types[0]) else None
    left, right = types
    if args.name == "subtract" and _is_time(left) and (_is_time(right) or t.is_null(plain(right))):
        stamps = _stamps(args.name, types)
        return Signature(stamps, SPAN)
    if args.name == "add" and is_duration(left) and _is_time(right):
        stamp = time_type(args.name, 1, right)
        return Signature((SPAN, stamp), _moved(right, stamp))
    if args.name in ("add", "subtract") and is_duration(right):
        stamp = time_type(args.name, 0, left) if _is_time(left) else SPAN
        if _is_time(left) or is_duration(left):
            return Signature((stamp, SPAN), _moved(left, stamp))
        return None
    if args.name == "multiply" and is_duration(left) and t.is_integer(plain(right)):
        return Signature((SPAN, pa.int64()), SPAN)
    if args.name == "multiply" and is_duration(right) and t.is_integer(plain(left)):
        return Signature((pa.int64(), SPAN), SPAN)
    return None


def _moved(given: pa.DataType, stamp: pa.DataType) -> pa.DataType:
    return pa.date32() if is_date(given) else stamp


def _dates(name: str, types: tuple[pa.DataType, ...]) -> bool:
    return name == "subtract" and all(map(is_date, types))


def _stamps(name: str, types: tuple[pa.DataType, ...]) -> tuple[pa.DataType, ...]:
    """Both as one type: without a zone when neither has one."""
    found = [time_type(name, index, dtype) for index, dtype in enumerate(types)]
    zoned = {stamp for stamp in found if local_zone(stamp)}
    stamp = found[0] if found[0].equals(found[1]) else STAMP
    if len(zoned) == 1:  # one without a zone is what clocks there show
        stamp = zoned.pop()
    return stamp, stamp


def _total(args: Arguments) -> Signature:
    if not (is_duration(args.types[0]) or t.is_null(plain(args.types[0]))):
        raise wrong_type(args.name, 0, args.types[0], "a duration (timestamp - timestamp)", None)
    return Signature((SPAN,), pa.int64())


FUNCTIONS = (
    *(Function(unit, (1, 1), _part, f"the {unit}s after the whole second", total=True,
               text=f".dt.{unit}")
      for unit in ("millisecond", "microsecond", "nanosecond")),
    *(Function(f"unix_{unit}", (1, 1), _since,
               f"whole {name} since 1970-01-01 00:00 UTC, floored", total=True,
               text=f".dt.unix_{unit}", spark=f"unix_{unit}")
      for unit, name in (("seconds", "seconds"), ("millis", "milliseconds"),
                         ("micros", "microseconds"))),
    Function("unix_date", (1, 1), takes((pa.date32(),), pa.int32()), "days since 1970-01-01",
             total=True, text=".dt.unix_date", spark="unix_date"),
    Function("date_from_unix_date", (1, 1),
             _whole(pa.int32(), pa.date32()),
             "the date so many days after 1970-01-01", total=True, spark="date_from_unix_date"),
    Function("timestamp_seconds", (1, 1), _whole(pa.int64(), STAMP),
             "the time so many seconds after 1970-01-01 00:00 UTC; overflow is an error",
             spark="timestamp_seconds"),
    Function("timestamp_millis", (1, 1), _whole(pa.int64(), STAMP),
             "the time so many milliseconds after it; overflow is an error",
             spark="timestamp_millis"),
    Function("timestamp_micros", (1, 1), _whole(pa.int64(), STAMP),
             "the time so many microseconds after it", total=True, spark="timestamp_micros"),
    *(Function(f"total_{unit}", (1, 1), _total,
               f"the whole {unit} of a duration, truncated", total=True, text=f".dt.total_{unit}")
      for unit in TOTALS),
)  # fmt: skip
