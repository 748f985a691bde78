"""Casts to and from decimals.

One job: to a decimal a value is rounded half up, from one it is truncated; what does not fit is an
overflow. A float counts by its shortest decimal text; NaN and infinity become null, as in Spark.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.operators.expressions.arrow.bound import Kernel, from_numpy, to_numpy
from fabric.operators.expressions.arrow.casts.numbers import (
    Cast,
    Test,
    between,
    cast_numbers,
    checked,
    limits,
)
from fabric.operators.expressions.arrow.decimals import AWAY, DIGITS_MAX, half_up, wide
from fabric.operators.expressions.arrow.digits import scaled

_EXACT_DIGITS = 15
"""Decimals of so many digits are exact in a float64 once the point is taken out."""
_COMPACT_DIGITS = 18
"""Above, Spark casts to integers of less than 64 bits by way of a float64, and so do we."""


def to_decimal(source: pa.DataType, target: pa.DataType, *, try_: bool) -> Cast:
    """The cast of a number or boolean to a decimal, and whether it is total."""
    if t.is_floating(source):
        return _from_floats(target, try_=try_)
    if t.is_boolean(source):
        kernel, total = to_decimal(pa.int8(), target, try_=try_)
        return (lambda value: kernel(value.cast(pa.int8()))), total
    if t.is_integer(source):
        source = pa.decimal256(len(str(limits(source)[1])), 0)
    whole = target.precision - target.scale
    needed = source.precision - source.scale + (source.scale > target.scale)
    convert = _rescaled(target)
    if needed <= whole:
        return convert, True
    return checked(_below(whole, target.scale), convert, target, try_=try_)


def _at_scale(value: pa.Array, scale: int) -> pa.Array:
    """Rounded half away from zero where there are more fraction digits."""
    digits = wide(value)
    if digits.type.scale <= scale:
        return digits
    return pc.round(digits, ndigits=scale, round_mode=AWAY)


def _rescaled(target: pa.DataType) -> Kernel:
    return lambda value: _at_scale(value, target.scale).cast(target)


def _below(whole: int, scale: int) -> Test:
    """Whether the rounded value has at most `whole` digits before the point."""

    def fits(value: pa.Array) -> pa.Array:
        rounded = _at_scale(value, scale)
        limit = pa.scalar(Decimal(10) ** whole, rounded.type)
        return pc.less(pc.abs(rounded), limit)

    return fits


def _from_floats(target: pa.DataType, *, try_: bool) -> Cast:
    """By the digits of `scaled` where all are certain, else value by value."""
    limit = Decimal(10) ** (target.precision - target.scale)

    def finite(value: pa.Array) -> pa.Array:
        return pc.if_else(pc.is_finite(value), value, pa.scalar(None, value.type))

    def fits(value: pa.Array) -> pa.Array:
        rounded = _digits(finite(value), target.scale)
        good = [None if d is None else abs(d) < limit for d in rounded]
        return pa.array(good, pa.bool_())

    def convert(value: pa.Array) -> pa.Array:
        return pa.array(_digits(finite(value), target.scale), target)

    slow, _ = checked(fits, convert, target, try_=try_)

    def kernel(value: pa.Array) -> pa.Array:
        known = finite(value)
        whole, doubtful = scaled(
            to_numpy(pc.fill_null(known, 0.0)).astype(np.float64), target.scale
        )
        if doubtful.any() or np.abs(whole).max(initial=0) >= 10.0 ** min(target.precision, 15):
            return slow(value)
        digits = from_numpy(whole.astype(np.int64), pa.int64(), pc.is_valid(known))
        return with_scale(digits.cast(pa.decimal128(19, 0)), target)

    return kernel, try_


def _digits(values: pa.Array, scale: int) -> list[Decimal | None]:
    texts = (None if v is None else repr(float(v)) for v in values.to_pylist())
    return [None if text is None else half_up(Decimal(text), scale) for text in texts]


def with_scale(digits: pa.Array, target: pa.DataType) -> pa.Array:
    """Whole decimal128 numbers read as the digits of a decimal with a fraction."""
    return pa.Array.from_buffers(target, len(digits), digits.buffers(), offset=digits.offset)


def from_decimal(source: pa.DataType, target: pa.DataType, *, try_: bool) -> Cast:
    """The cast of a decimal to a number or boolean, and whether it is total."""
    if t.is_boolean(target):
        zero = pa.scalar(Decimal(0), source)
        return (lambda value: pc.not_equal(value, zero)), True
    if t.is_floating(target):
        return (lambda value: _to_floats(value).cast(target, safe=False)), True
    if source.precision > _COMPACT_DIGITS and target.bit_width < 64:
        convert, total = cast_numbers(pa.float64(), target, try_=try_)
        return (lambda value: convert(_to_floats(value))), total
    low, high = (pa.scalar(Decimal(n), pa.decimal256(DIGITS_MAX, 0)) for n in limits(target))
    test = between(low, high)
    return checked(
        lambda value: test(_whole(value)), lambda v: _whole(v).cast(target), target, try_=try_
    )


def _whole(value: pa.Array) -> pa.Array:
    return pc.trunc(wide(value)).cast(pa.decimal256(DIGITS_MAX, 0))


def _to_floats(value: pa.Array) -> pa.Array:
    """As float64, correctly rounded, which Arrow's own cast is not."""
    if value.type.precision <= _EXACT_DIGITS:
        digits = np.frombuffer(value.buffers()[1], np.int64)[::2][value.offset :][: len(value)]
        valid = pc.is_valid(value) if value.null_count else None
        return from_numpy(digits / 10.0**value.type.scale, pa.float64(), valid)
    floats = [None if d is None else float(d) for d in value.to_pylist()]
    return pa.array(floats, pa.float64())
