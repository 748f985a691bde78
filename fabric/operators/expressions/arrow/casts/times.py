"""Casts among dates, timestamps and numbers of seconds, and between units of time.

One job: a finer unit is floored; what a timestamp can't hold is an overflow. A timestamp with a
zone is an instant; one without is taken as it stands. What clocks of a zone show is in `zones.py`.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.bound import Kernel, bad_value, from_numpy, to_numpy
from fabric.operators.expressions.arrow.casts.decimals import to_decimal, with_scale
from fabric.operators.expressions.arrow.casts.numbers import (
    Cast,
    between,
    cast_numbers,
    checked,
    limits,
)
from fabric.operators.expressions.arrow.decimals import DIGITS_MAX, wrapped
from fabric.operators.expressions.arrow.zones import PER_SECOND

_DAY_S = 86_400
_INT64 = pa.int64()


def cast_times(source: pa.DataType, target: pa.DataType, *, try_: bool) -> Cast:
    """Between dates and timestamps."""
    if t.is_date(target):
        per_day = PER_SECOND[source.unit] * _DAY_S
        return (lambda value: floored(value, per_day).cast(pa.int32()).view(target)), True
    if t.is_date(source):
        per_day = PER_SECOND[target.unit] * _DAY_S
        return _scaled_up(per_day, pa.int32(), target, try_=try_)
    before, after = PER_SECOND[source.unit], PER_SECOND[target.unit]
    if before >= after:
        return (lambda value: floored(value, before // after).view(target)), True
    return _scaled_up(after // before, _INT64, target, try_=try_)


def floored(value: pa.Array, step: int) -> pa.Array:
    """The numbers of a time array in a coarser unit, as int64."""
    if step == 1:
        return value.view(_INT64)
    valid = pc.is_valid(value) if value.null_count else None
    return from_numpy(to_numpy(value) // step, _INT64, valid)


def _scaled_up(step: int, raw: pa.DataType, target: pa.DataType, *, try_: bool) -> Cast:
    """A coarser unit in a finer one."""
    high = limits(_INT64)[1] // step
    test = between(pa.scalar(-high, _INT64), pa.scalar(high, _INT64))

    def numbers(value: pa.Array) -> pa.Array:
        return value.view(raw).cast(_INT64)

    def convert(value: pa.Array) -> pa.Array:
        return pc.multiply(numbers(value), pa.scalar(step)).view(target)

    if step == 1:
        return (lambda value: numbers(value).view(target)), True
    return checked(lambda value: test(numbers(value)), convert, target, try_=try_)


def from_timestamp(source: pa.DataType, target: pa.DataType, *, try_: bool) -> Cast:
    """A timestamp as seconds since 1970: floored to an integer, with its fraction otherwise."""
    per_second = PER_SECOND[source.unit]
    if t.is_integer(target):
        kernel, total = cast_numbers(_INT64, target, try_=try_)
        return (lambda value: kernel(floored(value, per_second))), total
    if t.is_floating(target):
        return (lambda value: _seconds(value, per_second).cast(target, safe=False)), True
    digits = len(str(per_second)) - 1
    exact = pa.decimal128(19 + (digits == 0), digits)
    kernel, total = to_decimal(exact, target, try_=try_)

    def convert(value: pa.Array) -> pa.Array:
        whole = value.view(_INT64).cast(pa.decimal128(19, 0))
        return kernel(with_scale(whole, exact))

    return convert, total


def _seconds(value: pa.Array, per_second: int) -> pa.Array:
    number = value.view(_INT64).cast(pa.float64(), safe=False)
    return pc.divide(number, pa.scalar(float(per_second)))


def to_timestamp(source: pa.DataType, target: pa.DataType, *, try_: bool) -> Cast:
    """Seconds since 1970 as a timestamp; whole seconds saturate, as in Spark."""
    finish, total = cast_times(pa.timestamp("us", target.tz), target, try_=try_)
    micros = pa.timestamp("us", target.tz)
    if t.is_integer(source):
        bound = limits(_INT64)[1] // PER_SECOND["us"]
        return _then(lambda value: _saturated(value, bound).view(micros), finish), total
    if t.is_floating(source):
        convert, _ = cast_numbers(pa.float64(), _INT64, try_=try_)
        return _then(lambda v: convert(_micros(v, try_=try_)).view(micros), finish), try_
    return _then(lambda value: _decimal_micros(value).view(micros), finish), total


def _then(first: Kernel, second: Kernel) -> Kernel:
    return lambda value: second(first(value))


def _saturated(value: pa.Array, bound: int) -> pa.Array:
    """Seconds in microseconds; beyond the range the ends of it."""
    low, high = limits(_INT64)
    seconds = value.cast(_INT64)
    inside = between(pa.scalar(-bound), pa.scalar(bound))(seconds)
    scaled = pc.multiply(pc.if_else(inside, seconds, 0), pa.scalar(1_000_000))
    end = pc.if_else(pc.greater(seconds, 0), pa.scalar(high), pa.scalar(low))
    return pc.if_else(inside, scaled, end)


def _micros(value: pa.Array, *, try_: bool) -> pa.Array:
    """Microseconds as floats; NaN and infinity are no time."""
    finite = pc.is_finite(value)
    if pc.all(finite).as_py() is False:
        if not try_:
            bad = value.filter(pc.invert(finite))[0].as_py()
            raise ExpressionError(bad_value(bad, pa.timestamp("us")).message)
        value = pc.if_else(finite, value, pa.scalar(None, value.type))
    return pc.multiply(value.cast(pa.float64()), pa.scalar(1e6))


def _decimal_micros(value: pa.Array) -> pa.Array:
    """Decimal seconds as microseconds, truncated; Spark wraps what is too large, and so do we."""
    million = pa.scalar(Decimal(1_000_000), pa.decimal256(7, 0))
    exact = pc.multiply(value.cast(pa.decimal256(38, value.type.scale)), million)
    micros = pc.trunc(exact).cast(pa.decimal256(DIGITS_MAX, 0))
    low, high = (pa.scalar(Decimal(n), pa.decimal256(DIGITS_MAX, 0)) for n in limits(_INT64))
    if pc.all(between(low, high)(micros)).as_py() is not False:
        return micros.cast(_INT64)
    return pa.array([None if d is None else wrapped(int(d)) for d in micros.to_pylist()], _INT64)
