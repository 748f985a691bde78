"""Times as numbers since 1970 and back: unix_seconds … timestamp_micros; parts of a second.

One job: their types. Numbers since 1970 are int64, those of days int32; parts are int32.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.functions.dates import STAMP, clock_type, time_type
from fabric.plan.functions.registry import Arguments, Function, Rule, Signature, wrong_type
from fabric.plan.types import is_date, is_timestamp, plain


def _part(name: str) -> Rule:
    def rule(args: Arguments) -> Signature:
        return Signature((clock_type(name, 0, args.types[0]),), pa.int32())

    return rule


def _since(name: str) -> Rule:
    def rule(args: Arguments) -> Signature:
        time_type(name, 0, args.types[0])
        return Signature((STAMP,), pa.int64())

    return rule


def _unix_date(args: Arguments) -> Signature:
    dtype = args.types[0]
    if not (is_date(dtype) or is_timestamp(dtype) or t.is_null(plain(dtype))):
        raise wrong_type("unix_date", 0, dtype, "a date or timestamp", pa.date32())
    return Signature((pa.date32(),), pa.int32())


def _whole(name: str, taken: pa.DataType, result: pa.DataType) -> Rule:
    def rule(args: Arguments) -> Signature:
        dtype = plain(args.types[0])
        if not (t.is_integer(dtype) or t.is_null(dtype)):
            raise wrong_type(name, 0, dtype, "a whole number", taken)
        return Signature((taken,), result)

    return rule


FUNCTIONS = (
    *(Function(unit, (1, 1), _part(unit), f"the {unit}s after the whole second", total=True,
               text=f".dt.{unit}")
      for unit in ("millisecond", "microsecond", "nanosecond")),
    *(Function(f"unix_{unit}", (1, 1), _since(f"unix_{unit}"),
               f"whole {name} since 1970-01-01 00:00 UTC, floored", total=True,
               text=f".dt.unix_{unit}", spark=f"unix_{unit}")
      for unit, name in (("seconds", "seconds"), ("millis", "milliseconds"),
                         ("micros", "microseconds"))),
    Function("unix_date", (1, 1), _unix_date, "days since 1970-01-01", total=True,
             text=".dt.unix_date", spark="unix_date"),
    Function("date_from_unix_date", (1, 1),
             _whole("date_from_unix_date", pa.int32(), pa.date32()),
             "the date so many days after 1970-01-01", total=True, spark="date_from_unix_date"),
    Function("timestamp_seconds", (1, 1), _whole("timestamp_seconds", pa.int64(), STAMP),
             "the time so many seconds after 1970-01-01 00:00 UTC; overflow is an error",
             spark="timestamp_seconds"),
    Function("timestamp_millis", (1, 1), _whole("timestamp_millis", pa.int64(), STAMP),
             "the time so many milliseconds after it; overflow is an error",
             spark="timestamp_millis"),
    Function("timestamp_micros", (1, 1), _whole("timestamp_micros", pa.int64(), STAMP),
             "the time so many microseconds after it", total=True, spark="timestamp_micros"),
)  # fmt: skip
