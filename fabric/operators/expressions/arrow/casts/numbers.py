"""Casts between integers, floats and booleans.

One job: a float is truncated towards zero before it becomes an integer; what does not fit, and NaN,
is an overflow. Decimals are in `to_decimal.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.bound import Datum, Kernel


def cast_kernel(source: pa.DataType, target: pa.DataType, *, try_: bool) -> tuple[Kernel, bool]:
    """The kernel of a cast and whether it is total."""
    if t.is_boolean(target):
        zero = pa.scalar(0).cast(source)
        return (lambda value: pc.not_equal(value, zero)), True
    if t.is_boolean(source) or t.is_floating(target):
        return (lambda value: value.cast(target, safe=False)), True
    if _widens(source, target):
        return (lambda value: value.cast(target)), True
    fits = _float_fits(source, target) if t.is_floating(source) else _integer_fits(source, target)

    def kernel(value: Datum) -> Datum:
        ok = fits(value)
        if pc.all(ok).as_py() is False:
            if not try_:
                raise ExpressionError(f"overflow: a value does not fit {target}")
            value = pc.if_else(ok, value, pa.scalar(None, source))
        return value.cast(target, safe=False)

    return kernel, try_


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    if not (t.is_integer(source) and t.is_integer(target)):
        return False
    return bool(limits(source)[0] >= limits(target)[0] and limits(source)[1] <= limits(target)[1])


def limits(dtype: pa.DataType) -> tuple[int, int]:
    """The smallest and largest value of an integer type.

    >>> limits(pa.int8()), limits(pa.uint8())
    ((-128, 127), (0, 255))
    """
    bits = dtype.bit_width
    if t.is_signed_integer(dtype):
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1


def _integer_fits(source: pa.DataType, target: pa.DataType) -> Callable[[Datum], Datum]:
    low = max(limits(source)[0], limits(target)[0])
    high = min(limits(source)[1], limits(target)[1])
    return between(pa.scalar(low, source), pa.scalar(high, source))


def _float_fits(source: pa.DataType, target: pa.DataType) -> Callable[[Datum], Datum]:
    """Truncated, the value lies in ``[low, high + 1)``, whose ends are powers of two or zero."""
    low, high = limits(target)
    above = pa.scalar(float(high + 1), source)

    def fits(value: Datum) -> Datum:
        whole = pc.trunc(value)
        return pc.and_(
            pc.greater_equal(whole, pa.scalar(float(low), source)), pc.less(whole, above)
        )

    return fits


def between(low: pa.Scalar, high: pa.Scalar) -> Callable[[Datum], Datum]:
    """A test for ``low <= value <= high``; null for null."""
    return lambda value: pc.and_(pc.greater_equal(value, low), pc.less_equal(value, high))
