"""Durations: what timestamps are apart, and arithmetic with it; total_days … total_microseconds.

One job: their types. A duration is counted in microseconds, like Spark's day-time interval;
`arithmetic.py` asks `with_times` before it looks for numbers.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.functions.dates import STAMP, time_type
from fabric.plan.functions.registry import Arguments, Function, Rule, Signature, wrong_type
from fabric.plan.types import is_date, is_timestamp, plain
from fabric.plan.zones import local_zone

SPAN = pa.duration("us")
TOTALS = ("days", "hours", "minutes", "seconds", "milliseconds", "microseconds")


def is_duration(dtype: pa.DataType) -> bool:
    """A duration in any unit."""
    return bool(t.is_duration(plain(dtype)))


def _is_time(dtype: pa.DataType) -> bool:
    return is_date(dtype) or is_timestamp(dtype)


def with_times(name: str, args: Arguments) -> Signature | None:
    """The signature when times or durations are added, subtracted, multiplied or negated, or None.

    timestamp - timestamp   duration        duration + duration   duration
    timestamp + duration    timestamp       duration * integer    duration
    date + duration         date, as in Python: hours that make no whole day are dropped
    """
    types = args.types
    if not any(is_duration(d) or is_timestamp(d) for d in types) and not _dates(name, types):
        return None
    if len(types) == 1:
        return Signature((SPAN,), SPAN) if is_duration(types[0]) else None
    left, right = types
    if name == "subtract" and _is_time(left) and (_is_time(right) or t.is_null(plain(right))):
        stamps = _stamps(name, types)
        return Signature(stamps, SPAN)
    if name == "add" and is_duration(left) and _is_time(right):
        stamp = time_type(name, 1, right)
        return Signature((SPAN, stamp), _moved(right, stamp))
    if name in ("add", "subtract") and is_duration(right):
        stamp = time_type(name, 0, left) if _is_time(left) else SPAN
        if _is_time(left) or is_duration(left):
            return Signature((stamp, SPAN), _moved(left, stamp))
        return None
    if name == "multiply" and is_duration(left) and t.is_integer(plain(right)):
        return Signature((SPAN, pa.int64()), SPAN)
    if name == "multiply" and is_duration(right) and t.is_integer(plain(left)):
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


def _total(name: str) -> Rule:
    def rule(args: Arguments) -> Signature:
        if not (is_duration(args.types[0]) or t.is_null(plain(args.types[0]))):
            raise wrong_type(name, 0, args.types[0], "a duration (timestamp - timestamp)", None)
        return Signature((SPAN,), pa.int64())

    return rule


FUNCTIONS = tuple(
    Function(f"total_{unit}", (1, 1), _total(f"total_{unit}"),
             f"the whole {unit} of a duration, truncated", total=True, text=f".dt.total_{unit}")
    for unit in TOTALS
)  # fmt: skip
