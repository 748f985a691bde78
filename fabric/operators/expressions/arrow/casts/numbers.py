"""Casts between integers, floats and booleans, and the shape of a cast that some values fail.

A float is truncated towards zero before it becomes an integer; what does not fit, and NaN, is an
overflow. `checked` tests the values as a whole; with ``try_`` failing ones become null, else the
first of them is named in the error. Decimals are in `decimals.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.bound import Datum, Kernel

Test = Callable[[pa.Array], pa.Array]
Cast = tuple[Kernel, bool]
"""A kernel over an array, and whether it is total."""


def cast_numbers(source: pa.DataType, target: pa.DataType, *, try_: bool) -> Cast:
    """The kernel of a cast and whether it is total."""
    if t.is_boolean(target):
        zero = pa.scalar(0, source) if t.is_integer(source) else pa.scalar(0.0, source)
        return (lambda value: pc.not_equal(value, zero)), True
    if t.is_boolean(source) or t.is_floating(target):
        return (lambda value: value.cast(target, safe=False)), True
    if t.is_floating(source):
        saturating = _to_integer(target)
        return checked(_float_fits(source, target), saturating, target, try_=try_)
    if _widens(source, target):
        return (lambda value: value.cast(target)), True
    low = max(limits(source)[0], limits(target)[0])
    high = min(limits(source)[1], limits(target)[1])
    fits = between(pa.scalar(low, source), pa.scalar(high, source))
    return checked(fits, lambda value: value.cast(target), target, try_=try_)


def limits(dtype: pa.DataType) -> tuple[int, int]:
    """The smallest and largest value of an integer type.

    >>> limits(pa.int8()), limits(pa.uint8())
    ((-128, 127), (0, 255))
    """
    bits = dtype.bit_width
    if t.is_signed_integer(dtype):
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    return limits(source)[0] >= limits(target)[0] and limits(source)[1] <= limits(target)[1]


def _float_fits(source: pa.DataType, target: pa.DataType) -> Test:
    """The truncated value lies within the limits, where a float is compared with them as a float.

    So 2**63 counts as the largest int64, which it is when that is made a float; Spark has it so.
    """
    low, high = (pa.scalar(float(limit), pa.float64()) for limit in limits(target))
    test = between(low, high)
    return lambda value: test(pc.trunc(value.cast(pa.float64())))


def _to_integer(target: pa.DataType) -> Kernel:
    """Truncates; the float above the largest integer becomes that integer."""
    largest = limits(target)[1]
    above = pa.scalar(float(largest + 1), pa.float64())

    def convert(value: pa.Array) -> pa.Array:
        wide = value.cast(pa.float64())
        over = pc.equal(wide, above)
        if not pc.any(over).as_py():
            return wide.cast(target, safe=False)
        rest = pc.if_else(over, pa.scalar(0.0), wide).cast(target, safe=False)
        return pc.if_else(over, pa.scalar(largest, target), rest)

    return convert


def checked(fits: Test, convert: Kernel, target: pa.DataType, *, try_: bool) -> Cast:
    """A cast of the values that `fits` finds good; null is neither good nor bad."""

    def kernel(value: pa.Array) -> Datum:
        good = fits(value)
        if pc.all(good).as_py() is False:
            if not try_:
                bad = value.filter(pc.invert(good))[0].as_py()
                raise ExpressionError(f"overflow: {bad} does not fit {target}")
            value = pc.if_else(good, value, pa.scalar(None, value.type))
        return convert(value)

    return kernel, try_


def between(low: pa.Scalar, high: pa.Scalar) -> Test:
    """Whether ``low <= value <= high``."""
    return lambda value: pc.and_(pc.greater_equal(value, low), pc.less_equal(value, high))
